"""Declares the studies, a file for each claim, the trainings that try it, and what is shown of them."""
