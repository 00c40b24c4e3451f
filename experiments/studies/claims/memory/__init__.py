"""What becomes of trained networks under other steps: their memory, their dynamics, other sampling rates."""
