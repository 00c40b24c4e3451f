"""Solvers: embedded pairs that estimate their error, adaptive and fixed steps, and what they count and say."""
