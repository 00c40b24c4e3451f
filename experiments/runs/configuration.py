r"""Collect everything that a run is a function of: its configuration.

    task, with its settings    field, with how it starts    integrator, with how fine    training: data, optimizer, schedule

At the prompt and as keywords the settings of all four are one flat list of keys. Names and keys are known without importing
torch, except those of a task, whose file is imported after everything else was checked.
"""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from experiments.models.fields import FIELDS, JUMPS, MODULES, FieldSettings, built_field, check_rates
from experiments.models.integrators import (
    FOR_NOISE,
    INTEGRATORS,
    IntegratorSettings,
    integrator_name,
    sequence_module,
    step_settings,
)
from experiments.models.jumps import jump_module
from experiments.runs.read_by import READ_BY
from experiments.settings import Bounds, Checked, Count, assignments, setting_types, settings_from, words_of
from experiments.tasks.registry import TASKS, task_named
from experiments.usage import UsageError, check_word

__all__ = [
    "DEFAULTS",
    "DEFAULT_TRAINING",
    "MOST_THREADS",
    "OF_THE_END",
    "SHARED",
    "Configuration",
    "TrainingSettings",
    "by_key",
    "configuration",
    "configuration_from_words",
    "configuration_of",
    "from_things",
    "shared_configuration",
]

if TYPE_CHECKING:
    from ctrnn import VectorField
    from discretize import SequenceModel, Step
    from experiments.tasks.task import Task

T = TypeVar("T")
MOST_THREADS = 1024
OF_THE_END = ("halved-twice", "cosine")  # schedules in which each rate depends on how many steps there are in all
LARGEST_NUMBER = 1e30  # single precision ends at 3.4e38, and optimizers compute with it


