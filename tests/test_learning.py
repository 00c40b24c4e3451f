"""Nothing that is to learn stands still: each parameter of each public module has a gradient, and moves."""

import inspect
import re
from dataclasses import dataclass
from importlib import import_module

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrize import register_parametrization

import ctrnn
import discretize
from ctrnn.lazy import places_of
from experiments.models.fields import FIELDS, MODULES, FieldSettings
from experiments.models.integrators import IntegratorSettings
from experiments.runs.configuration import Configuration
from experiments.seeds import generator
from experiments.tasks.task import Batch, ClassOfTheSequence

TIME, BATCH, INPUTS, HIDDEN, STEPS = 4, 8, 3, 4, 2
PUBLIC = {
    f"{package.__name__}.{name}": getattr(import_module(place), name)
    for package in (ctrnn, discretize)
    for name, place in places_of(package.__file__).items()
}
# What constructors ask for, by name.
ARGUMENTS = {
    "input_size": lambda: INPUTS,
    "hidden_size": lambda: HIDDEN,
    "outputs": lambda: HIDDEN,
    "output_size": lambda: 2,
    "values": lambda: INPUTS,
    "alpha": lambda: 0.3,
    "p": lambda: 0.2,
    "batch": lambda: BATCH,
    "exponent": lambda: 1.5,
    "nonlinearity": lambda: "retanh",
    "noise": lambda: ctrnn.Noise(0.1),
    "sigma": lambda: 0.1,
    "correlation_time": lambda: 2.0,
    "part": lambda: ctrnn.Affine(INPUTS, HIDDEN, HIDDEN),
    "drive": lambda: ctrnn.Affine(INPUTS, HIDDEN, HIDDEN),
    "adaptation": lambda: ctrnn.ConstantRate(0.1),
    "candidate": lambda: ctrnn.TanhCandidate(INPUTS, HIDDEN),
    "rate": lambda: ctrnn.GateRate(INPUTS, HIDDEN),
    "decay": lambda: ctrnn.PowerDecay(1.5, learnable=True),
    "network": lambda: ctrnn.gru(INPUTS, HIDDEN),
    "wiring": lambda: torch.ones(INPUTS, HIDDEN),
    "from_inputs": lambda: ctrnn.Synapses(torch.ones(INPUTS, HIDDEN)),
    "from_units": lambda: ctrnn.Synapses(-torch.ones(HIDDEN, HIDDEN)),
    "net": lambda: nn.Linear(HIDDEN, HIDDEN),
    "f": lambda: nn.Linear(HIDDEN, HIDDEN * INPUTS),
    "field": lambda: ctrnn.gated(INPUTS, HIDDEN),
    "fields": lambda: [ctrnn.gated(INPUTS, HIDDEN), ctrnn.gru(HIDDEN, HIDDEN)],
    "path": lambda: ctrnn.HeldPath(torch.randn(TIME, BATCH, INPUTS)),
    "step": discretize.Heun,
    "cell": lambda: discretize.DiscreteCell(ctrnn.gru(2 * INPUTS, HIDDEN)),
    "rnn": lambda: discretize.DiscreteRNN(ctrnn.gru(INPUTS, HIDDEN)),
    "layers": lambda: [discretize.DiscreteRNN(ctrnn.gru(INPUTS, HIDDEN)), discretize.DiscreteRNN(ctrnn.mgu(HIDDEN, HIDDEN))],
    "networks": lambda: [discretize.DiscreteRNN(ctrnn.lstm(INPUTS, HIDDEN)) for _ in range(2)],
    "jump": lambda: discretize.GRUBayes(INPUTS, HIDDEN),
}


def of_low_rank(field):
    register_parametrization(field.candidate, "weight_h", ctrnn.LowRank(2))
    return field


