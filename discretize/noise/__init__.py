"""Brownian motion: counter-based random numbers, one path at every resolution, and fields that are given its increments."""
