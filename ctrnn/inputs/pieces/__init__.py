"""Pieces of paths: by the number of a segment, from inside, and as polynomials."""
