"""Record a field's code by torch, differentiate it, and read it as values of a sample."""
