"""A class that descends from a known one and computes something else is not taken for it: it is followed, or refused."""

import types

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, prune, weight_norm
from torch.testing import assert_close

import ctrnn
import discretize
from ctrnn.own_code import computes_as, own_code
from discretize.steps.catalog import steps

EXACT = {"rtol": 0, "atol": 1e-13}


def overriding(kind, name="forward", function=lambda self, *given: None):
    return type("Mine", (kind,), {name: function})


def with_a_mixin(kind):
    class Mixin:
        def forward(self, *given):
            return None

    return type("Mine", (Mixin, kind), {})


def on_the_object(module):
    module.forward = types.MethodType(lambda self, x: x, module)
    return module


def hooked(module, register):
    getattr(module, register)(lambda *given: None)
    return module


CELLS = [nn.RNNCell, nn.GRUCell, nn.LSTMCell]
SEQUENCES = [nn.RNN, nn.GRU, nn.LSTM]
OTHERS = {
    "forward": lambda kind: overriding(kind)(2, 3),
    "a mixin's forward": lambda kind: with_a_mixin(kind)(2, 3),
    "__call__": lambda kind: overriding(kind, "__call__")(2, 3),
    "__getattr__": lambda kind: overriding(kind, "__getattr__", nn.Module.__getattr__)(2, 3),
    "a forward of the object": lambda kind: on_the_object(kind(2, 3)),
    "a hook": lambda kind: hooked(kind(2, 3), "register_forward_hook"),
    "a hook before": lambda kind: hooked(kind(2, 3), "register_forward_pre_hook"),
    "a hook of gradients": lambda kind: hooked(kind(2, 3), "register_full_backward_hook"),
}


@pytest.mark.parametrize("other", OTHERS)
@pytest.mark.parametrize("kind", [*CELLS, *SEQUENCES])
def test_a_torch_module_with_code_of_its_own_is_refused(kind, other):
    module = OTHERS[other](kind)
    readers = [ctrnn.from_torch] if kind in CELLS else [ctrnn.from_torch, discretize.layers_from_torch]
    for read in readers:
        with pytest.raises(TypeError, match=f"which changes what {kind.__name__} computes by .*: code is not read"):
            read(module)
    if kind not in (nn.RNN, nn.RNNCell):
        with pytest.raises(TypeError, match=r"what its biases mean is not known; fill them by"):
            ctrnn.init.chrono_(module, 10.0)


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize(
    "legacy", [lambda cell: weight_norm(cell, "weight_hh"), lambda cell: prune.l1_unstructured(cell, "weight_hh", 2)]
)
def test_weights_that_a_hook_sets_are_refused(legacy):
    with pytest.raises(TypeError, match=r"changes what GRUCell computes by a hook, (WeightNorm|L1Unstructured)"):
        ctrnn.from_torch(legacy(nn.GRUCell(2, 3)))


@pytest.mark.parametrize("make", [parametrizations.weight_norm, parametrizations.spectral_norm, parametrizations.orthogonal])
def test_weights_that_a_parametrization_computes_are_refused_and_permanent_ones_read(make):
    cell, x, h = nn.RNNCell(2, 3), torch.randn(4, 2), torch.randn(4, 3)
    make(cell, "weight_hh")
    with pytest.raises(TypeError, match=r"computes `weight_hh` by a parametrization.*remove_parametrizations"):
        ctrnn.from_torch(cell)
    nn.utils.parametrize.remove_parametrizations(cell, "weight_hh")
    field = ctrnn.from_torch(cell)
    assert_close(h + field(x, h), cell(x, h), **EXACT)


@pytest.mark.parametrize("kind", [*CELLS, *SEQUENCES])
def test_a_subclass_with_methods_more_or_another_mode_is_what_it_descends_from(kind):
    mine = type(
        "Mine",
        (kind,),
        {
            "train": lambda self, mode=True: kind.train(self, mode),
            "report": lambda self: 1,
            "extra_repr": lambda self: "",
            "size": 3,
            "__repr__": lambda self: "mine",
        },
    )
    torch.manual_seed(0)
    module = mine(2, 3)
    theirs = kind(2, 3)
    theirs.load_state_dict(module.state_dict())
    for own, other in zip(ctrnn.from_torch(module).parameters(), ctrnn.from_torch(theirs).parameters(), strict=True):
        assert torch.equal(own, other)


