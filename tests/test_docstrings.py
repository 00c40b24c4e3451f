"""The examples in the docstrings of public names, run."""

import doctest
import importlib

import pytest
import sympy
import torch

import ctrnn
import derivations
import discretize
from ctrnn.lazy import places_of

PACKAGES = {"ctrnn": ctrnn, "discretize": discretize, "derivations": derivations}
NAMES = {f"{place}.{name}": (place, name) for package in PACKAGES.values() for name, place in places_of(package.__file__).items()}
FINDER = doctest.DocTestFinder(recurse=False, exclude_empty=True)


def examples():
    for label, (place, name) in NAMES.items():
        thing = getattr(importlib.import_module(place), name)
        if ">>>" in (getattr(thing, "__doc__", None) or ""):
            yield pytest.param(name, thing, id=label)


@pytest.mark.parametrize(("name", "thing"), [*examples()])
def test_the_example_of_a_name_prints_what_its_docstring_shows(name, thing):
    torch.set_default_dtype(torch.float32)  # as in a process of its own; `_same_start` puts it back
    torch.seed()
    found = FINDER.find(thing, name, module=False, globs=PACKAGES | {"torch": torch, "sympy": sympy, name: thing})
    printed = []
    for test in found:
        assert doctest.DocTestRunner().run(test, out=printed.append).failed == 0, "".join(printed)
    assert any(test.examples for test in found)


def test_the_names_that_one_meets_first_have_an_example():
    labelled = {param.id for param in examples()}
    assert len(labelled) >= 30
    assert {"ctrnn.gated", "ctrnn.gru", "discretize.DiscreteRNN", "discretize.ContinuousRNN", "derivations.verify"} <= labelled
