r"""Builds fields by name, as the experiments train them, and initializes them.

    every cell of ctrnn by its name: plain gated gru lstm mgu lem fitzhugh-nagumo ...            ctrnn.cells
    gated-global gated-network gated-softplus gated-exponential gru-reset-before antisymmetric-gated: choices of these
    leaky-power gated-power gru-power lstm-power: with the decay |h|^r h, of the LSTM in c      Ohno and Kumagai 2021, eq. (22)
    leaky-power-autograd: with the derivative that autograd makes of |h|^r h                    autograd_power.py
    lstm-blind-output: its output gate has no recurrent weights                                 no_output_recurrence.py
    leaky here has one learnable alpha = sigma(a) for each unit                                 Tallec and Ollivier 2018, eq. (5)
    leaky-power has one alpha = sigma(a) for all, and so has leaky with one_alpha=true          Ohno and Kumagai 2021, eq. (2)
    lstm-batch-norm: no field, a module of torch                                                batch_norm_lstm.py
    gru-d ode-rnn gru-ode-bayes cfc: models that jump at their samples                          jumps.py

    standard    weights as torch draws them; for the LSTM forget biases of 1, the paper's baseline
    chrono      gate biases for times T uniform on [t_min, t_max]; for leaky alpha = 1/T        sec. 2, eq. (16)
    slow-decay  the same for times of a law of slow decay, which expects no time                footnote 7, corrected
    inverse-gamma the same for times of an inverse-gamma law                                    Mahto and others 2021
    uniform-gates the same for gates uniform on (1/hidden, 1 - 1/hidden)                        Gu and others 2020
    constant    gate biases for the rate alpha, that at which leaky starts without chrono       Ohno and Kumagai 2021, sec. VI
    balanced    recurrent weights as Dale's law starts them, whose signs are free from then on
    and recurrent weights normal, with standard deviation recurrent_gain/sqrt(hidden), if that is given

What is heavy is imported when a field is built, so that names and settings are read at once.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Literal, TypedDict

import ctrnn
from ctrnn.cells.catalog import constructor_names
from experiments.code_files import called as made
from experiments.registry import Registry
from experiments.settings import Bounds, Checked
from experiments.usage import UsageError

__all__ = [
    "FIELDS",
    "JUMPS",
    "JUMPS_BY_TIME",
    "LEAKY",
    "MODULES",
    "NO_FIELDS",
    "WITH_A_POWER",
    "FieldSettings",
    "built_field",
    "check_rates",
    "no_time_scale",
]

if TYPE_CHECKING:
    import torch

    Builder = Callable[[int, "FieldSettings", "_Weights"], ctrnn.VectorField]

MOST_UNITS = 1_000_000  # whose recurrent weights are 4 TB
MOST_NOISE = 1e6
SMALLEST, CLOSEST = 2.0**-126, 2.0**-24  # what single precision, that of the weights, still tells from 0, and from 1


def check_rates(name: str, settings: FieldSettings) -> None:
    """Refuse rates that are not below 1, of all fields of ours but those whose rates have no bound. Raises: UsageError."""
    if name in UNBOUNDED or name not in OWN:
        return
    if settings.alpha > 1 - CLOSEST:
        raise UsageError(f"`alpha` must be strictly between 0 and 1, in single precision too, got {settings.alpha:g}.")
    if settings.t_min <= 1:
        raise UsageError(f"`t_min` must be a time above 1 sample, got {settings.t_min:g}.")


@dataclass(frozen=True)
class FieldSettings(Checked):
    r"""Sets the size of a field and its initial weights.

    Args:    hidden: units; init: "standard", "chrono", "slow-decay", "inverse-gamma", "uniform-gates", "constant" or "balanced",
             whose recurrent weights are under the law of `dale` at the start alone; t_max, t_min: the times that chrono
             expects, in samples; t_max also the longest that slow-decay draws, None for that of `ctrnn.init.slow_decay_`;
             alpha: rate at which leaky starts without chrono, and gates with "constant"; exponent: r of the fields with a power
             decay; exponents: "fixed", or where learning starts from it "learned", one r for all units, or "per-unit";
             one_alpha: whether leaky has one alpha for all units; recurrent_gain: of normal recurrent weights, 0.1 in the
             paper, None for those that the field is made with; nonlinearity: of plain, leaky and additive, None for theirs;
             dale: the share of units that excite, the others inhibit, with recurrent weights balanced and of the spectral
             radius recurrent_gain, or 1.5; noise: sigma of dh = field dt + sigma dW, for each unit of the state, per root of a
             sample; it stays as it is.
    Raises:  ValueError for numbers that make no field.
    Source:  Tallec and Ollivier 2018, secs. 2 and 3; Ohno and Kumagai 2021, eq. (22) and sec. VI, for the last four.
    """

    hidden: Annotated[int, Bounds(most=MOST_UNITS)] = 64
    init: Literal["standard", "chrono", "slow-decay", "inverse-gamma", "uniform-gates", "constant", "balanced"] = "standard"
    t_max: float | None = None
    t_min: float = 2.0
    alpha: float = 0.1
    exponent: float = 2.0
    exponents: Literal["fixed", "learned", "per-unit"] = "fixed"
    one_alpha: bool = False
    recurrent_gain: float | None = None
    nonlinearity: Literal["tanh", "relu", "softplus", "sigmoid", "retanh"] | None = None
    dale: float | None = None
    noise: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("alpha", "t_min"):
            if not SMALLEST <= getattr(self, name) <= 1 / SMALLEST:
                raise ValueError(f"`{name}` must be above 0, in single precision too, got {getattr(self, name):g}.")
        if self.t_max is not None and not self.t_min <= self.t_max <= 1 / SMALLEST:
            raise ValueError(
                f"`t_max` must be a time of at least `t_min` = {self.t_min:g} samples, and at most {1 / SMALLEST:g}, got "
                f"{self.t_max:g}."
            )
        if not 0 <= self.exponent < math.inf:
            raise ValueError(f"`exponent` must be at least 0, got {self.exponent:g}.")
        if self.exponents != "fixed" and self.exponent == 0:
            raise ValueError("`exponent` is 0, and one that is learned starts above it, such as 0.1.")
        if self.recurrent_gain is not None and not 0 <= self.recurrent_gain < math.inf:
            raise ValueError(f"`recurrent_gain` must be at least 0, got {self.recurrent_gain:g}.")
        if self.dale is not None and not 0 < round(self.dale * self.hidden) < self.hidden:
            raise ValueError(
                f"`dale` must be a share of the {self.hidden} units that leaves some to excite and some to inhibit, such as 0.8, "
                f"got {self.dale:g}."
            )
        if not 0 <= self.noise <= MOST_NOISE:
            raise ValueError(f"`noise` must be at least 0, and at most {MOST_NOISE:g}, got {self.noise:g}.")
        if self.init == "balanced" and self.dale is None:
            raise ValueError("`init` is balanced, which needs `dale`, the share of units that excite at the start, such as 0.8.")
        if self.init == "chrono" and self.t_max is None:
            raise ValueError("`init` is chrono, which needs `t_max`, the longest time to be remembered, in samples.")
        if self.init == "slow-decay" and self.t_max is not None and self.t_max > ctrnn.init.MOST:
            raise ValueError(f"`t_max` must be at most 2^53 for `init` slow-decay, whose times are whole, got {self.t_max:g}.")
        if self.init == "uniform-gates" and self.hidden < 3:
            raise ValueError(f"`init` is uniform-gates, from 1/hidden to 1 - 1/hidden, which needs 3 units, got {self.hidden}.")


class _Weights(TypedDict):
    dtype: torch.dtype
    generator: torch.Generator | None


def _named(kind: str, **options: object) -> Builder:
    """Return a builder of a constructor of ctrnn with options."""
    return lambda inputs, settings, weights: getattr(ctrnn, kind)(inputs, settings.hidden, **options, **weights)


def _of_nonlinearity(kind: str) -> Builder:
    return lambda inputs, settings, weights: _named(kind, **_function(settings))(inputs, settings, weights)


def _function(settings: FieldSettings) -> dict[str, str]:
    """Return the nonlinearity, if there is one to say; Dale's law asks for rates that are not negative."""
    if settings.dale is not None and settings.nonlinearity == "tanh":
        raise UsageError(
            "under `dale` rates must not be negative, and tanh is; leave nonlinearity out for relu, or take another."
        )
    function = settings.nonlinearity or (None if settings.dale is None else "relu")
    return {} if function is None else {"nonlinearity": function}


