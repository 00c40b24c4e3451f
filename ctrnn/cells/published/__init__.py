"""Cells of the literature as fields, a file a cell: gated, antisymmetric, oscillating, adapting."""
