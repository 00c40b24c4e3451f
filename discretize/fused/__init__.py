"""Whole sequences and whole solves of the named fields in one call, the same as step by step, and faster."""
