"""What every field keeps: two strokes make the field, samples do not mix, torch's transformations apply."""

import copy

import pytest
import torch
from problems import NAMED_FIELDS, Spiral
from torch import nn
from torch.testing import assert_close

import ctrnn
from ctrnn.fields.field import VectorField

ROUNDING = {"rtol": 0, "atol": 1e-14}  # values of order 1, a few sums in another order

named = pytest.mark.parametrize("name", NAMED_FIELDS)


def field_and_point(name, *, inputs=3, hidden=5, batch=4, **settings):
    field = NAMED_FIELDS[name](inputs, hidden, **settings)
    dtype = settings.get("dtype", torch.float64)
    return field, torch.randn(batch, inputs, dtype=dtype), torch.randn(batch, field.state_size, dtype=dtype)


@named
def test_a_field_is_its_flow_from_the_projected_input(name):
    field, x, h = field_and_point(name)
    assert_close(field(x, h), field.flow(field.project(x), h), rtol=0, atol=0)


@named
def test_a_whole_sequence_is_projected_as_its_samples_are(name):
    field, _, h = field_and_point(name)
    xs = torch.randn(7, 4, 3)
    at_once = field.project(xs)
    assert_close(at_once, torch.stack([field.project(x) for x in xs]), **ROUNDING)
    each = torch.stack([torch.stack([field.project(one) for one in x]) for x in xs])
    assert_close(at_once, each, **ROUNDING)
    assert_close(field(xs, h.expand(7, 4, -1)), torch.stack([field(x, h) for x in xs]), **ROUNDING)


@named
def test_the_leak_is_of_the_shape_of_the_state_and_nowhere_negative(name):
    field, x, h = field_and_point(name)
    for scale in (0.0, 1.0, 1e3):
        leak = field.leak(field.project(x), scale * h)
        assert leak.shape == h.shape
        assert bool((leak >= 0).all())


@named
def test_flow_and_leak_are_what_they_are_one_by_one(name):
    field = NAMED_FIELDS[name](3, 5)
    projected, h = field.project(torch.randn(4, 3)), torch.randn(4, field.state_size)
    flow, leak = field.flow_and_leak(projected, h)
    assert torch.equal(flow, field.flow(projected, h))
    assert_close(leak.expand_as(h), field.leak(projected, h).expand_as(h), rtol=0, atol=0)


@named
@pytest.mark.parametrize(("hidden", "batch"), [(5, 4), (3, 3), (1, 4)])
def test_each_sample_has_the_answer_it_has_alone(name, hidden, batch):
    # batch == hidden == input is where a wrong broadcast hides.
    field, x, h = field_and_point(name, hidden=hidden, batch=batch)
    alone = torch.stack([field(x[i], h[i]) for i in range(batch)])
    assert_close(field(x, h), alone, **ROUNDING)
    leaks = torch.stack([field.leak(field.project(x[i]), h[i]) for i in range(batch)])
    assert_close(field.leak(field.project(x), h), leaks, **ROUNDING)


@named
def test_float32_agrees_with_float64_to_its_own_rounding(name):
    field, x, h = field_and_point(name, dtype=torch.float32)
    answer = field(x, h)
    assert answer.dtype == torch.float32
    assert field.leak(field.project(x), h).dtype == torch.float32
    # |h|^3 h reaches the tens: 1e-5 is a hundred float32 roundings of 1.
    assert_close(answer.double(), copy.deepcopy(field).double()(x.double(), h.double()), rtol=1e-5, atol=1e-5)


@named
def test_the_gradients_for_input_state_and_weights_are_those_of_finite_differences(name):
    field, x, h = field_and_point(name, inputs=2, hidden=3, batch=2)
    names, values = zip(*field.named_parameters(), strict=True)

    def f(x, h, *values):
        return torch.func.functional_call(field, dict(zip(names, values, strict=True)), (x, h))

    free = [value.detach().clone().requires_grad_() for value in values]
    assert torch.autograd.gradcheck(f, (x.requires_grad_(), h.requires_grad_(), *free))

    def leak(h):
        return field.leak(field.project(x.detach()), h)

    assert torch.autograd.gradcheck(leak, (h,))


@named
def test_the_state_dict_carries_the_whole_field(name):
    field, x, h = field_and_point(name)
    other, _, _ = field_and_point(name)
    assert not torch.equal(other(x, h), field(x, h))
    other.load_state_dict(field.state_dict())
    assert_close(other(x, h), field(x, h), rtol=0, atol=0)