@dataclass(frozen=True)
class TrainingSettings(Checked):
    r"""Says how a model is trained.

    Args:    steps: of the optimizer, in all; batch: sequences in one batch; accumulate: batches whose gradients make one step;
             seed: of weights and data; optimizer: "rmsprop", with a moving average of 0.9, "adam", "adamw" or "sgd", with a
             momentum of 0.9; lr: the learning rate at the start; weight_decay: of adamw, on matrices only, for a bias or a rate
             is no weight; schedule: "constant"; "plateau", halved at every evaluation that is no new lowest; "halved-twice",
             after a half and three quarters of the steps; or "cosine", down to 0 after the last; warmup: steps in which lr first
             rises in equal parts; clip: largest norm of the gradient, None for no bound; label_smoothing: share of a target
             that goes to all classes, in training; keep: the weights that are tested, "last" ones, or "best", those of the best
             evaluation; keep_by: the measure by which it is the best, the smallest "loss" or "mean_error", or the largest
             "accuracy", say; patience: evaluations in a row that are no better, after which training ends, None for all steps;
             goal: what is measured by `keep_by` in the evaluation that ends training, or better, None for no such end;
             evaluate_every: steps between evaluations; evaluation: sequences in one, and in the test at the end;
             checkpoint_every: steps between checkpoints; batches: of a training set, None for fresh ones at every step;
             threads: of torch, None for 1 where models are small, and else as many as torch takes; frozen: names of parameters
             that stay as they start, with * for any letters, "" for none; device: where model and batches are, "cpu", "cuda",
             or "auto" for the GPU where there is one; precision: of the products in training, "bfloat16" for torch's autocast;
             weights, and evaluations, stay in float32; likelihood: of gru-ode-bayes, how much weighs, beside the loss of the
             task, how far the values seen are from those expected, in nats a value, see `experiments.models.jumps`; beside: what
             else is trained in the same way, and measured on the test, to compare with, "nn-gru" for `torch.nn.GRU` of as many
             units that reads the time since the sample before as one more number.
    Raises:  ValueError for numbers that train nothing, and for settings that nothing reads together.
    Source:  Tallec and Ollivier 2018, sec. 3; Ohno and Kumagai 2021, sec. VI-A, for "halved-twice" and "best".
    """

    steps: Count = 1000
    batch: Count = 32
    seed: int = 0
    optimizer: Literal["rmsprop", "adam", "adamw", "sgd"] = "rmsprop"
    lr: float = 1e-3
    schedule: Literal["constant", "plateau", "halved-twice", "cosine"] = "constant"
    clip: float | None = None
    keep: Literal["last", "best"] = "last"
    keep_by: str = "loss"
    patience: Annotated[int | None, Bounds()] = None
    goal: float | None = None
    evaluate_every: Count = 100
    evaluation: Count = 1000
    checkpoint_every: Count = 100
    batches: Annotated[int | None, Bounds()] = None
    threads: Annotated[int | None, Bounds(most=MOST_THREADS)] = None
    frozen: str = ""
    device: Literal["cpu", "cuda", "auto"] = "cpu"
    accumulate: Count = 1
    weight_decay: float = 0.0
    warmup: Annotated[int, Bounds(0)] = 0
    label_smoothing: float = 0.0
    precision: Literal["float32", "bfloat16"] = "float32"
    likelihood: float = 0.0
    beside: Literal["", "nn-gru"] = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.seed < 0:  # there is no upper limit
            raise ValueError(f"`seed` must be at least 0, got {self.seed}.")
        for name in ("lr", "clip"):
            value = getattr(self, name)
            if value is not None and not 0 < value < LARGEST_NUMBER:
                raise ValueError(f"`{name}` must be a number above 0, and below {LARGEST_NUMBER:g}, got {value:g}.")
        for name, most in (("weight_decay", LARGEST_NUMBER), ("label_smoothing", 1), ("likelihood", LARGEST_NUMBER)):
            if not 0 <= getattr(self, name) < most:
                raise ValueError(f"`{name}` must be a number from 0 to below {most:g}, got {getattr(self, name):g}.")
        if self.weight_decay and self.optimizer != "adamw":
            raise ValueError(
                f"`weight_decay` is for `optimizer` adamw, which takes it apart from the gradient; got {self.optimizer}."
            )
        if self.schedule in OF_THE_END and self.warmup >= self.steps:
            raise ValueError(
                f"`warmup` must be fewer than the {self.steps} steps of `schedule` {self.schedule}, got {self.warmup}."
            )
        asked = {"keep": self.keep == "best", "schedule": self.schedule == "plateau"}
        asked |= {key: getattr(self, key) is not None for key in ("patience", "goal")}
        for key in [key for key, looks in asked.items() if looks and self.evaluate_every > self.steps]:
            raise ValueError(
                f"`{key}` is {getattr(self, key)}, and there is no evaluation in {self.steps} steps: `evaluate_every` is "
                f"{self.evaluate_every}."
            )

    @property
    def rate(self) -> float:
        """Return `lr`, which had this name."""
        return self.lr


ALSO_CALLED = {"rate": "lr", "learning_rate": "lr", "batch_size": "batch", "hidden_size": "hidden"}  # what people type
RENAMED = {"told": "clock_given", "rate": "lr"}  # keys of earlier versions, as config.json of their runs has them
NAMES = ("task", "field", "integrator")
SETTINGS = ("task_settings", "field_settings", "integrator_settings", "training")  # of the task, and of those in `SHARED`
SHARED = FieldSettings, IntegratorSettings, TrainingSettings
DEFAULTS: dict[str, Any] = {setting.name: setting.default for kind in SHARED for setting in dataclasses.fields(kind)}
DEFAULT_FIELD, DEFAULT_INTEGRATOR, DEFAULT_TRAINING = FieldSettings(), IntegratorSettings(), TrainingSettings()


