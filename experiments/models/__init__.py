"""What is trained: fields and integrators by name, a sequence model, and how it forgets, measured."""
