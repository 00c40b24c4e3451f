"""Papers of one's own: equations in LaTeX, read, and judged as claims."""