def test_an_rnn_computes_by_its_mode_and_is_read_so():
    rnn, x = nn.RNN(2, 3), torch.randn(5, 4, 2)
    rnn.nonlinearity = "relu"  # which torch's forward does not look at
    assert_close(discretize.layers_from_torch(rnn)(x)[0], rnn(x)[0], **EXACT)


@pytest.mark.parametrize("kind", [*CELLS, *SEQUENCES])
@pytest.mark.parametrize("frozen", [["weight_ih", "weight_hh", "bias_ih", "bias_hh"], ["weight_hh"], ["bias_ih", "bias_hh"], []])
def test_frozen_weights_and_the_mode_come_along_and_back(kind, frozen):
    module = kind(2, 3).eval()
    for name, weight in module.named_parameters():
        weight.requires_grad_(not name.startswith(tuple(frozen)))
    field = ctrnn.from_torch(module)
    assert not field.training
    flags = {name.rpartition(".")[2]: weight.requires_grad for name, weight in field.named_parameters()}
    expected = {"weight_x": "weight_ih", "weight_h": "weight_hh", "bias": "bias_ih", "bias_h": "bias_hh"}
    assert flags == {ours: expected[ours] not in frozen for ours in flags}
    again = ctrnn.to_torch(field) if kind in CELLS else discretize.layers_to_torch(discretize.layers_from_torch(module))
    assert not again.training
    assert [weight.requires_grad for weight in again.parameters()] == [weight.requires_grad for weight in module.parameters()]


def test_gates_of_which_only_some_learn_have_no_place_in_torch():
    field = ctrnn.gru(2, 3)
    field.rate.weight_h.requires_grad_(False)
    with pytest.raises(ValueError, match=r"of the same kind some that do not, which torch keeps in one tensor"):
        ctrnn.to_torch(field)


class Turning(ctrnn.Relaxation):
    """A gated field with a term more."""

    def flow(self, projected, h):
        return super().flow(projected, h) + torch.sin(3 * h)


class Same(ctrnn.VectorField):
    """The same equation, of a class that inherits nothing."""

    def __init__(self, field):
        super().__init__(field.input_size, field.hidden_size)
        self.inner = field

    def project(self, x):
        return self.inner.project(x)

    def flow(self, projected, h):
        return self.inner.flow(projected, h) + torch.sin(3 * h)


STEPS = [*steps().values()]


@pytest.fixture
def turning():
    field = ctrnn.gated(2, 3)
    return Turning(field.candidate, field.rate, field.decay), Same(field), torch.randn(4, 2), torch.randn(4, 3)


@pytest.mark.parametrize("step", STEPS)
def test_every_step_follows_the_flow_of_a_class_that_descends_from_a_field_of_ours(turning, step):
    mine, same, x, h = turning
    assert_close(step()(mine, x, h, 0.1), step()(same, x, h, 0.1), **EXACT)


def test_what_is_known_of_a_field_is_not_said_of_one_that_descends_from_it(turning):
    mine, same, _, _ = turning
    assert_close(ctrnn.timescales(mine), ctrnn.timescales(same), **EXACT)
    assert mine.equations == ("dh/dt = Turning(x, h)",)
    for refused in (ctrnn.softplus_clock, ctrnn.to_torch):
        with pytest.raises(TypeError, match=r"Turning"):
            refused(mine)


@pytest.mark.parametrize("make", [ctrnn.plain, ctrnn.gru, ctrnn.lstm])
def test_torch_has_no_cell_for_a_field_whose_part_computes_something_else(make):
    field = make(2, 3)
    part = getattr(field, "gates", None) or field.candidate
    part.flow = lambda projected, h: projected
    with pytest.raises(TypeError, match=r"torch has a cell for plain, gru and lstm fields only"):
        ctrnn.to_torch(field)
    mine = type("Mine", (type(make(2, 3)),), {"flow": lambda self, projected, h: -h})
    other = make(2, 3)
    other.__class__ = mine
    with pytest.raises(TypeError, match=r"torch has a cell for plain, gru and lstm fields only"):
        ctrnn.to_torch(other)


