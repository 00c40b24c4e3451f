r"""Runs `ctrnn train`: one training, or one after another where settings have several values, `--set seed=0,1,2 hidden=32,64`.

DIR/seed-0-hidden-32/    DIR/seed-0-hidden-64/    ...        every value with every other, in folders of their own
"""

from __future__ import annotations

import io
import itertools
import math
import re
import sys
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, TextIO, get_args, get_origin

from tqdm import tqdm

from ctrnn.extras import MissingPackageError
from derivations.processes.interruption import Interrupted
from experiments.files import read_json
from experiments.runs.configuration import DEFAULTS, SHARED, Configuration, by_key, configuration_from_words
from experiments.settings import CONSTANTS, assignments, described, setting_types
from experiments.tasks.registry import task_named
from experiments.usage import UsageError

__all__ = ["begin", "refuse_unread", "run", "settings_help", "swept"]

if TYPE_CHECKING:
    from derivations.processes.pool import End
    from experiments.runs.loop import Progress

MOST = 1000
BETWEEN_LINES = 30.0  # seconds, where no terminal shows a bar


def run(
    task: str,
    field: str,
    integrator: str,
    words: Sequence[str],
    folder: Path,
    *,
    resume: bool = False,
    look: bool = False,
    page: bool = False,
    workers: int | None = None,
    on: str = "here",
    plugins: Sequence[str] = (),
    log: Sequence[str] = (),
) -> bool:
    r"""Train all of them, or say what the first will read; return whether all were finished.

    Args:    workers: how many train one run each at a time; None for one run after another, in this process, and elsewhere for
             as many as there is room for; on: "here", "ray", "ray:ADDRESS" or "slurm"; log: names of trackers.
    Raises:  UsageError before the first, for any of them; `MissingPackageError` for a tracker that is not installed.
    """
    log = tuple(name for word in log for name in word.split(","))
    if log and not look:
        from experiments.runs.logs import checked_logs  # noqa: PLC0415 (torch)

        checked_logs(log)
    asked = dict(swept(task, words))
    runs = {name: configuration_from_words(task, field, integrator, each) for name, each in asked.items()}
    first = next(iter(runs.values()))
    refuse_unread(list(runs.values()))
    _refuse_twins(runs)
    for k, each in enumerate(runs.values()):
        if k == 0 or each.task != first.task:
            each.task.fingerprint()  # raises for wrong files before the first run begins
    from experiments.runs.processes import is_first  # noqa: PLC0415 (torch)

    looked = first.task.look()
    if look:
        if is_first():
            print(looked)
        return True
    if looked and is_first():
        print(looked, file=sys.stderr)
    if len(runs) > 1 and is_first():
        steps = " or ".join(map(str, sorted({configuration.training.steps for configuration in runs.values()})))
        how = f"on {on}" if on != "here" else "one after another" if workers in (None, 1) else f"{workers} at a time"
        print(f"{len(runs)} runs of {steps} steps, {how}, in {folder}.", file=sys.stderr)
    finished: list[bool] = []
    try:
        each_run: Iterator[bool] = (_run_one(each, folder / name, resume, page, log, name) for name, each in runs.items())
        if on != "here" or (workers or 1) > 1:
            given = (task, field, integrator, folder.resolve(), page, tuple(plugins), log, on != "here")
            each_run = _by_workers(asked, folder, resume, workers, on, given)
        for one in each_run:
            finished.append(one)
    except Interrupted:
        if len(runs) > 1:
            count = f"{sum(finished)} of {len(runs)} runs are finished"
            print(f"{count}; with --resume the same command goes on.", file=sys.stderr)
        raise
    if len(runs) > 1 and is_first():
        from experiments.runs.sweep import compared  # noqa: PLC0415 (SciPy)

        settings = [configuration.settings() for configuration in runs.values()]
        keys = [key for key in settings[0] if any(each[key] != settings[0][key] for each in settings)]
        print(f"\n{compared(folder, list(runs.items()), keys)}\n{folder / 'runs.csv'}", flush=True)
    return all(finished)


def refuse_unread(runs: Sequence[Configuration]) -> None:
    """Refuse settings that are not the default, and that no run reads. Raises: UsageError."""
    unread = [configuration.without_effect() for configuration in runs]
    for key in {key: None for each in unread for key in each}:
        if all(key in each or run.settings()[key] == DEFAULTS[key] for each, run in zip(unread, runs, strict=True)):
            raise UsageError(next(each[key] for each in unread if key in each))


