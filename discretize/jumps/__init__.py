"""Sequences observed at times of their own: between observations the state runs by its field, at each one it jumps."""
