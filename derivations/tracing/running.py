r"""Run a module in many settings and compare with its record: code that looks at its surroundings is refused.

torch records one way through Python's code. Which way it goes may depend on what is in no record: the type of the numbers, the
size of the batch, whether gradients are on, how often it was called, and that it is recorded. So the module is run

    batches of 1 and 3  x  types of numbers  x  with gradients, on results of other code, without, in inference mode, autocast

with other batches, a sample without a batch, another default type of numbers, number of threads, seed and environment, without
any mode of torch, and in the other of training and evaluation mode, and its numbers are compared with those of the record at
the same inputs and weights. The weights change between the calls of one copy, in place and otherwise, and so does what a call
has left on the module: code that remembers either is found out. Code that asks for a number that it was given, or that
depends on one, is refused whatever it does with it: it would go another way at others. So is code that asks for what kernels
cannot watch, the time, chance, modes of torch: `discretize/kernels/record/watched.py`. Numbers only refute: code that asks for
the device, or for the time by an installed library, is not found out, nor is code that sees that it is run and not recorded,
and asks for a size that it is not run at, or whose answer hangs on the order of a set of words, which another process has
otherwise.
"""

from __future__ import annotations

import copy
import os
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from itertools import chain, takewhile
from types import FunctionType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from derivations.tracing.looks import Looks, memory_of
from discretize.kernels.record.attributes import beside_tensors
from discretize.kernels.record.copies import results_kept
from discretize.kernels.record.global_reads import GlobalReads
from discretize.kernels.record.recording import ModuleRecord
from discretize.kernels.record.watched import Unwatched

__all__ = ["SURROUNDINGS", "Conditions", "Setting", "as_recorded", "check_settings", "replayed", "same_numbers"]

# How far a run may be from its record, by the type of the numbers: rounding in another order of the same operations.
TOLERANCES = {torch.float64: 1e-8, torch.float32: 1e-3, torch.bfloat16: 0.1, torch.float16: 0.1}
# And what is left of sums of numbers of size 1 and above, whose digits cancel.
ROUNDINGS = {1e-8: 1e-14, 1e-3: 1e-3, 0.1: 0.1}
BATCHES = (2, 4, 5, 6, 7, 8, 16, 32, 33, 64)  # beside 1 and 3, in one of the surroundings
LIBRARIES = ("torch.", "builtins")  # whose classes stay as they are
LEFT = (3e4, -3e4)  # in place of numbers that a call has left on the module, by turns; in half precision too
NO_MODE = "without any mode of torch"


@contextmanager
def _another(get: Callable[[], object], put: Callable[[Any], None], value: Any) -> Iterator[None]:
    before = get()
    put(value(before))
    try:
        yield
    finally:
        put(before)


def _seed(seed: int) -> None:
    torch.manual_seed(seed)


SURROUNDINGS: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    "with gradients": nullcontext,
    "with gradients, on a result of other code": nullcontext,
    "without gradients": torch.no_grad,
    "in inference mode": torch.inference_mode,
    "under autocast": lambda: torch.autocast("cpu", torch.bfloat16),
}
DEFAULTS: Mapping[str, Callable[[], AbstractContextManager[Any]]] = {
    "with another default type of numbers": lambda: _another(
        torch.get_default_dtype, torch.set_default_dtype, lambda t: torch.float32 if t == torch.float64 else torch.float64
    ),
    "with another number of threads": lambda: _another(torch.get_num_threads, torch.set_num_threads, lambda n: n % 2 + 1),
    "with another seed": lambda: _another(torch.initial_seed, _seed, lambda seed: seed + 1),
    "with other environment variables": lambda: _another(
        lambda: vars(os.environ)["_data"], lambda data: vars(os.environ).update(_data=data), _AnyVariable
    ),
    NO_MODE: nullcontext,
}


class _AnyVariable(dict[Any, Any]):
    """The environment, in which every further variable is "1"."""

    def __missing__(self, key: object) -> Any:
        return os.environ.encodevalue("1")


