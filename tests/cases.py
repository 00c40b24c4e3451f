"""Tables of cases of which not each is tried with each every day."""

import itertools

import pytest


def diagonal(*tables):
    """Every entry of every table once or more, beside others: what a product leaves out is said where this is called."""
    tables = [list(table) for table in tables]
    return [tuple(table[k % len(table)] for table in tables) for k in range(max(map(len, tables)))]


def crossed(*tables):
    """Each entry with each; every entry comes once or more in a default run, and the other pairs are slow."""
    tables = [list(table) for table in tables]
    places = [range(len(table)) for table in tables]
    every_day = set(diagonal(*places))
    return [
        pytest.param(*(table[k] for table, k in zip(tables, at, strict=True)), marks=() if at in every_day else pytest.mark.slow)
        for at in itertools.product(*places)
    ]
