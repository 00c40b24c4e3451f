"""The laws of random sequences that can be drawn, and scored."""
