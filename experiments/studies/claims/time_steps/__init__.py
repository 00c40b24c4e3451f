"""Compares networks under the step that trained them with the same weights under their equation."""