def _refuse_twins(runs: Mapping[str, Configuration]) -> None:
    """Refuse two runs of the same values, as of seed=1,01, or of others that neither reads. Raises: UsageError."""
    seen: dict[tuple[object, ...], str] = {}
    for name, configuration in runs.items():
        values = tuple(configuration.as_read().settings().values())
        if values in seen:
            why = "give each value once"
            for sentence in configuration.without_effect().values():
                why = f"in {name} {sentence[0].lower()}{sentence[1:].partition(':')[0]}; give it to a command of its own"
            raise UsageError(f"--set asks for one run twice, {seen[values]} and {name}; {why}.")
        seen[values] = name


def _by_workers(
    asked: Mapping[str, Sequence[str]], folder: Path, resume: bool, workers: int | None, on: str, given: tuple[Hashable, ...]
) -> Iterator[bool]:
    """Yield of each run whether it was finished. Raises: UsageError for folders that hold runs, without `resume`."""
    from derivations.processes.pool import Work  # noqa: PLC0415
    from experiments.runs.folder import refuse_run  # noqa: PLC0415 (torch)
    from experiments.runs.places import place  # noqa: PLC0415

    for name in asked:
        if not resume:
            refuse_run(folder / name)  # workers resume, and may only resume what a worker began
    where = place(on, workers, folder)
    pool = where.pool(min(where.size, len(asked)), Work("experiments.runs.command:begin", given))
    with closing(pool.carry_out(list(asked.items()))) as ends:
        for end in ends:
            if end.error is not None or end.lost:
                print(f"ctrnn train: {end.key[0]}: {_why(end)}", file=sys.stderr)
                yield False
                continue
            finished, *printed = end.returned
            for stream, words in zip((sys.stdout, sys.stderr), printed, strict=True):
                stream.write(words)
                stream.flush()
            yield finished


def _why(end: End) -> str:
    """Write why there is no result; of what nobody foresaw, the worker's traceback."""
    foreseen = isinstance(end.error, UsageError | MissingPackageError | OSError)
    notes = [] if foreseen else getattr(end.error, "__notes__", [])
    return end.lost or (notes[0] if notes else str(end.error))


