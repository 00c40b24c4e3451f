"""Inputs as functions of time: samples and their times, and the paths through them."""
