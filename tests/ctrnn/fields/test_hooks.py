"""Hooks on fields: run where the field is called as a module, and refused where its parts are read without them."""

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune

import ctrnn
from ctrnn import HeldPath
from discretize import ContinuousRNN, DiscreteCell, DiscreteRNN, Euler, integrate, unroll

X = torch.linspace(-1, 1, 30, dtype=torch.float64).reshape(5, 3, 2)  # (time, batch, input)


def fresh():
    return ctrnn.gated(2, 4, generator=torch.Generator().manual_seed(0))


ENTRANCES = {
    "field": lambda field: field(X[0], field.initial_state(3)),
    "cell": lambda field: DiscreteCell(field)(X[0]),
    "step": lambda field: Euler()(field, X[0], field.initial_state(3), 1.0),
    "unroll": lambda field: unroll(DiscreteCell(field), X),
    "discrete": lambda field: DiscreteRNN(field)(X),
    "plain discrete": lambda field: DiscreteRNN(field, fused=False)(X),
    "continuous": lambda field: ContinuousRNN(field)(X),
    "integrate": lambda field: integrate(field, HeldPath(X), field.initial_state(3), torch.arange(6.0)),
}


HOOKED = {
    "WeightNorm": lambda part: nn.utils.weight_norm(part, "weight_h"),
    "SpectralNorm": lambda part: nn.utils.spectral_norm(part, "weight_h"),
    "L1Unstructured": lambda part: prune.l1_unstructured(part, "weight_h", 0.5),
    "note": lambda part: part.register_forward_hook(note),
    "backward": lambda part: part.register_full_backward_hook(backward),
}


def note(*_):
    """A user's own hook."""


def backward(*_):
    """A user's own hook of gradients."""


@pytest.mark.filterwarnings("ignore:.*weight_norm.*is deprecated")
@pytest.mark.parametrize("name", HOOKED)
def test_a_hook_on_a_part_is_refused_before_it_is_passed_over(name):
    field = fresh()
    HOOKED[name](field.candidate)
    for entrance, enter in ENTRANCES.items():
        with pytest.raises(TypeError, match=f"The field's TanhCandidate has a hook, {name}; .*nn.utils.parametrizations"):
            pytest.fail(f"{entrance}: {enter(field)}")


def test_a_hook_on_the_field_runs_where_it_is_called_as_a_module_and_is_refused_elsewhere():
    field, seen = fresh(), []
    field.register_forward_hook(lambda module, given, found: seen.append(found.shape))
    ENTRANCES["field"](field)
    assert seen == [(3, 4)]
    for name in ENTRANCES.keys() - {"field"}:
        with pytest.raises(TypeError, match="The field's Relaxation has a hook"):
            ENTRANCES[name](field)
    assert seen == [(3, 4)]


def test_a_hook_on_what_contains_the_field_runs():
    rnn, seen = DiscreteRNN(fresh()), []
    rnn.register_forward_hook(lambda module, given, found: seen.append(found[0].shape))
    rnn(X)
    assert seen == [(5, 3, 4)]


def test_the_norms_without_hooks_are_those_of_the_weights_at_the_call():
    field, other = fresh(), fresh()
    parametrizations.weight_norm(field.candidate, "weight_h")
    with torch.no_grad():
        field.candidate.parametrizations.weight_h.original0.mul_(2)  # the norms of the rows
        other.candidate.weight_h.mul_(2)
    for enter in (ENTRANCES["discrete"], ENTRANCES["continuous"]):
        torch.testing.assert_close(enter(field), enter(other), rtol=1e-5, atol=1e-6)


def test_pruning_made_permanent_is_read():
    field, other = fresh(), fresh()
    prune.l1_unstructured(field.candidate, "weight_h", 0.5)
    mask = field.candidate.weight_h_mask
    prune.remove(field.candidate, "weight_h")
    with torch.no_grad():
        other.candidate.weight_h.mul_(mask)
    assert int(mask.sum()) == 8
    torch.testing.assert_close(ENTRANCES["discrete"](field), ENTRANCES["discrete"](other), rtol=1e-5, atol=1e-6)
