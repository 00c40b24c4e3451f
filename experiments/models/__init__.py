"""Builds models to be trained: fields and integrators by name, a sequence model, and its measured forgetting."""
