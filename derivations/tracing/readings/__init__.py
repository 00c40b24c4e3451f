"""What torch's operations are in SymPy: on entries, on arrays, and where they are defined."""
