"""Liquid time-constant networks: synapses, the field, and the cells of ncps that it comes from."""