def _leaky(inputs: int, settings: FieldSettings, weights: _Weights, decay: ctrnn.Decay | None = None) -> ctrnn.VectorField:
    import torch  # noqa: PLC0415

    from ctrnn.fields.candidates import candidate_of  # noqa: PLC0415

    function = _function(settings).get("nonlinearity", "tanh")
    candidate = candidate_of(function, inputs, settings.hidden, **weights)  # type: ignore[arg-type]
    alphas = torch.full(() if settings.one_alpha else (settings.hidden,), settings.alpha, dtype=torch.float64)
    if settings.init == "chrono" and settings.t_max is not None:
        times = torch.empty_like(alphas).uniform_(settings.t_min, settings.t_max, generator=weights["generator"])
        alphas = 1 / times
    rate = ctrnn.SigmoidConstantRate(alphas, dtype=weights["dtype"])
    return ctrnn.Relaxation(candidate, rate, decay or ctrnn.LinearDecay())


def _power_decay(settings: FieldSettings, weights: _Weights) -> ctrnn.PowerDecay:
    if settings.exponents == "fixed":
        return ctrnn.PowerDecay(settings.exponent)
    units = settings.hidden if settings.exponents == "per-unit" else None
    return ctrnn.PowerDecay(settings.exponent, learnable=True, hidden_size=units, dtype=weights["dtype"])


