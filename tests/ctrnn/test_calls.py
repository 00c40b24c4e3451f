"""Wrong calls are answered in words, and an error from within stays what it is."""

import inspect
import pickle

import pytest

import ctrnn
import discretize
from ctrnn.calls import answered


def test_errors_name_the_class_that_was_called_wrongly():
    # An error from within passes as it is.
    def given(a, *, b=1):
        raise TypeError("from within")

    with pytest.raises(TypeError, match=r"^from within$"):
        answered(given)(1, b=2)
    with pytest.raises(TypeError, match=r"`given` takes no `c`; it takes a, b."):
        answered(given)(1, c=2)

    # A class of the users is named where its own call is wrong and the base where that is.
    class Mine(ctrnn.TanhCandidate):
        def __init__(self, size, **settings):
            super().__init__(size, size, **settings)

    with pytest.raises(TypeError, match=r"`TanhCandidate` takes no `biass`"):
        Mine(3, biass=True)
    with pytest.raises(TypeError, match=r"`Mine` needs `size`."):
        Mine()
    # A function that takes any name is not judged by names.
    with pytest.raises(TypeError, match=r"`<lambda>` needs `a`."):
        answered(lambda a, **rest: rest)(b=1)
    # What a class does does not depend on who asks for it.
    made = vars(ctrnn.Affine)["__init__"]
    assert ctrnn.Affine is vars(ctrnn)["Affine"]
    assert vars(ctrnn.Affine)["__init__"] is made
    assert ctrnn.gated is vars(ctrnn)["gated"]


@pytest.mark.parametrize("package", [ctrnn, discretize])
def test_public_names_keep_their_signatures_and_can_be_pickled(package):
    for name in package.__all__:
        value = getattr(package, name)
        if inspect.isfunction(value) or inspect.isclass(value):
            assert pickle.loads(pickle.dumps(value)) is value
        if inspect.isfunction(value):
            assert "args" not in inspect.signature(value).parameters