ALONE = {"field": lambda: ctrnn.gru(0, HIDDEN)}  # of what jumps
GIVEN = {  # where a name means something else
    "ctrnn.from_torch": {"module": lambda: nn.GRUCell(INPUTS, HIDDEN)},
    "discretize.layers_from_torch": {"module": lambda: nn.GRU(INPUTS, HIDDEN, num_layers=2)},
    "ctrnn.LowRankReduction": {"field": lambda: of_low_rank(ctrnn.leaky(INPUTS, HIDDEN))},
    "discretize.JumpRNN": ALONE,
    "discretize.HeldJumpRNN": ALONE,
}
NOT_MADE = {
    "ctrnn.from_ncps": "copies what another package has started, as ctrnn.ltc and LTCField are",
    "discretize.from_ncps": "the same, as discretize.cfc is",
    "discretize.from_ctrnn": "the same, compared in tests/discretize/sequences/test_foreign.py",
    "ctrnn.DelayLine": "is of a field of one's own; learned in tests/discretize/solvers/test_delays.py",
    "ctrnn.Noise": "is no function; it is learned in ctrnn.Noisy",
    **dict.fromkeys(
        [f"ctrnn.{name}" for name in ("Dale", "Mask", "LowRank", "ZeroDiagonal", "SpectralRadius")],
        "has no parameters; what it constrains is learned in tests/ctrnn/fields/test_connectivity.py",
    ),
}
VARIANTS = {
    "plain relu": lambda: ctrnn.plain(INPUTS, HIDDEN, "relu"),
    "leaky per unit": lambda: ctrnn.leaky(INPUTS, HIDDEN, per_unit=True),
    "global gate": lambda: ctrnn.gated(INPUTS, HIDDEN, "global"),
    "gate of a network": lambda: ctrnn.gated(INPUTS, HIDDEN, "network"),
    "softplus rate": lambda: ctrnn.gated(INPUTS, HIDDEN, rate="softplus"),
    "exponential rate": lambda: ctrnn.gated(INPUTS, HIDDEN, rate="exponential"),
    "learned exponents": lambda: ctrnn.PowerDecay(1.5, learnable=True, hidden_size=HIDDEN),
    "antisymmetric gate": lambda: ctrnn.antisymmetric(INPUTS, HIDDEN, gated=True),
    "two layers": lambda: ctrnn.lstm(INPUTS, HIDDEN, num_layers=2),
    "logistic edges": lambda: ctrnn.gnn(INPUTS, HIDDEN, activation="logistic"),
    "pure curves": lambda: discretize.cfc(INPUTS, HIDDEN, "pure"),
    "ungated curves": lambda: discretize.cfc(INPUTS, HIDDEN, "no_gate", activation="relu", layers=2),
    "one symbol": lambda: discretize.SymbolModel(ctrnn.glnn(INPUTS, HIDDEN)),
}


def kinds(words):
    return [thing for name, thing in PUBLIC.items() if name.rpartition(".")[2] in re.findall(r"\w+", words)]


def makes_modules(thing):
    """Whether a public thing is a class of modules, or a function whose signature promises one."""
    if inspect.isclass(thing):
        return issubclass(thing, nn.Module) and not inspect.isabstract(thing)
    made = kinds(str(inspect.signature(thing).return_annotation)) if callable(thing) else []
    return any(inspect.isclass(kind) and issubclass(kind, nn.Module) for kind in made)


MAKERS = [name for name, thing in PUBLIC.items() if makes_modules(thing) and name not in NOT_MADE]


def made(name):
    needed = {key for key, p in inspect.signature(PUBLIC[name]).parameters.items() if p.default is p.empty and p.kind <= 1}
    arguments = ARGUMENTS | GIVEN.get(name, {})
    assert needed <= set(arguments), f"say in ARGUMENTS what `{name}` is made of: {needed - set(arguments)}"
    return PUBLIC[name](**{key: arguments[key]() for key in needed})


