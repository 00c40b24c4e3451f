"""Named cells: the LSTM, a gate with its own network, layers, constructors by name, and the way from torch.nn and back."""
