"""One test over a table of cases: a failure names its case, and every case starts from the same seed."""

import functools
import inspect
import itertools

import pytest
import torch


def each(names, cases):
    """Run a test once for each case: `names` as in `pytest.mark.parametrize`, and several may be stacked."""
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    cases = list(cases)

    def decorate(test):
        @functools.wraps(test)
        def run(**others):
            for case in cases:
                torch.manual_seed(0)
                values = dict(zip(names, [case] if len(names) == 1 else case, strict=True))
                try:
                    test(**others, **values)
                except BaseException as error:
                    error.add_note(f"case: {values}")
                    raise

        del run.__wrapped__  # else pytest takes the names for fixtures
        left = [p for p in inspect.signature(test).parameters.values() if p.name not in names]
        run.__signature__ = inspect.Signature(left)
        return run

    return decorate


def diagonal(*tables):
    """Every entry of every table once or more, beside others and not each with each."""
    tables = [list(table) for table in tables]
    return [tuple(table[k % len(table)] for table in tables) for k in range(max(map(len, tables)))]


def crossed(**tables):
    """Run a test over the diagonal of its tables by default, and each with each in the slow run."""
    grids = {"diagonal": diagonal(*tables.values()), "all": itertools.product(*tables.values())}

    def decorate(test):
        ways = {grid: each(tables, cases)(test) for grid, cases in grids.items()}

        @functools.wraps(test)
        def run(grid, **others):
            ways[grid](**others)

        del run.__wrapped__
        left = inspect.signature(ways["all"]).parameters.values()
        run.__signature__ = inspect.Signature([inspect.Parameter("grid", inspect.Parameter.POSITIONAL_OR_KEYWORD), *left])
        return pytest.mark.parametrize("grid", ["diagonal", pytest.param("all", marks=pytest.mark.slow)])(run)

    return decorate
