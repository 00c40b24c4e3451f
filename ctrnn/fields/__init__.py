"""Vector fields: the interface, parts and their compositions, the named cells, conversion to and from torch.nn, time scales."""
