"""Sequences of symbols, what their true law knows of them, and what else predicts them."""
