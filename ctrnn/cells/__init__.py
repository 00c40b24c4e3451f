"""Named cells: the LSTM, a gate with its own network, layers, constructors by name, and the way from torch.nn and back."""

from ctrnn.lazy import public_names as _public_names

__all__, __getattr__, __dir__ = _public_names(__name__, __file__)
