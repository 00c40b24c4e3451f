"""Parts: an affine map is its formula, and what a user adds keeps the same contract."""

import numpy as np
import pytest
import torch
from cases import each
from problems import Nowhere
from torch.testing import assert_close

import ctrnn


def test_an_affine_part_is_its_formula():
    part = ctrnn.Affine(3, 5, 7)
    x, h = torch.randn(4, 3), torch.randn(4, 5)
    Wx, Wh, b = (value.detach().numpy() for value in (part.weight_x, part.weight_h, part.bias))
    expected = np.einsum("oi,bi->bo", Wx, x.numpy()) + np.einsum("oh,bh->bo", Wh, h.numpy()) + b
    assert_close(part(x, h), torch.from_numpy(expected), rtol=0, atol=1e-14)  # rounding of sums of a dozen terms


def test_an_affine_part_without_bias_is_zero_at_zero():
    part = ctrnn.Affine(3, 5, 7, bias=False)
    assert set(dict(part.named_parameters())) == {"weight_x", "weight_h"}
    assert torch.equal(part(torch.zeros(2, 3), torch.zeros(2, 5)), torch.zeros(2, 7))


def test_the_projection_holds_all_that_depends_on_the_input_alone():
    part = ctrnn.Affine(3, 5, 7)
    x = torch.randn(6, 4, 3)
    assert part.project(x).shape == (6, 4, part.projected_size)
    assert_close(part.project(x), part(x, torch.zeros(6, 4, 5)), rtol=0, atol=0)


@each(
    ("part", "width"),
    [
        (ctrnn.TanhCandidate(3, 5), 5),
        (ctrnn.ResetCandidate(3, 5), 10),
        (ctrnn.GateRate(3, 5), 5),
        (ctrnn.GlobalGateRate(3, 5), 1),
        (ctrnn.FixedRate(), 0),
        (ctrnn.ConstantRate(0.1), 0),
        (ctrnn.SigmoidConstantRate(0.1), 0),
    ],
)
def test_a_part_says_how_wide_its_projection_is(part, width):
    assert part.projected_size == width
    assert part.double().project(torch.randn(6, 4, 3)).shape == (6, 4, width)


def test_dtype_device_and_generator_are_torchs():
    part = ctrnn.Affine(3, 5, 7, dtype=torch.float32, generator=torch.Generator().manual_seed(3))
    again = ctrnn.Affine(3, 5, 7, dtype=torch.float32, generator=torch.Generator().manual_seed(3))
    for name, value in part.named_parameters():
        assert value.dtype == torch.float32
        assert torch.equal(value, again.get_parameter(name))
    assert ctrnn.Affine(3, 5, 7, device="meta").weight_h.device.type == "meta"


def test_weights_are_drawn_for_the_number_of_units_not_of_inputs():
    # torch.nn.RNNCell's bound, 1/sqrt(hidden), for every weight.
    part = ctrnn.Affine(400, 4, 100)
    assert part.weight_x.abs().max() <= 0.5
    assert part.weight_x.abs().max() > 0.49  # 40000 uniform draws


def test_a_part_of_ones_own_pulls_a_field():
    field = ctrnn.Relaxation(Nowhere(2, 3), ctrnn.FixedRate(2.0), ctrnn.LinearDecay())
    h = torch.randn(4, 3)
    assert_close(field(torch.randn(4, 2), h), -2 * h, rtol=0, atol=0)


def test_the_interface_of_parts_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        ctrnn.Part()


@each(
    ("sizes", "error", "message"),
    [
        ((-1, 5, 7), ValueError, "`input_size` must be at least 0"),
        ((3, 0, 7), ValueError, "`hidden_size` must be at least 1"),
        ((3, 5, 0), ValueError, "`outputs` must be at least 1"),
        ((3, 5, 1.5), TypeError, "`outputs` must be a whole number, got 1.5"),
    ],
)
def test_sizes_that_are_no_sizes_are_refused(sizes, error, message):
    with pytest.raises(error, match=message):
        ctrnn.Affine(*sizes)
