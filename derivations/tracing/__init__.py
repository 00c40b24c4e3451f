"""The torch code of fields and cells: recorded by torch.export, read in SymPy, and compared with equations."""
