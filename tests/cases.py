"""One test over a table of cases: a failure names its case, and every case starts from the same seed."""

import functools
import inspect
import itertools

import pytest
import torch

ParameterSet = type(pytest.param())


def each(names, cases):
    """Run one test over all cases: `names` as in `pytest.mark.parametrize`, and several may be stacked.

    Cases that are marked, as slow say, are tests of their own, as in `pytest.mark.parametrize`.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    found = [case if isinstance(case, ParameterSet) else pytest.param(*([case] if len(names) == 1 else case)) for case in cases]
    plain = [case.values for case in found if not case.marks]
    marked = [pytest.param([case.values], marks=case.marks, id=case.id or spelt(case.values)) for case in found if case.marks]
    place = f"{names[0]}_of"

    def decorate(test):
        @functools.wraps(test)
        def run(**others):
            skipped, cases = [], others.pop(place) if marked else plain
            for case in cases:
                torch.manual_seed(0)
                values = dict(zip(names, case, strict=True))
                try:
                    test(**others, **values)
                except pytest.skip.Exception as error:  # of this case alone
                    skipped.append(error)
                except BaseException as error:
                    error.add_note(f"case: {values}")
                    raise
            if skipped and len(skipped) == len(cases):
                raise skipped[-1]

        del run.__wrapped__  # else pytest takes the names for fixtures
        left = [p for p in inspect.signature(test).parameters.values() if p.name not in names]
        run.__signature__ = inspect.Signature(
            [*left, *([inspect.Parameter(place, inspect.Parameter.KEYWORD_ONLY)] if marked else [])]
        )
        return pytest.mark.parametrize(place, [pytest.param(plain, id="every day"), *marked])(run) if marked else run

    return decorate


def spelt(values):
    """An id that is the same in every process, if there is one."""
    return "-".join(str(value) for value in values if isinstance(value, str | int | float)) or None


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
