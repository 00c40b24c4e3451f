"""Whole sequences: integrate and unroll, cells and sequence modules, ragged batches and time stamps."""
