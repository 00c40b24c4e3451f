"""Finds certificates, by guesses and search; nothing here is trusted: each is given to its check in `derivations.rules`."""
