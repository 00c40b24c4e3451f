"""What the step of its training puts into a network: trained by steps, run exactly."""
