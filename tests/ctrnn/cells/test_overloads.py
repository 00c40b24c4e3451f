"""What type checkers are told of constructors: a field without `num_layers`, perhaps a `Stack` with it."""

import inspect
from types import UnionType
from typing import Union, get_args, get_origin, get_overloads, get_type_hints

import pytest

import ctrnn
from ctrnn.cells.catalog import constructors

WITH_LAYERS = {name: make for name, make in constructors().items() if "num_layers" in inspect.signature(make).parameters}


def classes(function):
    """Those that its return type names."""
    hint = get_type_hints(function)["return"]
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    return tuple(get_origin(kind) or kind for kind in kinds)


@pytest.mark.parametrize("name", WITH_LAYERS)
def test_overloads_have_the_parameters_of_the_constructor_and_name_what_it_makes(name):
    make = inspect.unwrap(WITH_LAYERS[name])
    for each in get_overloads(make):
        parameters = [*inspect.signature(each).parameters]
        layers = "num_layers" in parameters
        assert parameters == [one for one in inspect.signature(make).parameters if layers or one != "num_layers"]
        assert (ctrnn.cells.Stack in classes(each)) == layers
    assert isinstance(make(2, 4), classes(get_overloads(make)[0]))
    assert isinstance(make(2, 4, num_layers=2), classes(get_overloads(make)[-1]))


def test_parts_of_a_gated_field_are_named():
    hint = get_type_hints(get_overloads(inspect.unwrap(ctrnn.gated))[0])["return"]
    assert get_args(hint) == (ctrnn.parts.TanhCandidate, ctrnn.parts.GateRate)
    assert [type(part) for part in (ctrnn.gated(1, 2).candidate, ctrnn.gated(1, 2).rate)] == [*get_args(hint)]
