"""Reads the equations of a user's paper in LaTeX and judges them as claims."""
