"""Write a field's code as kernels for GPUs in Triton, and run them over sequences and solves."""