@dataclass(frozen=True)
class Configuration:
    r"""Says what is trained, on what, and how; two runs of the same one give the same weights, on the same machine.

    Args:    task: a `Task`; field, integrator: names of `FIELDS` and `INTEGRATORS`; and the settings of each.
    Raises:  UsageError for a name that is not known, and for noise with an integrator for equations without, or none with one
             made for it.
    """

    task: Task
    field: str
    integrator: str
    field_settings: FieldSettings = DEFAULT_FIELD
    integrator_settings: IntegratorSettings = DEFAULT_INTEGRATOR
    training: TrainingSettings = DEFAULT_TRAINING

    def __post_init__(self) -> None:
        FIELDS.check(self.field)
        check_word("integrator", self.integrator, INTEGRATORS)
        check_rates(self.field, self.field_settings)
        self._check_noise()
        self._check_hold()

    def _check_hold(self) -> None:
        hold, played = self.integrator_settings.hold, self.task.hold_as_played
        if played and hold != played and (self.field not in JUMPS or self.field == "cfc"):
            raise UsageError(
                f"with hold={hold} a row acts {'up to' if hold == 'backward' else 'from'} its stamp, and samples between two "
                f"rows would show the other one; take between={'held' if hold == 'forward' else 'backward'}."
            )

    def _check_noise(self) -> None:
        noise, made_for_it = self.field_settings.noise, self.integrator in FOR_NOISE
        if self.field in JUMPS and (noise or made_for_it):
            raise UsageError(f"{self.field} jumps at its samples, and models that jump run without noise; take another field.")
        if noise and not made_for_it:
            raise UsageError(
                f"noise is {noise:g}, and the integrator {self.integrator} is for equations without; take "
                f"{', '.join(FOR_NOISE)}, or leave noise out."
            )
        # A field of the user's own may have noise of its own.
        if made_for_it and not noise and self.field in FIELDS.own:
            raise UsageError(f"the integrator {self.integrator} is for fields with noise; say how much, --set noise=0.1.")

    def to_json(self) -> dict[str, Any]:
        """Return names and settings, as `from_json` reads them. Raises: UsageError for a task that has no name."""
        return self._names() | dict(zip(SETTINGS, map(_values, self._parts()), strict=True))

    @classmethod
    def from_json(cls, values: object) -> Configuration:
        """Read what `to_json` gives. Raises: UsageError for what is no configuration."""
        parts = (*NAMES, *SETTINGS)
        if not isinstance(values, dict) or sorted(values) != sorted(parts):
            raise UsageError(f"a configuration is an object with {', '.join(parts)}.")
        for part in parts:
            if not isinstance(values[part], str if part in NAMES else dict):
                raise UsageError(f"{part} is {'a name' if part in NAMES else 'an object'}, got {values[part]!r}.")
        own, *shared = ({RENAMED.get(key, key): value for key, value in values[part].items()} for part in SETTINGS)
        task = settings_from(task_named(values["task"]), own)
        read: Any = (settings_from(kind, given) for kind, given in zip(SHARED, shared, strict=True))
        return cls(task, values["field"], values["integrator"], *read)

    def untrained_model(self) -> SequenceModel:
        """Build the model before training, a function of the configuration alone."""
        from discretize import SequenceModel  # noqa: PLC0415
        from experiments.seeds import generator  # noqa: PLC0415

        if self.field in MODULES:
            return self._module()
        seed = self.training.seed
        given = self.field, self.task.input_size, self.field_settings, generator(seed, "field")
        field = jump_module(*given, self.task.masked) if self.field in JUMPS else built_field(*given)
        rnn = sequence_module(self.integrator, field, self.integrator_settings, self.task.open_interval)
        return SequenceModel(rnn, self.task.output_size, generator(seed, "read-out"))

    def _module(self) -> SequenceModel:
        if self.integrator != "euler" or self.integrator_settings.substeps != 1:
            raise UsageError(
                f"{self.field} is a module of torch that takes a step a sample, no equation to integrate otherwise; take the "
                "integrator euler, and no substeps."
            )
        if self.task.stamped:
            raise UsageError(f"{self.field} reads no times, and the samples of {self.task_name} have stamps.")
        make = FIELDS.named(self.field)
        module: SequenceModel = make(self.task.input_size, self.task.output_size, self.field_settings, self.training.seed)
        return module

    def without_effect(self) -> dict[str, str]:
        """Return a sentence for each setting that is not the default, and is not read, by its key."""
        given, sentences = self.settings(), dict[str, str]()
        for keys, who, reads in READ_BY:
            for key in keys:
                if key not in sentences and given[key] != DEFAULTS[key] and not reads(self):
                    sentences[key] = f"`{key}` = {words_of(given[key])} changes nothing here: it is for {who}. Leave it out."
        return sentences

    def as_read(self) -> Configuration:
        """Return the same run with the default of each setting that is not read."""
        unread = self.without_effect()
        parts: Any = {
            name: dataclasses.replace(part, **{key: DEFAULTS[key] for key in unread if hasattr(part, key)})
            for name, part in (("field_settings", self.field_settings), ("integrator_settings", self.integrator_settings))
        }
        return dataclasses.replace(self, **parts) if unread else self

    @property
    def task_name(self) -> str:
        """Return the name that the task has in `TASKS`."""
        name = TASKS.name_of(type(self.task))
        if name is None:
            raise UsageError(f"the task {type(self.task).__name__} has no name in TASKS, by which a run could find it again.")
        return name

    def settings(self) -> dict[str, Any]:
        """Return all settings by their keys."""
        return {key: value for part in self._parts() for key, value in _values(part).items()}

    def named(self) -> dict[str, Any]:
        """Return names and settings, all by their keys."""
        return self._names() | self.settings()

    def differences(self, other: Configuration) -> list[str]:
        """Return the keys and names in which two configurations differ, what neither reads aside."""
        ours, theirs = self.as_read().named(), other.as_read().named()
        return [key for key in ours if key in theirs and ours[key] != theirs[key]]

    def extends(self, other: Configuration) -> bool:
        r"""Return whether this run goes on where the other one ends: the same one, with more steps or patience, or no goal.

        Raises:  UsageError for a schedule in which every rate depends on the number of steps.
        """
        ours, theirs = self.training, other.training
        if set(self.differences(other)) - {"steps", "patience", "goal"} or ours == theirs or ours.steps < theirs.steps:
            return False
        if ours.patience is not None and (theirs.patience is None or ours.patience < theirs.patience):
            return False
        if ours.goal not in (None, theirs.goal):
            return False
        if ours.steps != theirs.steps and ours.schedule in OF_THE_END:
            raise UsageError(
                f"a run of {ours.steps} steps with schedule {ours.schedule} has other rates from its start than one of "
                f"{theirs.steps}, so none goes on as the other. Begin it in another --out DIR, or take constant or plateau."
            )
        return True

    def files(self) -> list[str]:
        """Return the files of --plugin that task and field are from."""
        found = dict.fromkeys([TASKS.files.get(self.task_name), FIELDS.files.get(self.field)])
        return [file for file in found if file is not None]

    def command(self, folder: Path, resume: bool = False) -> str:
        """Return the command for this run, with the settings that are not the defaults."""
        words = ["ctrnn", "train", "--task", self.task_name, "--field", self.field, "--integrator", self.integrator]
        words += ["--out", str(folder)]
        for file in self.files():
            words += ["--plugin", file]
        for part in self._parts():
            for setting in dataclasses.fields(part):
                value = getattr(part, setting.name)
                if value != setting.default:
                    words += ["--set", f"{setting.name}={words_of(value)}"]
        return shlex.join(words + ["--resume"] * resume)

    def _names(self) -> dict[str, Any]:
        return dict(zip(NAMES, (self.task_name, self.field, self.integrator), strict=True))

    def _parts(self) -> tuple[Any, ...]:
        return self.task, self.field_settings, self.integrator_settings, self.training


