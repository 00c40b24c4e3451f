r"""The rules of proof: each is a file in which a check of certificates stands beside what finds them.

A check trusts terms, exact arithmetic, signs and series (`terms`, `quotients`, `rational`, `signs`, `integrals`, `series`,
`definedness`, `grammar`), and calls nothing below a file's line "# Finding", nor `generators` or `reading`: so finding may
guess as it likes. Finding calls the check of what it found. Only `reading` imports SymPy, and nothing torch.
"""
