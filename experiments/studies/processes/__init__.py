"""Runs of a study in worker processes, and what they will cost."""