@named
def test_a_generator_makes_the_draw_reproducible(name):
    def draw(seed):
        return NAMED_FIELDS[name](3, 5, generator=torch.Generator().manual_seed(seed)).state_dict()

    before = torch.random.get_rng_state()
    first, second, other = draw(1), draw(1), draw(2)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert all(torch.equal(first[key], second[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)


@named
def test_weights_start_within_the_bound_of_torch(name):
    field = NAMED_FIELDS[name](50, 64)
    weights = [value for key, value in field.named_parameters() if key.endswith(("weight_x", "weight_h"))]
    for weight in weights:
        assert weight.abs().max() <= 1 / 8
        # Of 64 * 50 uniform draws and more, the largest is above 0.99 of the bound but for a chance of 0.99^3200.
        if weight.numel() > 1000:
            assert weight.abs().max() > 0.99 / 8


@named
def test_the_initial_state_is_zero_with_the_dtype_and_device_of_the_field(name):
    field = NAMED_FIELDS[name](3, 5, dtype=torch.float32)
    state = field.initial_state(4)
    assert_close(state, torch.zeros(4, 10 if name in ("lstm", "gated network") else 5, dtype=torch.float32))
    assert NAMED_FIELDS[name](3, 5, device="meta").initial_state(2).device.type == "meta"


@named
def test_jacrev_and_vmap_see_a_field_as_a_function(name):
    field, x, h = field_and_point(name)
    jacobian = torch.func.vmap(torch.func.jacrev(field, argnums=1))(x, h)
    rows = torch.autograd.functional.jacobian(lambda h: field(x, h), h)
    assert_close(jacobian, torch.stack([rows[i, :, i] for i in range(4)]), **ROUNDING)
    assert_close(torch.func.vmap(field)(x, h), field(x, h), **ROUNDING)


@named
def test_an_ensemble_runs_under_vmap(name):
    fields = [NAMED_FIELDS[name](3, 5) for _ in range(3)]
    _, x, h = field_and_point(name)
    weights, buffers = torch.func.stack_module_state(fields)

    def call(weights, buffers):
        return torch.func.functional_call(fields[0], (weights, buffers), (x, h))

    assert_close(torch.func.vmap(call)(weights, buffers), torch.stack([f(x, h) for f in fields]), **ROUNDING)


def test_a_field_of_the_user_needs_only_its_flow():
    field, x, h = Spiral(), torch.randn(4, 2), torch.randn(4, 2)
    expected = torch.stack([x[:, 0] + h[:, 1], x[:, 1] - h[:, 0]], -1)
    assert_close(field(x, h), expected, rtol=0, atol=0)
    assert field.project(x) is x
    assert_close(field.leak(x, h), torch.zeros(4, 2))
    assert (field.dtype, field.device) == (None, None)
    assert_close(field.initial_state(3), torch.zeros(3, 2))
    assert_close(torch.func.vmap(torch.func.jacrev(field, 1))(x, h)[0], torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
    for dtype in (torch.float32, torch.float64):
        assert field(x.to(dtype), h.to(dtype)).dtype == dtype


def test_a_field_takes_its_dtype_from_floating_point_weights():
    class Counting(VectorField):
        def __init__(self):
            super().__init__(2, 2)
            self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
            self.scale = nn.Parameter(torch.ones(2, dtype=torch.float32))

        def flow(self, projected, h):
            return self.scale * (projected - h)

    assert Counting().dtype == torch.float32
    assert Counting().initial_state(1).dtype == torch.float32


def test_a_field_without_parameters_still_asks_for_floating_point():
    with pytest.raises(TypeError, match=r"`x` must be floating point, got torch.int64; convert it with `x.to\(torch"):
        Spiral()(torch.ones(4, 2, dtype=torch.int64), torch.ones(4, 2))


X, H = torch.ones(4, 3, dtype=torch.float64), torch.ones(4, 5, dtype=torch.float64)


@pytest.mark.parametrize(
    ("x", "h", "error", "message"),
    [
        (X[:, :2], H, ValueError, r"`x` has shape \(4, 2\), the field reads 3 input features"),
        (X, H[:, :4], ValueError, r"`h` has 4 units.*keeps 5; start from `field.initial_state\(batch\)`"),
        (X, H[:3], ValueError, r"must agree on all axes but the last, got \(4, 3\) and \(3, 5\)"),
        (X.float(), H, TypeError, "`x` is torch.float32, the field's parameters are torch.float64"),
        (X, H.float(), TypeError, r"`h` is torch.float32.*`h.to\(torch.float64\)`"),
        (X.long(), H, TypeError, "`x` must be floating point, got torch.int64"),
        (X.to("meta"), H, ValueError, "`x` is on meta, the field's parameters are on cpu; move one"),
        (X.numpy(), H, TypeError, r"`x` must be a torch.Tensor, got ndarray; wrap it as torch.as_tensor\(x\)"),
        (X, None, TypeError, "`h` must be a torch.Tensor, got NoneType"),
    ],
)
def test_what_does_not_fit_a_field_is_refused_in_words(x, h, error, message):
    with pytest.raises(error, match=message):
        ctrnn.gated(3, 5)(x, h)


@pytest.mark.parametrize(
    ("sizes", "error", "message"),
    [
        ((-1, 2), ValueError, "`input_size` must be at least 0, got -1"),
        ((2, 2.0), TypeError, "`hidden_size` must be a whole number, got 2.0"),
        ((True, 2), TypeError, "`input_size` must be a whole number, got True"),
        ((2, 3, 2), ValueError, "`state_size` is 2, less than the 3 visible units"),
    ],
)
def test_sizes_that_are_no_sizes_are_refused(sizes, error, message):
    class Still(VectorField):
        def flow(self, projected, h):
            return torch.zeros_like(h)

    with pytest.raises(error, match=message):
        Still(*sizes)


@named
def test_forgetting_is_a_flow_that_starts_with_the_leak(name):
    field = NAMED_FIELDS[name](3, 5)
    projected, h = field.project(torch.randn(4, 3)), torch.randn(4, field.state_size)

    def left(dt):
        return field.forget(projected, h, h, dt)

    slope = torch.func.jvp(left, (torch.zeros(()),), (torch.ones(()),))[1]
    assert_close(left(torch.zeros(())), h)
    assert_close(slope, -field.leak(projected, h) * h, rtol=1e-12, atol=1e-15)
    assert_close(field.forget(projected, left(0.7), h, 1.6), left(2.3), rtol=1e-13, atol=0)
    assert (left(0.7).abs() <= h.abs()).all()
