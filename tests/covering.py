"""Of a product of three parameters or more a default run takes cases that show each pair of values; the others are `slow`.

`conftest.py` registers this as a plugin. So a fault that takes two values at once is seen every day, whatever the others are, and
one that takes three with -m slow. Of products of two, `crossed` in cases.py says which of their pairs are for every day. Cases
that are asked for by name (FILE::TEST), and such as have marks of their own, stay as they are.
"""

from collections import Counter
from itertools import combinations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if config.option.markexpr != "not slow" or any("::" in word for word in config.args):
        return
    products = {}
    for item in items:
        if (call := getattr(item, "callspec", None)) and len(call._idlist) > 2 and not call.marks:
            products.setdefault((item.parent, item.originalname), []).append(item)
    for cases in products.values():
        kept = covering([case.callspec._idlist for case in cases])  # an id for each `parametrize`, of all its arguments
        for number, case in enumerate(cases):
            if number not in kept:
                case.add_marker("slow")


def covering(cases):
    """Which cases to take so that each pair of values that there is, is shown.

    The next is the one that shows most new pairs, of these the one with values that have been taken least.
    """
    shown = [{*combinations(enumerate(case), min(2, len(case)))} for case in cases]
    left, kept, taken = set().union(*shown), set(), Counter()
    while left:
        best = max(range(len(cases)), key=lambda k: (len(shown[k] & left), -sum(taken[value] for value in enumerate(cases[k]))))
        kept.add(best)
        left -= shown[best]
        taken.update(enumerate(cases[best]))
    return kept
