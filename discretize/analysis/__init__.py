"""What steps do to dynamics: stability regions, a monitor, refinement."""
