"""Operations of torch read as values of a sample: a table a kind, by name."""
