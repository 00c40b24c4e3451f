"""The checker of certificates: terms, exact arithmetic, signs, series, and the rules that each kind of proof must obey."""
