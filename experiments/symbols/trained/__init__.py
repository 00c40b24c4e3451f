"""Models of symbol sequences trained for equal times, and what they need beside the true law."""
