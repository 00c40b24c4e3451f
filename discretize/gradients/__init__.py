"""Gradients of solves: in bounded memory by checkpointing, and by the adjoint equation."""