def _leaky_power(inputs: int, settings: FieldSettings, weights: _Weights) -> ctrnn.VectorField:
    return _leaky(inputs, replace(settings, one_alpha=True), weights, _power_decay(settings, weights))


def _leaky_power_autograd(inputs: int, settings: FieldSettings, weights: _Weights) -> ctrnn.VectorField:
    from experiments.models.autograd_power import AutogradPower  # noqa: PLC0415

    return _leaky(inputs, replace(settings, one_alpha=True), weights, AutogradPower(settings.exponent))


def _with_a_power(kind: str) -> Builder:
    """Return a builder of a constructor of ctrnn with the decay |h|^r h."""
    return lambda inputs, settings, weights: _named(kind, decay=_power_decay(settings, weights))(inputs, settings, weights)


def _lstm_power(inputs: int, settings: FieldSettings, weights: _Weights) -> ctrnn.VectorField:
    return _lstm(inputs, settings, weights, _power_decay(settings, weights))


def _lstm(inputs: int, settings: FieldSettings, weights: _Weights, decay: ctrnn.Decay | None = None) -> ctrnn.VectorField:
    import torch  # noqa: PLC0415

    field = ctrnn.lstm(inputs, settings.hidden, decay=decay, **weights)
    if settings.init == "standard" and isinstance(field, ctrnn.LSTMField) and field.gates.bias is not None:
        with torch.no_grad():
            field.gates.bias.chunk(4)[1].fill_(1.0)  # i, f, g, o
    return field


def _lstm_blind_output(inputs: int, settings: FieldSettings, weights: _Weights) -> ctrnn.VectorField:
    from experiments.models.no_output_recurrence import remove_output_recurrence  # noqa: PLC0415

    field = _lstm(inputs, settings, weights)
    return remove_output_recurrence(field) if isinstance(field, ctrnn.LSTMField) else field


def _of_others(name: str, make: Callable[..., ctrnn.VectorField]) -> Builder:
    """Return a builder of a user's field, whose constructor may leave out the keywords of `ctrnn.gated`."""

    def build(inputs: int, settings: FieldSettings, weights: _Weights) -> ctrnn.VectorField:
        from ctrnn.fields.field import instead_of_field  # noqa: PLC0415
        from experiments.seeds import drawing  # noqa: PLC0415

        parameters = inspect.signature(make).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        given = {key: value for key, value in weights.items() if takes_any or key in parameters}
        with drawing(weights["generator"]):
            field = made(f"the field {name}", make, inputs, settings.hidden, **given)
        if not isinstance(field, ctrnn.VectorField):
            raise UsageError(f"the field {name} must be a ctrnn.VectorField, or what makes one; {instead_of_field(field)}")
        return field.to(weights["dtype"])

    return build


OWN: dict[str, Builder] = {
    **{name.replace("_", "-"): _named(name) for name in constructor_names()},
    **{name: _of_nonlinearity(name) for name in ("plain", "additive")},
    "leaky": _leaky,
    "leaky-power": _leaky_power,
    "leaky-power-autograd": _leaky_power_autograd,
    "gated-global": _named("gated", gate="global"),
    "gated-network": _named("gated", gate="network"),
    "gated-softplus": _named("gated", rate="softplus"),
    "gated-exponential": _named("gated", rate="exponential"),
    "gated-power": _with_a_power("gated"),
    "gru-reset-before": _named("gru", reset="before"),
    "gru-power": _with_a_power("gru"),
    "lstm": _lstm,
    "lstm-power": _lstm_power,
    "lstm-blind-output": _lstm_blind_output,
    "antisymmetric-gated": _named("antisymmetric", gated=True),
}
JUMPS = {"gru-d": "gru_d", "ode-rnn": "ode_rnn", "gru-ode-bayes": "gru_ode_bayes", "cfc": "cfc"}  # names in discretize
MODULES = {"lstm-batch-norm": "experiments.models.batch_norm_lstm:BatchNormModel"}  # of torch, of which none is an equation
FIELDS = Registry("field", "ctrnn.fields", OWN | MODULES | {name: f"discretize:{made}" for name, made in JUMPS.items()})
NO_FIELDS = (*MODULES, *JUMPS)
JUMPS_BY_TIME = ("gru-d", "cfc")  # in which time alone moves the state from jump to jump
LEAKY = ("leaky", "leaky-power", "leaky-power-autograd")
WITH_A_POWER = ("leaky-power", "leaky-power-autograd", "gated-power", "gru-power", "lstm-power")
UNBOUNDED = ("gated-softplus", "gated-exponential")  # rates, of all others of ours below 1
STARTED = ("leaky", "leaky-power")  # with their time scales already, but for
BY_LAW = ("slow-decay", "inverse-gamma", "uniform-gates")
WITH_A_NONLINEARITY = ("plain", "leaky", "additive")
RADIUS = 1.5  # of recurrent weights under Dale's law