def test_torch_has_no_cell_for_computed_and_normalized_weights():
    field = ctrnn.lstm(2, 3)
    parametrizations.weight_norm(field.gates, "weight_h")
    with pytest.raises(TypeError, match=r"computes weights of its `gates` by a parametrization"):
        ctrnn.to_torch(field)
    field = ctrnn.lstm(2, 3)
    field.gates = ctrnn.LayerNorm(field.gates)
    with pytest.raises(TypeError, match=r"torch has a cell for plain, gru and lstm fields only"):
        ctrnn.to_torch(field)


class Squared(ctrnn.PowerDecay):
    def leak(self, h):
        return 1 + h**2


def test_a_decay_follows_the_leak_of_its_class_and_a_forward_needs_one():
    h, s = torch.randn(4, 3), torch.rand(4, 3)
    assert_close(Squared(1.0)(h), (1 + h**2) * h, **EXACT)
    assert_close(Squared(1.0).after(h, s), h * torch.exp(-s * (1 + h**2)), **EXACT)
    with pytest.raises(TypeError, match=r"The decay Cubic overrides `forward` and inherits the `leak` of another decay"):
        type("Cubic", (ctrnn.LinearDecay,), {"forward": lambda self, h: h**3})


class Hard(ctrnn.GateRate):
    def function(self, argument):
        return (argument / 6 + 0.5).clamp(0.01, 1)


def test_a_gate_with_a_function_of_its_own_is_no_sigmoid():
    field = ctrnn.Relaxation(ctrnn.TanhCandidate(2, 3), Hard(2, 3), ctrnn.LinearDecay())
    with pytest.raises(TypeError, match=r"has the rate Hard; how its bias sets a time scale is known for"):
        ctrnn.init.chrono_(field, 10.0)
    with pytest.raises(ValueError, match=r"has the rate Hard, which is no sigmoid"):
        ctrnn.softplus_clock(field)
    rate = 1 / ctrnn.timescales(field)
    assert_close(rate, field.rate(torch.zeros(1, 2), torch.zeros(1, 3))[0], **EXACT)


def test_a_part_with_a_flow_of_its_own_is_not_normalized():
    mine = type("Mine", (ctrnn.TanhCandidate,), {"flow": lambda self, projected, h: projected})
    with pytest.raises(TypeError, match=r"`part`, a Mine, overrides `flow`"):
        ctrnn.LayerNorm(mine(2, 3))


class Doubled(ctrnn.FixedRate):
    def flow(self, projected, h):
        return 2 * super().flow(projected, h)


def test_equations_say_no_constant_that_the_rate_is_not():
    field = ctrnn.Relaxation(ctrnn.TanhCandidate(2, 3), Doubled(1.0), ctrnn.LinearDecay())
    assert "Doubled" in "".join(field.equations)


def test_code_of_its_own_is_named():
    assert own_code(nn.GRU(2, 3), nn.GRU) is None
    assert own_code(overriding(nn.GRU)(2, 3), nn.GRU) == "`Mine.forward`"
    assert own_code(on_the_object(nn.GRU(2, 3)), nn.GRU) == "`forward`, set on the object"
    assert computes_as(ctrnn.GateRate(2, 3), ctrnn.GateRate)
    assert not computes_as(Hard(2, 3), ctrnn.GateRate)


def test_a_module_of_ncps_with_code_of_its_own_is_refused():
    ncps = pytest.importorskip("ncps.torch")
    wiring = pytest.importorskip("ncps.wirings").FullyConnected(3, 3)
    of_ltc = overriding(ncps.LTCCell, "_ode_solver")(wiring, 2)
    with pytest.raises(TypeError, match=r"changes what ncps' LTCCell computes by `Mine._ode_solver`"):
        ctrnn.from_ncps(of_ltc)
    with pytest.raises(TypeError, match=r"changes what ncps' CfCCell computes by `Mine.forward`"):
        discretize.from_ncps(overriding(ncps.CfCCell)(2, 3))
    module = ncps.CfC(2, 3)
    module.rnn_cell.register_forward_hook(lambda *given: None)
    with pytest.raises(TypeError, match=r"changes what ncps' CfCCell computes by a hook"):
        discretize.from_ncps(module)


def doubled(kind):
    class Doubled(kind):
        def evaluate(self, data, t):
            return 2 * super().evaluate(data, t)

        def differentiate(self, data, t):
            return 2 * super().differentiate(data, t)

    return Doubled


