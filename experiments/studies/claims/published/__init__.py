"""Published networks under their step and under their equation."""
