"""What Ollivier 2013 claims of training in invariant metrics."""
