"""Look at a trained model on data, and say whether it is its equation or its step."""
