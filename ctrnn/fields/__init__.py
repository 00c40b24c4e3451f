"""Vector fields: what they are made of, those with names, and how to come to them from torch.nn and back."""
