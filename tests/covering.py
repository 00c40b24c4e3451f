"""Of a product of three parameters or more a default run takes cases that show each pair of values; the others are `slow`.

`conftest.py` registers this as a plugin. So a fault that takes two values at once is seen every day, whatever the others are, and
one that takes three with -m slow. Of products of two, `crossed` in cases.py says which of their pairs are for every day; of a
test that is marked `each_value`, whatever its parameters are, the cases of every day show each value; of one that is marked
`by_default(n)` they are n, spread over all. Cases that are asked for by name (FILE::TEST) stay as they are, and so do, but
for `by_default`, those that have marks of their own.
"""

from collections import Counter, defaultdict
from itertools import combinations

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    if config.option.markexpr not in ("not slow", "slow") or any("::" in word for word in config.args):
        return  # such a run takes all of them
    products, spread = defaultdict(list), defaultdict(list)
    for item in items:
        if item.get_closest_marker("slow"):
            continue
        if item.get_closest_marker("by_default"):
            spread[item.parent, item.originalname].append(item)
        elif (call := getattr(item, "callspec", None)) and not call.marks:
            together = 1 if item.get_closest_marker("each_value") else 2
            if len(call._idlist) > together:
                products[item.parent, item.originalname, together].append(item)
    for (*_, together), cases in products.items():
        kept = covering([case.callspec._idlist for case in cases], together)  # an id for each `parametrize`, of all its arguments
        _leave(cases, kept)
    for cases in spread.values():
        (count,) = cases[0].get_closest_marker("by_default").args
        _leave(cases, {len(cases) * k // count for k in range(count)})


def _leave(cases, kept):
    for number, case in enumerate(cases):
        if number not in kept:
            case.add_marker("slow")


def covering(cases, together=2):
    """Which cases to take so that each pair of values that there is, is shown, or each value.

    The next is the one that shows most new pairs, of these the one with values that have been taken least.
    """
    shown = [{*combinations(enumerate(case), min(together, len(case)))} for case in cases]
    left, kept, taken = set().union(*shown), set(), Counter()
    while left:
        best = max(range(len(cases)), key=lambda k: (len(shown[k] & left), -sum(taken[value] for value in enumerate(cases[k]))))
        kept.add(best)
        left -= shown[best]
        taken.update(enumerate(cases[best]))
    return kept
