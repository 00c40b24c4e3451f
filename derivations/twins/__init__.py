"""Symbolic twins of ctrnn's fields and of the step maps, written from the papers."""