def configuration(
    task: str | Task, field: str | Callable[..., VectorField], integrator: str | Step = "euler", **settings: object
) -> Configuration:
    r"""Build a configuration from names or things, each setting given to the part that has it.

    Args:    task: a name, or a task, whose own settings may be given too; field: a name, or what makes a field, called like
             `ctrnn.gated`; integrator: a name or a step map. A class that has no name gets its own, Parity that of "parity",
             for this process: another one has to use the same file again, `experiments.plugins.use([FILE])`.
             settings: of the task, field, integrator and training, by their keys, such as warp=20, hidden=64, steps=1000.
    Raises:  UsageError for names, keys and values that are not known, with the nearest, and for settings that nothing reads.
    """
    made = from_things(task, field, integrator, settings)
    for sentence in made.without_effect().values():
        raise UsageError(sentence)
    return made


def shared_configuration(
    task: str | Task, field: str | Callable[..., VectorField], integrator: str | Step, **settings: object
) -> Configuration:
    """Do as `configuration` for one run of a grid whose runs share settings: those that this one does not read are left out."""
    return from_things(task, field, integrator, settings).as_read()


def from_things(
    task: str | Task, field: str | Callable[..., VectorField], integrator: str | Step, settings: Mapping[str, object]
) -> Configuration:
    """Do as `configuration`, and keep settings that nothing reads."""
    field = field if isinstance(field, str) else FIELDS.name_for(_named_thing("field", field))
    if not isinstance(integrator, str):
        name = integrator_name(integrator)
        of_step = {key: getattr(integrator, key) for key in step_settings(type(integrator))}
        for key in of_step.keys() & settings.keys():
            raise UsageError(f"{key} is that of the step map, {integrator!r}; give it there alone.")
        integrator, settings = name, of_step | dict(settings)
    if isinstance(task, str):
        return _routed(task, field, integrator, settings)
    name = TASKS.name_for(_named_thing("task", type(task)))
    own = setting_types(task_named(name))
    return _routed(name, field, integrator, {key: getattr(task, key) for key in own} | dict(settings))


