"""What steps compute with: phi functions, Jacobians, Newton's method."""