def built_field(
    name: str, input_size: int, settings: FieldSettings, generator: torch.Generator | None = None
) -> ctrnn.VectorField:
    r"""Build the field of that name, in float32, drawn from the generator; names of `NO_FIELDS` are none.

    Raises:  UsageError for a name that no field has, for chrono or constant where there is no time scale to set, for a
             recurrent_gain where there are no recurrent weights, and for numbers that the field refuses.
    """
    import torch  # noqa: PLC0415

    build: Builder = FIELDS.named(name)
    if settings.nonlinearity is not None and name not in WITH_A_NONLINEARITY:
        raise UsageError(f"`nonlinearity` is of {', '.join(WITH_A_NONLINEARITY)}; leave it out for the field {name}.")
    try:
        weights: _Weights = {"dtype": torch.float32, "generator": generator}
        field = (build if name in OWN else _of_others(name, build))(input_size, settings, weights)
    except ValueError as error:
        raise UsageError(str(error)) from error
    if name not in STARTED or settings.init in BY_LAW:
        _set_time_scales(name, field, settings, generator)
    if settings.dale is not None:
        _under_dales_law(name, field, settings, generator)
    elif settings.recurrent_gain is not None:
        try:
            ctrnn.init.recurrent_normal_(field, settings.recurrent_gain, generator=generator)
        except TypeError as error:
            raise UsageError(f"the field {name} has no recurrent weights that recurrent_gain could set: {error}") from error
    return _with_noise(name, field, settings.noise)


def _under_dales_law(name: str, field: ctrnn.VectorField, settings: FieldSettings, generator: torch.Generator | None) -> None:
    import torch  # noqa: PLC0415
    from torch.nn.utils.parametrize import register_parametrization, remove_parametrizations  # noqa: PLC0415

    if name in OWN and name not in WITH_A_NONLINEARITY:
        raise UsageError(f"`dale` is for units whose rates are not negative: of {', '.join(WITH_A_NONLINEARITY)}, not of {name}.")
    signs = torch.ones(settings.hidden)
    signs[round((settings.dale or 0) * settings.hidden) :] = -1
    try:
        parts = [part for part in field.modules() if "weight_h" in part._parameters]
        for part in parts:
            register_parametrization(part, "weight_h", ctrnn.Dale(signs))
        ctrnn.init.recurrent_balanced_(
            field, RADIUS if settings.recurrent_gain is None else settings.recurrent_gain, generator=generator
        )
    except (TypeError, ValueError) as error:
        raise UsageError(f"the field {name} takes no `dale`: {error}") from error
    if settings.init == "balanced":
        for part in parts:
            remove_parametrizations(part, "weight_h")


def _with_noise(name: str, field: ctrnn.VectorField, sigma: float) -> ctrnn.VectorField:
    if not sigma:
        return field
    try:
        # Not learned: no task rewards noise, so that learning would only take it away.
        return ctrnn.Noisy(field, ctrnn.Noise(sigma).requires_grad_(False))
    except ValueError as error:  # a user's own that has some already
        raise UsageError(f"`noise` is {sigma:g}, and the field {name} takes none: {error}") from error


def _set_time_scales(name: str, field: ctrnn.VectorField, settings: FieldSettings, generator: torch.Generator | None) -> None:
    try:
        if settings.init == "slow-decay":
            longest = {} if settings.t_max is None else {"largest": settings.t_max}
            ctrnn.init.slow_decay_(field, generator=generator, **longest)
        elif settings.init == "inverse-gamma":
            ctrnn.init.inverse_gamma_(field, generator=generator)
        elif settings.init == "uniform-gates":
            ctrnn.init.uniform_gates_(field, 1 / settings.hidden, generator=generator)
        elif settings.init == "chrono" and settings.t_max is not None:
            ctrnn.init.chrono_(field, settings.t_max, t_min=settings.t_min, generator=generator)
        elif settings.init == "constant":
            ctrnn.init.initial_rate_(field, settings.alpha)
    except (TypeError, ValueError) as error:
        raise no_time_scale(name, settings) from error


def no_time_scale(name: str, settings: FieldSettings) -> UsageError:
    """Return the error for a field whose time scales `init` cannot set."""
    init = settings.init
    return UsageError(f"the field {name} has no time scale that {init} could set; leave --set init={init} out.")
