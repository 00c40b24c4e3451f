"""Runs trained networks by other steps: their memory, their dynamics, other sampling rates."""
