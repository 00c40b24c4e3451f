"""Kernels that were written by hand, for named fields."""
