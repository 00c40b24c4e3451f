r"""Checks certificates: whoever trusts a verdict trusts these files, Python and python-flint, and no other.

`replay.RULES` lists the check of each rule of a step, `conclusions.STATEMENTS` what each kind of statement asks of its steps.
They rest on terms, exact arithmetic, signs and series. Nothing here imports SymPy, torch or another room. Certificates are
found in `derivations.finding`, which may guess as it likes; formulas of SymPy are read in `derivations.prover.reading`.
"""
