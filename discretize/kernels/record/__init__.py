"""A field's code recorded by torch, differentiated, and read as values of a sample."""
