"""Fields' code as kernels: recorded, differentiated by torch, written out in C++."""