class _Kept(io.StringIO):
    """Keeps what is written, and passes it on, as to the log of a job."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self.stream = stream

    def write(self, words: str) -> int:
        self.stream.write(words)
        return super().write(words)


def begin(
    task: str, field: str, integrator: str, folder: Path, page: bool, plugins: Sequence[str], log: Sequence[str], kept: bool
) -> Callable[[tuple[str, Sequence[str]]], tuple[bool, str, str]]:
    """Return what a worker process calls with the name and the words of each run.

    It returns whether the run was finished, and, if `kept`, what was printed, on stdout and stderr: elsewhere nobody sees it.
    """
    from experiments.plugins import use  # noqa: PLC0415

    use(plugins)

    def train(key: tuple[str, Sequence[str]]) -> tuple[bool, str, str]:
        name, words = key
        run = configuration_from_words(task, field, integrator, words)
        out, err = _Kept(sys.stdout), _Kept(sys.stderr)
        with redirect_stdout(out) if kept else nullcontext(), redirect_stderr(err) if kept else nullcontext():
            finished = _run_one(run, folder / name, True, page, log, name, shown=False)
        return finished, out.getvalue(), err.getvalue()

    return train


def settings_help(tasks: Iterable[str]) -> str:
    """Return the settings of every run, and of these tasks, with their defaults and in words. Raises: UsageError."""
    kinds: dict[str, type] = {f"the task {name}": task_named(name) for name in tasks}
    kinds |= dict(zip(("every field", "every integrator", "every training"), SHARED, strict=True))
    return "\n\n".join("\n".join([f"Settings of {what}, by --set:", *described(kind)]) for what, kind in kinds.items())


def swept(task: str, words: Sequence[str]) -> list[tuple[str, list[str]]]:
    r"""Return the name of each run's folder and its `KEY=VALUE` words; one without a name where no setting has several values.

    A setting that is a sequence itself has its commas for that.

    Raises:  UsageError for what is no assignment, a value that stands twice, and more runs than anybody means.
    """
    given = assignments(words)  # by the words that were typed, which name folders
    keys = dict(zip(given, by_key(given), strict=True))
    several = {key: text.split(",") for key, text in given.items() if "," in text and not _is_sequence(task, keys[key])}
    if not several:
        return [("", [f"{key}={text}" for key, text in given.items()])]
    for key, values in several.items():
        if len({_constant(value) for value in values}) < len(values) or not all(value.strip() for value in values):
            raise UsageError(f"--set {key}={given[key]}: each value is given once, and none is empty.")
    if (count := math.prod(map(len, several.values()))) > MOST:  # before any of them is written out
        raise UsageError(f"--set asks for {count:,} runs, at most {MOST:,} are made at once.")
    points = [dict(zip(several, values, strict=True)) for values in itertools.product(*several.values())]
    names = ["-".join(f"{key}-{_word(value)}" for key, value in point.items()) for point in points]
    if len(set(names)) < len(names):
        raise UsageError("--set has values that would give two runs one folder; write them so that their letters differ.")
    return [
        (name, [f"{key}={value}" for key, value in (given | point).items()]) for name, point in zip(names, points, strict=True)
    ]


def _is_sequence(task: str, key: str) -> bool:
    """Return whether a value with commas is one value; of a key that is not known it is, and refused as one."""
    kinds = SHARED if any(key in setting_types(kind) for kind in SHARED) else (task_named(task),)
    return _holds_tuple(next((setting_types(kind)[key] for kind in kinds if key in setting_types(kind)), tuple))


def _holds_tuple(hint: object) -> bool:
    return hint is tuple or get_origin(hint) is tuple or any(_holds_tuple(each) for each in get_args(hint) if each is not ...)


def _constant(value: str) -> str:
    """Return a value in the one spelling that none, true and false have; others as they are."""
    return value.strip().lower() if value.strip().lower() in CONSTANTS else value.strip()


def _word(value: str) -> str:
    return re.sub(r"[^a-z0-9.-]+", "_", value.strip().lower())


def _run_one(
    configuration: Configuration, folder: Path, resume: bool, page: bool, log: Sequence[str], name: str = "", shown: bool = True
) -> bool:
    """Train one, print its result and where its page is, or what went wrong on stderr; return whether it was finished."""
    from experiments.runs import training  # noqa: PLC0415 (torch)
    from experiments.runs.folder import CONFIG  # noqa: PLC0415
    from experiments.runs.processes import is_first  # noqa: PLC0415
    from experiments.runs.stopping import StoppedError  # noqa: PLC0415

    try:
        with _shown(configuration.training.steps, shown and is_first()) as progress:
            outcome = training.train(configuration, folder, resume=resume, progress=progress, log=log)
    except StoppedError as error:
        print(f"ctrnn train: {name and f'{name}: '}{error}", file=sys.stderr)
        if error.status == "diverged" and is_first():
            from experiments.runs.page import write_page  # noqa: PLC0415 (matplotlib)

            print(write_page(folder))
        return False
    except Interrupted:
        logs = "".join(f" --log {name}" for name in log)
        print(f"Go on with: {configuration.command(folder, resume=True)}{logs}", file=sys.stderr)
        raise
    if not is_first():
        return True
    if outcome.already:
        print(f"{folder} is finished; nothing was left to do.")
    measures = ", ".join(f"{name} {value:.4g}" for name, value in outcome.measures.items())
    compared = configuration.task.baselines() | ({"nn.GRU": outcome.beside["loss"]} if outcome.beside else {})
    guesses = ", ".join(f"{name} {loss:.4g}" for name, loss in compared.items())
    beside = f" ({guesses})" if guesses else ""
    what = f"{configuration.task_name}, {configuration.field} under {configuration.integrator}"
    config = read_json(folder / CONFIG) or {}
    by = config.get("machine", {}).get("device") or f"{config.get('threads')} thread(s)"
    took = f"{outcome.steps} steps in {outcome.seconds:.1f} s by {by}"
    # One call, line end and all: several workers write here.
    sys.stdout.write(f"{name and f'{name}: '}{what}, {took}: test {measures}{beside}\n")
    sys.stdout.flush()
    if outcome.far_worse:
        print(f"ctrnn train: {outcome.far_worse}", file=sys.stderr)
    if page:
        from experiments.runs.page import write_page  # noqa: PLC0415 (matplotlib)

        print(write_page(folder))
    return True


@contextmanager
def _shown(steps: int, first: bool) -> Iterator[Progress]:
    """Show on stderr where a run is: a bar on a terminal, elsewhere a line now and then."""
    begun = told = time.monotonic()
    before = None
    with tqdm(total=steps, unit="step", leave=False, disable=None if first else True) as bar:

        def progress(step: int, loss: float, rate: float) -> None:
            nonlocal before, told
            if before is None:
                before = bar.initial = bar.n = step - 1  # steps before a resumption took none of this time
            about = f"{'nothing counted' if math.isnan(loss) else f'loss {loss:.4g}'}, lr {rate:.2g}"
            bar.set_postfix_str(about, refresh=False)
            bar.update()
            now = time.monotonic()
            if first and bar.disable and now - told >= BETWEEN_LINES:
                told, left = now, (now - begun) * (steps - step) / (step - before)
                print(f"step {step} of {steps}: {about}; about {left:.0f} s left", file=sys.stderr, flush=True)

        yield progress
