"""Finding certificates: SymPy's expressions as terms, and proofs and counterexamples that the checker accepts."""
