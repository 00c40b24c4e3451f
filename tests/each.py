"""Many cases in one test: a loop where a parametrization would make a hundred lines of report of a few milliseconds each."""

import functools
import inspect

import torch

__all__ = ["each"]


def each(names, values):
    """As `pytest.mark.parametrize`, but one test: every case starts from the same seed, and one that fails is named."""
    names = (names,) if isinstance(names, str) else names

    def decorate(test):
        @functools.wraps(test)
        def looped(**fixtures):
            for value in values:
                case = dict(zip(names, (value,) if len(names) == 1 else value, strict=True))
                torch.manual_seed(0)
                try:
                    test(**fixtures, **case)
                except BaseException as error:
                    error.add_note(f"with {case}")
                    raise

        signature = inspect.signature(test)
        kept = [parameter for name, parameter in signature.parameters.items() if name not in names]
        looped.__signature__ = signature.replace(parameters=kept)
        return looped

    return decorate
