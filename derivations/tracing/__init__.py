"""The torch code of fields and cells: recorded by torch, read in SymPy, and compared with equations."""
