"""What `fit` refuses, in the user's words."""

import warnings

import pytest
import torch
from torch import nn

import discretize
from discretize.errors import SolverWarning

TS, Y = torch.arange(5.0), torch.ones(5, 1)
GOOD = {"f": lambda t, h, k: -k * h, "data": (TS, Y), "params": {"k": (1.0, 0.0, 2.0)}, "h0": {"y": 1.0}}


class Module(nn.Module):
    def __init__(self):
        super().__init__()
        self.rate = nn.Parameter(torch.ones(()))

    def forward(self, t, h):
        return -self.rate * h


BAD = {
    "f takes another": ({"params": {"k": (1, 0, 2), "c": (1, 0, 2)}}, ValueError, "`f` takes no `c`"),
    "f lacks one": ({"f": lambda t, h, k, c: h}, TypeError, "`f` takes `c`, in neither `params` nor the constants"),
    "a module's weights": ({"f": Module()}, ValueError, "`f` takes no `k`; its weights are rate"),
    "start outside": ({"params": {"k": (3, 0, 2)}}, ValueError, "`k` starts at 3, outside its bounds, 0 to 2"),
    "low above high": ({"params": {"k": (1, 2, 0)}}, ValueError, "`k` needs low < high, got 2 and 0"),
    "not three": ({"params": {"k": 1.0}}, TypeError, r"`k` must be \(start, low, high\), got 1.0"),
    "no size": ({"params": {"k": (0.0, None, None)}}, ValueError, "`k` starts at 0 and has no two bounds"),
    "no parameters": ({"params": {}}, TypeError, "`params` must be a dict"),
    "too few": ({"data": (TS[:2], Y[:2] * torch.nan), "h0": {"y": 1.0}}, ValueError, "All values of 'y' are nan"),
    "few": (
        {"data": (TS, torch.tensor([1.0, *4 * [torch.nan]]))},
        ValueError,
        "The data are 1 numbers, too few for 1 unknowns and",
    ),
    "times": ({"data": (TS.flip(0), Y)}, ValueError, "`ts` must increase strictly"),
    "shape": ({"data": (TS, torch.ones(5, 2))}, ValueError, r"Values must be \(5, 1\), a row for each of its 5 times, a column"),
    "inf": ({"data": (TS, Y / 0)}, ValueError, "Values must be finite, or nan"),
    "words": ({"data": (TS, ["a"] * 5)}, TypeError, "Values must be an array of numbers"),
    "not a pair": ({"data": TS}, TypeError, r"`data` must be \(ts, values\)"),
    "second series": ({"data": [(TS, Y), (TS, Y[:4])]}, ValueError, "Values of series 1 must be"),
    "constants": ({"data": [(TS, Y, {"k": 1.0})]}, ValueError, r"\['k'\] are both in `params` and constants"),
    "h0": ({"h0": 1.0}, TypeError, "`h0` must be a dict"),
    "h0 of no parameter": ({"h0": {"y": "c"}}, ValueError, "`h0` of 'y' is 'c', which is no number in `params`: k"),
    "observe": ({"observe": ["z"]}, ValueError, "`observe` has 'z', which is no state; these are 'y'"),
    "hidden": ({"observe": ["y"], "h0": None}, ValueError, "`h0` must name all states"),
    "noise": ({"noise": {"z": 1.0}}, ValueError, "`noise` names z, what is measured is y"),
    "noise 0": ({"noise": 0.0}, ValueError, "`noise of y` must be positive"),
    "starts": ({"starts": 4, "params": {"k": (1, None, None)}}, ValueError, "no parameter has two"),
    "wrong dh/dt": ({"f": lambda t, h, k: torch.cat([h, h], 1)}, ValueError, r"`f` gives \(1, 2\) for h of shape \(1, 1\)"),
    "a branch": ({"f": lambda t, h, k: -k * h if k > 0 else h}, TypeError, "`f` cannot be called for a batch: write torch.where"),
    "rtol": ({"rtol": -1.0}, ValueError, "`rtol` must be positive"),
}


@pytest.mark.parametrize(("changed", "error", "words"), BAD.values(), ids=BAD)
def test_bad_input_is_refused_in_words(changed, error, words):
    given = GOOD | changed
    with pytest.raises(error, match=words):
        discretize.fit(given.pop("f"), given.pop("data"), given.pop("params"), **given)


@pytest.mark.parametrize("given", [{"rtol": 1e-3}, {"max_num_steps": 50}], ids=str)
def test_settings_that_steps_of_one_length_do_not_read_are_said(given):
    (name,) = given
    with pytest.warns(SolverWarning, match=f"`{name}` changes no step here: it is for methods that choose their steps"):
        discretize.fit(**GOOD | given, method="rk4")


@pytest.mark.parametrize("given", [{"method": "rk4"}, {"method": "dopri5", "rtol": 1e-3, "max_num_steps": 50}], ids=str)
def test_settings_that_are_read_or_not_given_are_not_spoken_of(given):
    with warnings.catch_warnings():
        warnings.simplefilter("error", SolverWarning)
        discretize.fit(**GOOD | given)
