"""Sequences of the named fields in plain torch, with a backward pass of their own, where there is no compiler."""