class Conditions(NamedTuple):
    """What a proof holds for: `shapes` of calls, in words, and what it must assume beside them."""

    shapes: str
    assumed: tuple[str, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        return (*filter(None, [self.shapes]), *self.assumed)


@dataclass(frozen=True)
class Setting:
    """A copy of the module, arguments for it by placeholder, and what is said of them; `own`: as it came, not converted."""

    module: nn.Module
    arguments: Mapping[str, Tensor]
    around: str
    words: str
    own: bool

    def entered(self) -> AbstractContextManager[Any]:
        """Return the context in which it is run."""
        return {**SURROUNDINGS, **DEFAULTS}[self.around]()


def as_recorded(module: nn.Module, program: ModuleRecord) -> Conditions:
    r"""Compare runs of a module with its record.

    Returns: for which calls it is as recorded: those of one mode or of batches only, if it does otherwise in others.
    Raises:  ValueError where it does otherwise than recorded, or keeps something from one call to the next.
    """

    def ran(setting: Setting) -> list[Tensor]:
        if setting.around == "without gradients":
            setting.module.requires_grad_(False)
        return program.state_of(setting.module(*program.packed(setting.arguments)))

    def recorded(setting: Setting, dtype: torch.dtype) -> list[Tensor]:
        weights = {name: p.detach().clone() for name, p in setting.module.named_parameters()}
        with torch.no_grad():
            return replayed(program, {**{p: weights[n] for p, n in program.parameters.items()}, **setting.arguments}, dtype)

    return check_settings(module, program, ran, recorded, list(SURROUNDINGS))


def check_settings(
    module: nn.Module,
    program: ModuleRecord,
    ran: Callable[[Setting], Sequence[Tensor]],
    recorded: Callable[[Setting, torch.dtype], Sequence[Tensor]],
    surroundings: Sequence[str],
) -> Conditions:
    """Compare what `ran` and `recorded` compute in each setting, as `as_recorded` says."""
    if any(t.is_meta for t in (*module.parameters(), *module.buffers())):
        return Conditions("", ("not run, for the module's weights have no values",))
    outside = _Outside()
    with torch.random.fork_rng(devices=[]):
        settings = _settings(module, program, module.training, surroundings)
        for setting in chain([plain := next(settings)], settings):
            with outside.compared(setting.module):
                differs = _differs(setting, ran, recorded)
            plain = setting if setting.own else plain
            if differs:
                words = f"{setting.words}{_left_over(module, setting.module)}"
                raise ValueError(
                    f"the code computes otherwise than torch has recorded it {words}; it must be a function of its arguments "
                    f"and parameters alone, that asks for nothing else and is the same in every call."
                )
        with outside.compared(plain.module):
            shapes, assumed = _without_a_batch(plain, ran, recorded)
        if _otherwise_in_the_other_mode(module, program, ran, recorded, surroundings):
            mode = "training" if module.training else "evaluation"
            assumed = (*assumed, f"in {mode} mode only, for it does otherwise in the other")
    return Conditions(shapes, assumed)


def _left_over(module: nn.Module, called: nn.Module) -> str:
    """Name the tensors that calls have left on a copy of the module, as a reason for another answer."""
    had = {place for place, value in _places(module) if isinstance(value, Tensor)}
    new = sorted({place for place, value in _places(called) if isinstance(value, Tensor)} - had)
    return f", where it keeps `{', '.join(new)}` from an earlier call" if new else ""


def _otherwise_in_the_other_mode(
    module: nn.Module, program: ModuleRecord, ran: Any, recorded: Any, surroundings: Sequence[str]
) -> bool:
    """Return whether the code does otherwise, or cannot be run, in the other of training and evaluation mode."""
    other = _settings(module, program, not module.training, surroundings[:1])
    try:
        return any(_differs(setting, ran, recorded) for setting in takewhile(lambda setting: setting.own, other))
    except ValueError:
        return True


def _without_a_batch(setting: Setting, ran: Any, recorded: Any) -> Conditions:
    """Run single samples (units) where the code takes them, and compare them with batches of one."""
    for first in range(len(next(iter(setting.arguments.values())))):
        alone = {name: t.detach()[first : first + 1] for name, t in setting.arguments.items()}
        sample = {name: t[0].clone().requires_grad_() for name, t in alone.items()}
        try:
            with nullcontext() if setting.around == NO_MODE else setting.entered():
                theirs = _rows(ran(replace(setting, arguments=sample)))
        except Exception:  # of the user's code, whatever it is
            return Conditions("for batches (batch, units); it takes no single sample (units)")
        dtype = next(iter(alone.values())).dtype
        if not _close(theirs, _rows(recorded(replace(setting, arguments=alone), dtype)), TOLERANCES[dtype]):
            return Conditions("", ("for batches (batch, units) only: it does otherwise with a single sample (units)",))
    return Conditions("for batches (batch, units); a single sample (units) gives the same at the numbers tried")


class _Outside:
    """What code reads that is not the module's own, which must be the same after each call: closures, defaults of arguments,
    classes, globals."""

    def __init__(self) -> None:
        self.reads = GlobalReads()
        self.last: tuple[nn.Module, int, list[Any]] | None = None

    @contextmanager
    def compared(self, module: nn.Module) -> Iterator[None]:
        """Raise ValueError if the code within has changed what it reads."""
        codes = len(self.reads.reads)
        known = self.last is not None and self.last[0] is module and self.last[1] == codes
        before = self.last[2] if self.last is not None and known else self._now(module)
        try:
            with self.reads.noted(os.path.dirname(os.path.dirname(__file__))):
                yield
        except Unwatched as error:
            raise ValueError(f"{error}; it must be a function of its arguments and parameters alone.") from None
        self.last = module, len(self.reads.reads), self._now(module)
        if self.last[1] == codes and self.last[2] != before:
            raise ValueError(
                "the code changes what it reads outside of the module, in a closure, a default, a class or a global, when it is "
                "called; it must keep nothing."
            )

    def _now(self, module: nn.Module) -> list[Any]:
        functions = [value for part in module.modules() for value in vars(part).values() if isinstance(value, FunctionType)]
        kinds = {kind for part in module.modules() for kind in type(part).__mro__ if not kind.__module__.startswith(LIBRARIES)}
        of_kinds = [value for kind in sorted(kinds, key=id) for value in vars(kind).values()]
        return self.reads.values_now(*of_kinds, *functions)


def _settings(module: nn.Module, program: ModuleRecord, training: bool, surroundings: Sequence[str]) -> Iterator[Setting]:
    own, dice = program.dtype, torch.Generator().manual_seed(0)
    for dtype in dict.fromkeys((own, *TOLERANCES)):
        called = copy.deepcopy(module, results_kept(module))
        called = called if training == module.training else called.train(training)
        called = called if dtype == own else called.to(dtype)
        with torch.no_grad():  # weights that are all 0 would hide much
            for p in called.parameters():
                p.add_(0.1 * torch.rand(p.shape, generator=dice).to(p)) if p.is_floating_point() else None
        read = _tensors_read(module, program.constants.values())
        seen, left = _kept(called, read), dict[str, Any]()
        weights = [(p, p.detach().clone()) for p in called.parameters() if p.is_floating_point()]
        rounds = [(size, kind) for size in (1, 3) for kind in surroundings]
        if dtype == own:
            rounds += [*((size, surroundings[0]) for size in BATCHES), *((3, kind) for kind in DEFAULTS)]
        for count, (size, kind) in enumerate(rounds):
            arguments = _arguments(program, size, (1.0, 0.0, 30.0)[count % 3], dtype, kind, dice)
            mode = f"in {'training' if training else 'evaluation'} mode{', after its weights have changed' if count else ''}"
            yield Setting(called, arguments, kind, f"for a batch of {size} in {str(dtype)[6:]}, {kind}, {mode}", dtype == own)
            now = _kept(called, read)
            if changed := [name for name in seen.keys() & now.keys() if seen[name] != now[name]]:
                raise ValueError(f"the module changes its attribute `{min(changed)}` when it is called; it must keep nothing.")
            left = _overwritten(called, left, LEFT[count % 2])
            _change_weights(called, weights, count, dice)
            seen = _kept(called, read)
            for p in called.parameters():
                p.grad = torch.zeros_like(p) if p.requires_grad else None


def _change_weights(module: nn.Module, weights: Iterable[tuple[nn.Parameter, Tensor]], count: int, dice: torch.Generator) -> None:
    """Give the module other weights near those it came with: in place, by its `load_state_dict` or as new memory."""
    new = {id(p): near + 0.1 * torch.rand(p.shape, generator=dice).to(p) for p, near in weights}
    with torch.no_grad():
        if count % 3 == 0:
            named = module.named_parameters(remove_duplicate=False)
            module.load_state_dict({name: new[id(p)] for name, p in named if id(p) in new}, strict=False)
        for p, _ in weights:
            if count % 3 == 1:
                p.copy_(new[id(p)])
            elif count % 3 == 2:
                p.data = new[id(p)]


def _overwritten(module: nn.Module, before: Mapping[str, Any], number: float) -> dict[str, Any]:
    """Overwrite tensors that each call leaves anew, as a cell's last gates for a plot: code that reads them does otherwise."""
    own = {memory_of(t) for t in (*module.parameters(), *module.buffers())}
    tensors = {place: t for place, t in _places(module) if isinstance(t, Tensor) and memory_of(t) not in own}
    with torch.inference_mode():
        for place, t in tensors.items():
            if place in before and before[place] != _shown(t) and t.is_floating_point():
                t.detach().fill_(number)
    return {place: _shown(t) for place, t in tensors.items()}


def _arguments(
    program: ModuleRecord, size: int, scale: float, dtype: torch.dtype, kind: str, dice: torch.Generator
) -> dict[str, Tensor]:
    arguments = {}
    for name in chain.from_iterable(program.inputs.values()):
        device = program.placeholders[name].device
        drawn = (scale * (2 * torch.rand(program.width(name), size, generator=dice) - 1)).to(device, dtype)
        if kind == "with gradients, on a result of other code":  # not contiguous, and changed in place before
            arguments[name] = drawn.requires_grad_().clone().mul_(1).T
        else:
            arguments[name] = drawn.T.contiguous().requires_grad_(kind == "with gradients" or kind in DEFAULTS)
    return arguments


def replayed(program: ModuleRecord, arguments: Mapping[str, Tensor], dtype: torch.dtype) -> list[Tensor]:
    """Compute the record with all of its numbers of one dtype."""
    values = {**program.constants, **arguments}
    run = torch.fx.Interpreter(nn.Module(), garbage_collect_values=False, graph=program.graph)
    run.run(*(v.to(dtype) if v.is_floating_point() else v for v in map(values.__getitem__, program.placeholders)))
    return [run.env[leaf] for leaf in program.returned]


def same_numbers(theirs: Sequence[Tensor], program: ModuleRecord, arguments: Mapping[str, Tensor]) -> bool:
    """Return whether a run in float64 gave what the record computes from the same numbers."""
    with torch.no_grad():
        return _close(_rows(theirs), _rows(replayed(program, arguments, torch.float64)), TOLERANCES[torch.float64])


def _differs(setting: Setting, ran: Any, recorded: Any) -> bool:
    """Return whether a run differs from its record, at numbers at which the record itself is not all rounding."""
    first = next(iter(setting.arguments.values()))
    dtype = first.dtype
    tolerance = TOLERANCES[torch.bfloat16 if setting.around == "under autocast" else dtype]
    looks = Looks([*setting.arguments.values(), *setting.module.parameters()])
    try:
        with (
            setting.entered(),
            looks if len(first) > 1 and setting.around != NO_MODE else nullcontext(),
        ):  # which keeps torch from compiling: one sample is run as it comes
            theirs = _rows(ran(setting))
    except Exception as error:  # of the user's code, whatever it is
        if setting.own and setting.around not in ("in inference mode", "under autocast"):
            raise ValueError(f"the code cannot be run {setting.words}: {type(error).__name__}: {error}") from error
        return False
    finally:
        looks.check(setting.words)
    with (
        setting.entered(),
        suppress(RuntimeError, NotImplementedError, TypeError),
    ):  # what torch cannot compute in numbers of this type
        rounded = _rows(recorded(setting, dtype))
        if not _close(theirs, rounded, tolerance):
            return _close(rounded, _rows(recorded(setting, torch.float64)), tolerance)
    return False


# What a module could keep from one call to the next: numbers and words wherever they are, its buffers, and the tensors that it
# reads. A tensor that is written and never read, as a cell's last gates for a plot, is no memory.


def _kept(module: nn.Module, read: Collection[str]) -> dict[str, Any]:
    """Snapshot the attributes of a module and its parts; of tensors, those that are read."""
    own = (
        (f"{part}.{name}".lstrip("."), value) for part, keeper in module.named_modules() for name, value in vars(keeper).items()
    )
    numbers = {place: _beside(value) for place, value in own if value is not None and not place.endswith("_modules")}
    return {
        **numbers,
        **{place: _shown(value) for place, value in _places(module) if place in read and isinstance(value, Tensor)},
    }


def _beside(value: object) -> object:
    """Snapshot all but tensors; of a dict or set that is empty, as the hooks of most modules are, that it is."""
    kind = type(value)
    return (
        kind if kind in (dict, OrderedDict, set) and not value and not getattr(value, "__dict__", None) else beside_tensors(value)
    )


def _tensors_read(module: nn.Module, constants: Iterable[Tensor]) -> set[str]:
    """Find the attributes that are weights, buffers, or equal to a tensor that was recorded as a constant."""
    own = {(t.dtype, t.shape, _shown(t)) for t in constants}
    weights = {memory_of(t) for t in (*module.parameters(), *module.buffers())}
    tensors = ((place, value) for place, value in _places(module) if isinstance(value, Tensor))
    return {place for place, t in tensors if memory_of(t) in weights or (t.dtype, t.shape, _shown(t)) in own}


def _places(module: nn.Module) -> Iterator[tuple[str, Any]]:
    """Yield attributes, and the entries of those that are lists or dicts."""
    for part, keeper in module.named_modules():
        for name, value in vars(keeper).items():
            place = f"{part}.{name}".lstrip(".")
            yield place, value
            entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list | tuple) else ()
            own = name in ("_parameters", "_buffers")
            yield from ((f"{part}.{key}".lstrip(".") if own else f"{place}[{key!r}]", entry) for key, entry in entries)


def _shown(t: Tensor) -> Any:
    return t.detach().cpu().reshape(-1).view(torch.uint8).numpy().tobytes() if t.layout == torch.strided else None


def _rows(parts: Sequence[Tensor]) -> list[Tensor]:
    """Return results as rows of units, whether there was a batch or not."""
    return [part.detach().double().reshape(-1, part.shape[-1] if part.dim() else 1) for part in parts]


def _close(ours: Sequence[Tensor], theirs: Sequence[Tensor], tolerance: float) -> bool:
    """Whether results agree, each number relative to the largest of its unit; but for what roundings of all leave of a sum."""
    return len(ours) == len(theirs) and all(_alike(a, b, tolerance) for a, b in zip(ours, theirs, strict=True))


def _alike(a: Tensor, b: Tensor, tolerance: float) -> bool:
    if a.shape != b.shape or not a.numel():
        return a.shape == b.shape
    sizes = torch.where(b.isfinite(), b.abs(), 0.0)
    rounding = ROUNDINGS[tolerance] * sizes.amax().clamp(min=1.0)
    same = (a == b) | (a.isnan() & b.isnan()) | ((a - b).abs() <= tolerance * sizes.amax(0) + rounding)
    return bool(same.all())