def _named_thing(kind: str, thing: object) -> Any:
    if not callable(thing) or not hasattr(thing, "__qualname__"):
        raise UsageError(f"{kind} is a name, or a thing with one, such as a class; got {thing!r}.")
    return thing


def by_key(settings: Mapping[str, T]) -> dict[str, T]:
    """Return settings by their keys, `rate` as `lr`. Raises: UsageError where both words are given."""
    words: dict[str, str] = {}
    for word in settings:
        if (other := words.setdefault(ALSO_CALLED.get(word, word), word)) != word:
            raise UsageError(f"{word} is another word for {other}, and both are given; leave one of them out.")
    return {key: settings[word] for key, word in words.items()}


def configuration_from_words(task: str, field: str, integrator: str, words: Sequence[str] = ()) -> Configuration:
    """Build a configuration from names and `KEY=VALUE` settings. Raises: UsageError, as `configuration`."""
    return _routed(task, field, integrator, assignments(words), as_text=True)


def configuration_of(
    task: Task, field: str | Callable[..., VectorField], integrator: str, settings: Mapping[str, object]
) -> Configuration:
    """Build a configuration of a task as it is, which need not have a name. Raises: UsageError, as `configuration`."""
    name = field if isinstance(field, str) else FIELDS.name_for(_named_thing("field", field))
    shared, others = _shared(settings)
    if others:
        settings_from(
            FieldSettings, others, others=[key for kind in SHARED if kind is not FieldSettings for key in setting_types(kind)]
        )
    made = Configuration(task, name, integrator, *shared)
    for sentence in made.without_effect().values():
        raise UsageError(sentence)
    return made


def _shared(settings: Mapping[str, object], as_text: bool = False) -> tuple[list[Any], dict[str, Any]]:
    """Return the settings that every run has, and those that are of a task."""
    homes = {key: kind for kind in SHARED for key in setting_types(kind)}
    given: dict[type, dict[str, Any]] = {kind: {} for kind in (*SHARED, object)}
    for key, value in by_key(settings).items():
        given[homes.get(key, object)][key] = value
    return [settings_from(each, given[each], as_text=as_text) for each in SHARED], given[object]


def _routed(task: str, field: str, integrator: str, settings: Mapping[str, object], as_text: bool = False) -> Configuration:
    TASKS.check(task)
    FIELDS.check(field)
    check_word("integrator", integrator, INTEGRATORS)
    homes = {key for kind in SHARED for key in setting_types(kind)}
    shared, own = _shared(settings, as_text)
    # Only now, as a task's file imports torch: a key that nothing above has is the task's, or wrong.
    kind = task_named(task)
    if twice := (homes | ALSO_CALLED.keys()) & setting_types(kind).keys():
        raise UsageError(f"the task {task} has a setting {min(twice)!r}, which every run has; give it another name.")
    return Configuration(settings_from(kind, own, as_text=as_text, others=sorted(homes)), field, integrator, *shared)


def _values(settings: Any) -> Mapping[str, Any]:
    """Return a dataclass's own fields by name; JSON writes tuples as lists."""
    return {part.name: getattr(settings, part.name) for part in dataclasses.fields(settings) if part.init}