@pytest.mark.parametrize("kind", [ctrnn.HeldPath, ctrnn.LinearPath, ctrnn.HermitePath])
def test_solves_follow_the_values_of_a_class_that_descends_from_a_path_of_samples(kind):
    field, xs, ts = ctrnn.gated(2, 3), torch.randn(3, 4, 2), torch.linspace(0, 2, 3)

    def solved(path):
        return discretize.integrate(field, path, torch.zeros(4, 3), ts, rtol=1e-6, atol=1e-8, fused=False).hs

    mine = doubled(kind)(xs)
    assert_close(solved(mine), solved(kind(2 * xs)), rtol=1e-9, atol=1e-9)  # the same steps
    assert_close(mine(torch.tensor([0.3, 1.7])), 2 * kind(xs)(torch.tensor([0.3, 1.7])), **EXACT)
    assert_close(ctrnn.DerivativePath(mine)(0.3), 2 * kind(xs).derivative(0.3), **EXACT)


@pytest.mark.parametrize("name", ["__call__", "at", "evaluate"])
def test_a_path_that_gives_a_part_of_what_its_pieces_are_read_by_is_refused(name):
    with pytest.raises(TypeError, match=r"The path Mine would be solved as the one it descends from.*give both"):
        overriding(ctrnn.LinearPath, name)


def test_methods_more_leave_a_path_what_it_is():
    mine = type("Mine", (ctrnn.HeldPath,), {"longest": lambda self: self.knots.diff().max()})
    path = mine(torch.randn(6, 4, 2))
    assert computes_as(path, ctrnn.HeldPath)
    assert type(path.map(torch.tanh)) is mine


class Halved(discretize.Euler):
    """A step of half the length."""

    def advance(self, field, projected, h, dt):
        return super().advance(field, projected, h, dt / 2)


def test_a_step_that_descends_from_another_has_the_stability_of_its_own_map():
    z = torch.tensor([-1.0, -0.5, 0.25])
    assert_close(Halved().stability(z), 1 + z / 2, **EXACT)
    assert not Halved.gate
    assert discretize.Euler.gate


@pytest.mark.parametrize(
    "name", ["gated", "gru", "lstm", "rhn", "mgu", "adaptive", "lem", "ltc", "additive", "fitzhugh_nagumo", "cornn"]
)
def test_a_flow_may_add_to_that_of_any_field(name):
    field = getattr(ctrnn, name)(2, 4)
    base = type(field)
    mine = type("Mine", (base,), {"flow": lambda self, projected, h: base.flow(self, projected, h) + torch.sin(h)})
    x, h = torch.randn(3, 2), torch.randn(3, field.state_size)
    expected = field(x, h) + torch.sin(h)
    field.__class__ = mine
    assert_close(field(x, h), expected, **EXACT)
    for step in (discretize.ExponentialEuler(), discretize.StrangSplitting()):
        assert step(field, x, h, 0.1).isfinite().all()


@pytest.mark.parametrize("kind", STEPS)
def test_a_step_may_do_something_after_that_of_any_other(kind):
    mine = type("Mine", (kind,), {"advance": lambda self, *given: 2 * super(mine, self).advance(*given)})
    cell = discretize.DiscreteCell(ctrnn.gated(2, 3), mine(), 0.1)
    x, h = torch.randn(1, 4, 2), torch.randn(4, 3)
    expected = 2 * kind()(cell.field, x[0], h, 0.1)
    assert_close(cell(x[0], h), expected, **EXACT)
    assert_close(discretize.unroll(cell, x, h, fused=False).hs[1], expected, **EXACT)


@pytest.mark.parametrize("kind", ["LTC", "CfC"])
@pytest.mark.parametrize("learns", [True, False])
def test_frozen_weights_of_ncps_stay_frozen(kind, learns):
    ncps = pytest.importorskip("ncps.torch")
    module = getattr(ncps, kind)(2, pytest.importorskip("ncps.wirings").FullyConnected(3, 3) if kind == "LTC" else 3).eval()
    rnn = discretize.from_ncps(module.requires_grad_(learns))
    assert {weight.requires_grad for name, weight in rnn.named_parameters() if not name.endswith(("gain", "shift"))} == {learns}
    assert not rnn.training
