"""What noise does under each step: measurements, and the figures of docs/noise.md that are drawn from them."""
