"""Of a trained model: whether it is its equation or its step."""