def answer(module):
    """What a module makes of random numbers, some of which are missing where they may be."""
    xs, x, h = torch.randn(TIME, BATCH, INPUTS), torch.randn(BATCH, INPUTS), torch.randn(BATCH, HIDDEN)
    seen, call = (torch.rand(TIME, BATCH, INPUTS) < 0.7).to(x), module
    match module:
        case discretize.Jump():
            state = torch.randn(BATCH, module.state_size)
            state[:, HIDDEN:].abs_()  # of GRU-D the last ones are times
            given = [x * seen[0], seen[0], state]
        case discretize.JumpRNN(jump=discretize.CfCJump()):
            given = [xs]
        case discretize.JumpRNN():
            given = [torch.cat([xs * seen, seen], -1)]
        case discretize.SymbolModel():
            given = [torch.randint(INPUTS, (TIME, BATCH))]
        case ctrnn.VectorField(input_size=0):
            given = [x[:, :0], torch.randn(BATCH, module.state_size)]
        case ctrnn.VectorField(noise_channels=channels) if channels:
            call, given = discretize.DiscreteRNN(module, discretize.ExponentialEulerMaruyama()), [xs]
        case ctrnn.VectorField():
            call, given = discretize.DiscreteRNN(module, discretize.ExponentialEuler()), [xs]
        case ctrnn.Driven():
            given = [0.5, h]
        case ctrnn.Decay():
            given = [h]
        case ctrnn.Synapses():
            given = [x]
        case ctrnn.Part() | discretize.DiscreteCell():
            given = [x, h]
        case _:
            given = [xs]
    found = call(*given)
    return found[0] if isinstance(found, tuple) else found


def noise_predicted(module):
    output = answer(module)
    return (output - torch.randn_like(output)).square().mean()


def stands_still(module, loss):
    """Names of parameters that have no gradient, or do not move, in some steps of Adam."""
    learned = {name: own for name, own in module.named_parameters() if own.requires_grad and own.numel()}
    before, reached = {name: own.detach().clone() for name, own in learned.items()}, set()
    optimizer = torch.optim.Adam(learned.values(), 1e-2) if learned else None
    for _ in range(STEPS if learned else 0):
        optimizer.zero_grad()
        loss().backward()
        reached |= {name for name, own in learned.items() if own.grad is not None and own.grad.any()}
        optimizer.step()
    return [name for name, own in learned.items() if name not in reached or torch.equal(own, before[name])]


@pytest.mark.parametrize("name", MAKERS)
def test_every_parameter_of_every_public_module_learns(name):
    module = made(name)
    assert stands_still(module, lambda: noise_predicted(module)) == []


@pytest.mark.parametrize("name", VARIANTS)
def test_every_parameter_learns_where_a_word_chooses_parts(name):
    module = VARIANTS[name]()
    assert stands_still(module, lambda: noise_predicted(module)) == []


def test_no_name_is_left_out_in_vain():
    assert set(NOT_MADE) <= {name for name, thing in PUBLIC.items() if makes_modules(thing)}
    assert set(GIVEN) <= set(MAKERS)


@dataclass(frozen=True)
class SeenNowAndThen(ClassOfTheSequence):
    """Random values at random times, some of them missing, and classes that mean nothing."""

    input_size, output_size, masked = 2 * INPUTS, 2, True

    def drawn(self, size, generator, split):
        draw = {"generator": generator}
        seen = (torch.rand(TIME, size, INPUTS, **draw) < 0.7).to(torch.get_default_dtype())
        values, ts = seen * torch.randn(seen.shape, **draw), torch.rand(TIME, size, **draw).cumsum(0)
        return Batch(torch.cat([values, seen], -1), torch.randint(2, (size,), **draw), ts=ts)


# Each model that `ctrnn train` makes by its name and that reads times, and two whose samples act up to their stamps.
TRAINED = [*((name, "forward") for name in FIELDS if name not in MODULES), ("gru", "backward"), ("gated", "backward")]


@pytest.mark.filterwarnings("ignore:The field .* declares no leak:discretize.errors.StepWarning")
@pytest.mark.parametrize(("name", "hold"), TRAINED)
def test_every_parameter_of_every_model_that_is_trained_learns(name, hold):
    task, integrator = SeenNowAndThen(), IntegratorSettings(hold=hold)
    settings = FieldSettings(hidden=HIDDEN, exponents="learned")
    model = Configuration(task, name, "exponential-euler", settings, integrator).untrained_model().double()
    batch = task.batch(BATCH, generator(0, name))
    assert stands_still(model, lambda: task.loss(model(batch.xs, ts=batch.ts), batch)) == []
