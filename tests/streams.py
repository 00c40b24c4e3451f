"""Streams of samples, and the modules that read them one at a time."""

import torch
from torch.nn.utils import parametrizations

import ctrnn
import discretize
from discretize import ContinuousRNN, DiscreteRNN, EulerMaruyama, Layers

TIME, BATCH, INPUT, UNITS = 5, 3, 2, 4
FIELDS = {
    "plain": ctrnn.plain,
    "relu": lambda inputs, units, **settings: ctrnn.plain(inputs, units, nonlinearity="relu", **settings),
    "gru": ctrnn.gru,
    "lstm": ctrnn.lstm,
    "gated": ctrnn.gated,
    "cornn": ctrnn.cornn,
}


def noisy(inputs=INPUT):
    return ctrnn.Noisy(ctrnn.gated(inputs, UNITS), ctrnn.Noise(0.3))


def solved(field, **settings):
    return ContinuousRNN(field, rtol=1e-7, atol=1e-9, **settings)


MODULES = {
    **{f"DiscreteRNN of {name}": lambda name=name: DiscreteRNN(FIELDS[name](INPUT, UNITS)) for name in FIELDS},
    "substeps": lambda: DiscreteRNN(ctrnn.gru(INPUT, UNITS), "heun", dt=0.3, substeps=2, batch_first=True),
    "no biases": lambda: DiscreteRNN(ctrnn.gru(INPUT, UNITS, bias=False)),
    "fixed steps": lambda: ContinuousRNN(ctrnn.gated(INPUT, UNITS), method="rk4", max_step=0.4),
    "adaptive steps": lambda: solved(ctrnn.gated(INPUT, UNITS)),
    "layers": lambda: Layers.of(ctrnn.gru, INPUT, UNITS, num_layers=2),
    "layers of pairs": lambda: Layers.of(ctrnn.lstm, INPUT, UNITS, num_layers=2, pair=True),
    "solved layers": lambda: Layers.of(ctrnn.gated, INPUT, UNITS, num_layers=2, method="rk4"),
    "dropout": lambda: DiscreteRNN(ctrnn.Relaxation(ctrnn.Dropout(ctrnn.TanhCandidate(INPUT, UNITS)), *rest())).eval(),
    "computed weights": lambda: DiscreteRNN(computed(ctrnn.gated(INPUT, UNITS))),
}


def rest():
    return ctrnn.FixedRate(0.5), ctrnn.LinearDecay()


def computed(field):
    parametrizations.weight_norm(field.candidate, "weight_h")
    return field


def streamed(module, xs, state=None, **each):
    """Outputs of a stream, (time, ..., features), and the state after it; of each sample its own `dt`, `reset` and so on."""
    outputs = []
    for k, x in enumerate(xs):
        output, state = module.live_step(x, state, **{name: given[k] for name, given in each.items()})
        outputs.append(output)
    return torch.stack(outputs), state


def whole(module, xs, **settings):
    """Outputs and the last state of a call, time-first."""
    turned = module.batch_first and xs.dim() == 3
    settings = {name: given.mT if turned and given.dim() == 2 else given for name, given in settings.items()}
    output, state = module(xs.transpose(0, 1) if turned else xs, **settings)
    return output.transpose(0, 1) if turned else output, state


def off(module):
    return 1e-5 if isinstance(module, ContinuousRNN) and module.settings.adaptive else 1e-13


def samples(batch=BATCH):
    return torch.randn(TIME, *(() if batch is None else (batch,)), INPUT)


NOISY = {
    "DiscreteRNN": lambda: DiscreteRNN(noisy(), EulerMaruyama(), substeps=2),
    "three substeps": lambda: DiscreteRNN(noisy(), EulerMaruyama(), substeps=3),
    "ContinuousRNN": lambda: ContinuousRNN(noisy(), method=EulerMaruyama(), max_step=0.5),
    "Layers": lambda: Layers([DiscreteRNN(noisy(), EulerMaruyama()), DiscreteRNN(noisy(UNITS), EulerMaruyama())]),
}


JUMPS = {
    "ODE-RNN": lambda: discretize.ode_rnn(INPUT, UNITS),
    "GRU-D": lambda: discretize.gru_d(INPUT, UNITS),
    "held": lambda: discretize.HeldJumpRNN(ctrnn.gru(0, UNITS), discretize.gru_ode_bayes(INPUT, UNITS).jump, method="rk4"),
}
