"""Wrong calls are answered in words, and an error from within stays what it is."""

import inspect
import pickle
from importlib import import_module

import pytest

import ctrnn
import discretize
from ctrnn.calls import answered
from ctrnn.lazy import places_of


def test_an_error_from_within_passes_as_it_is():
    def given(a, *, b=1):
        raise TypeError("from within")

    with pytest.raises(TypeError, match=r"^from within$"):
        answered(given)(1, b=2)
    with pytest.raises(TypeError, match=r"`given` takes no `c`; it takes a, b."):
        answered(given)(1, c=2)


def test_a_users_class_is_named_where_its_own_call_is_wrong_and_the_base_class_where_that_is():
    class Mine(ctrnn.TanhCandidate):
        def __init__(self, size, **settings):
            super().__init__(size, size, **settings)

    with pytest.raises(TypeError, match=r"`TanhCandidate` takes no `biass`"):
        Mine(3, biass=True)
    with pytest.raises(TypeError, match=r"`Mine` needs `size`."):
        Mine()


def test_a_function_that_takes_any_name_is_not_judged_by_names():
    with pytest.raises(TypeError, match=r"`<lambda>` needs `a`."):
        answered(lambda a, **rest: rest)(b=1)


def test_what_a_class_does_does_not_depend_on_who_asks_for_it():
    made = vars(ctrnn.Affine)["__init__"]
    assert ctrnn.Affine is vars(ctrnn)["Affine"]
    assert vars(ctrnn.Affine)["__init__"] is made
    assert ctrnn.gated is vars(ctrnn)["gated"]


@pytest.mark.parametrize("package", [ctrnn, discretize])
def test_public_names_keep_their_signatures_and_can_be_pickled(package):
    for name, place in places_of(package.__file__).items():
        value = getattr(import_module(place), name)
        if inspect.isfunction(value) or inspect.isclass(value):
            assert pickle.loads(pickle.dumps(value)) is value
        if inspect.isfunction(value):
            assert "args" not in inspect.signature(value).parameters
