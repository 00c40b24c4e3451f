"""Exact integration of a field along its input: the call, its settings, the solve, and the states in between."""
