"""The graph of a field's code as kernels for GPUs: written in Triton, run over whole sequences."""
