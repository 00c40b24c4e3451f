"""The ledger as a terminal table, JSON, LaTeX, an HTML page, and the table of docs/derivations.md."""
