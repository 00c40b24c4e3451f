"""What of a recurrent highway network's depth is time, and what is not."""

import pytest
import torch
from torch.testing import assert_close

import ctrnn
from discretize import DiscreteCell, DiscreteRNN


def as_gated(field):
    """The gated field of the first layer's weights."""
    gated = ctrnn.gated(field.input_size, field.hidden_size)
    with torch.no_grad():
        for own, rows in ((gated.candidate, slice(5)), (gated.rate, slice(5, 10))):
            for name, parameter in own.named_parameters():
                parameter.copy_(getattr(field.layers[0], name)[rows])
    return gated


def test_of_depth_1_it_is_the_gated_field_and_so_is_its_leak():
    field, x, h = ctrnn.rhn(3, 5, depth=1), torch.randn(4, 3), torch.randn(4, 5)
    gated = as_gated(field)
    assert_close(field(x, h), gated(x, h), rtol=0, atol=1e-15)
    assert_close(field.leak(field.project(x), h), gated.leak(gated.project(x), h), rtol=1e-14, atol=0)


def test_with_one_set_of_weights_and_no_input_depth_is_the_time_of_a_gated_field():
    field, x, h = ctrnn.rhn(3, 5, depth=4), torch.zeros(1, 4, 3), torch.randn(4, 5)
    gated = as_gated(field)
    for layer in field.layers:
        layer.load_state_dict({**layer.state_dict(), **{n: getattr(field.layers[0], n) for n in ("weight_h", "bias")}})
    deep = DiscreteCell(field)(x[0], h)
    assert_close(deep, DiscreteRNN(gated, dt=4.0, substeps=4)(x, h)[0][0], rtol=0, atol=1e-14)


def test_what_is_no_depth_is_refused():
    with pytest.raises(ValueError, match="`depth` must be at least 1, got 0"):
        ctrnn.rhn(3, 5, depth=0)
    with pytest.raises(ValueError, match="`gate_bias` must be finite"):
        ctrnn.rhn(3, 5, gate_bias=float("inf"))


def test_gates_start_at_their_bias_and_the_leak_keeps_its_digits_where_they_are_closed():
    field = ctrnn.rhn(3, 5, depth=2, gate_bias=-40.0)
    for layer in field.layers:
        assert (layer.bias[5:] == -40).all()
        torch.nn.init.zeros_(layer.weight_h)
    leak = field.leak(field.project(torch.zeros(1, 3)), field.initial_state(1))
    assert_close(leak, torch.full_like(leak, 2 * torch.exp(torch.tensor(-40.0)).item()), rtol=1e-12, atol=0)
    assert_close(ctrnn.timescales(field), 1 / leak[0].detach(), rtol=1e-14, atol=0)


def test_gates_behind_the_first_see_little_of_what_that_makes_of_a_zero_state():
    given = ctrnn.rhn(3, 64, 5, generator=torch.Generator().manual_seed(0))
    field = ctrnn.init.chrono_(given, 100, t_min=10, generator=torch.Generator().manual_seed(0))
    drawn = torch.empty(64, dtype=torch.float64).uniform_(10, 100, generator=torch.Generator().manual_seed(0))
    # 4e-4 was measured with these weights, at most 6e-4 with others: a layer writes about 1/(5 T) of a tanh into its state.
    assert_close(ctrnn.timescales(field), drawn, rtol=2e-3, atol=0)


@pytest.mark.parametrize("depth", [1, 2, 10])
def test_chrono_has_all_layers_together_forget_in_the_time_that_was_drawn(depth):
    field = ctrnn.init.chrono_(ctrnn.rhn(3, 50, depth), 40, t_min=2, generator=torch.Generator().manual_seed(0))
    drawn = torch.empty(50, dtype=torch.float64).uniform_(2, 40, generator=torch.Generator().manual_seed(0))
    kept = torch.stack([torch.sigmoid(-layer.bias[50:]) for layer in field.layers]).prod(0)
    assert_close(kept, 1 - 1 / drawn, rtol=1e-13, atol=0)
    with torch.no_grad():  # pulled nowhere, so that zero stays zero, as rest is for other cells
        for layer in field.layers:
            layer.weight_h.zero_()
            layer.bias[:50] = 0
    assert_close(ctrnn.timescales(field), drawn, rtol=1e-13, atol=0)
    _, last = DiscreteRNN(field)(torch.zeros(7, 1, 3), torch.ones(1, 50))
    assert_close(last.squeeze(), (1 - 1 / drawn) ** 7, rtol=1e-13, atol=0)
