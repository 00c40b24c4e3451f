"""The prover: symbols, identities, the kinds of statement and how each is decided, formulas."""
