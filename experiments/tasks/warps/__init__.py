"""Tasks on warped clocks: say the symbol before."""
