"""One test over a table of cases: a failure names its case, and every case starts from the same seed."""

import functools
import inspect

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
