"""Defines tasks on warped clocks: say the symbol before."""
