r"""The command line: `ctrnn ...`, and from the root of the repository `python -m experiments ...`.

    0 done    1 a check failed    2 wrong usage    130, 143 interrupted

One function a command; what is heavy is imported inside, so that help and wrong usage answer at once.
"""

from __future__ import annotations

import importlib.util
import math
import os
import shlex
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.constructors import PrimitiveConstructorSpec

from experiments.interruption import Interrupted, interruptible
from experiments.studies import command as studies
from experiments.tasks.registry import TASKS
from experiments.usage import UsageError, did_you_mean

__all__ = ["COMMANDS", "main"]

if TYPE_CHECKING:
    from experiments.data.recording import Recording

DONE, FAILED, WRONG_USAGE, BROKEN_PIPE = 0, 1, 2, 141
ABOUT = "Recurrent networks as ordinary differential equations."


def _hertz(words: list[str]) -> float:
    try:
        rate = float(words[0])
    except ValueError:
        raise ValueError(f"samples per second are a number, got {words[0]!r}") from None
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"samples per second are a number above 0, got {words[0]!r}")
    return rate


def _count(words: list[str]) -> int:
    try:
        count = int(words[0])
    except ValueError:
        raise ValueError(f"a whole number is needed, got {words[0]!r}") from None
    if count < 1:
        raise ValueError(f"at least 1 is needed, got {words[0]!r}")
    return count


def _number(metavar: str, kind: type, read: Callable[[list[str]], Any]) -> PrimitiveConstructorSpec:
    """An option that is one number, or not given."""
    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=read,
        is_instance=lambda value: value is None or isinstance(value, kind),
        str_from_instance=lambda value: [str(value)],
    )


_HZ = _number("HZ", float, _hertz)
_COUNT = _number("N", int, _count)


def demo(
    *,
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("out/demo"),
    input: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: an EEG)")] = None,
    rate: Annotated[float | None, _HZ, tyro.conf.arg(help_behavior_hint="(required with --input)")] = None,
) -> int:
    """Run the main job on a real recording; writes one page, DIR/index.html.

    Args:
        out: Folder for index.html and numbers.json.
        input: Your own recording, .npy or .csv: one column a channel, one row a sample.
        rate: Samples per second of your recording.
    """
    recording, words = _recording("demo", out, input, rate)
    from experiments.demo.run import run  # noqa: PLC0415

    return DONE if run(out, recording, command=shlex.join(words)) else FAILED


def derive(
    *,
    source: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: all)")] = None,
    format: Annotated[
        str | None, tyro.conf.arg(metavar="FORM", help_behavior_hint="(default: by FILE's ending, or table)")
    ] = None,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: the terminal)")] = None,
) -> int:
    """Decide every claim of the papers; exit code 1 if a decision is not as recorded.

    Args:
        source: One text only, as the stem of its file, or "this project".
        format: table, json, latex or html.
        out: File to write.
    """
    endings = {".txt": "table", ".json": "json", ".tex": "latex", ".html": "html"}
    form = format or endings.get(out.suffix if out else "", "table")
    if form not in endings.values():
        hint = did_you_mean(form, endings.values()) or f"; there is {', '.join(endings.values())}."
        raise UsageError(f"there is no format {form!r}{hint}")
    from derivations.contents import SOURCES  # noqa: PLC0415

    if source is not None and source not in SOURCES:
        hint = did_you_mean(source, SOURCES) or f"; there is {', '.join(SOURCES)}."
        raise UsageError(f"there is no source {source!r} in the ledger{hint}")
    from experiments.derive.run import run  # noqa: PLC0415

    return DONE if run(source, form, out) else FAILED


def breakdown(
    *,
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")] = Path("out/breakdown"),
    input: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: an EEG)")] = None,
    rate: Annotated[float | None, _HZ, tyro.conf.arg(help_behavior_hint="(required with --input)")] = None,
) -> int:
    """Draw where the Taylor step stops being the field, and what to take instead; writes DIR/index.html.

    Args:
        out: Folder for index.html, breakdown.csv and the figures.
        input: Your own recording, .npy or .csv: one column a channel, one row a sample.
        rate: Samples per second of your recording.
    """
    recording, words = _recording("breakdown", out, input, rate)
    from experiments.breakdown.run import run  # noqa: PLC0415

    return DONE if run(out, recording, command=shlex.join(words)) else FAILED


def train(
    *,
    task: Annotated[str, tyro.conf.arg(metavar="NAME", help=", ".join(TASKS))],
    field: Annotated[str, tyro.conf.arg(metavar="NAME")],
    integrator: Annotated[str, tyro.conf.arg(metavar="NAME")],
    out: Annotated[Path, tyro.conf.arg(metavar="DIR")],
    set: Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="KEY=VALUE")] = (),
    resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Train a field under an integrator on a task; the run is a folder, and goes on from where it was.

    Args:
        task: One of those named.
        field: plain, leaky, gated, gated-global, gated-softplus, gated-exponential, gated-power, gru, lstm or lstm-blind-output.
        integrator: exact, euler, exponential-euler, or another step map.
        out: Folder of the run: config.json, metrics.csv, checkpoints, result.json.
        set: Settings of all four, such as steps, batch, seed, rate, hidden, checkpoint_every; docs/training.md lists them.
        resume: Go on with the run in DIR, from nothing if there is none.
    """
    from experiments.runs.configuration import configuration_from_words  # noqa: PLC0415

    configuration = configuration_from_words(task, field, integrator, [word for words in set for word in words])
    from experiments.runs.command import run  # noqa: PLC0415

    return DONE if run(configuration, out, resume) else FAILED


def bench(
    *,
    against: Annotated[str | None, tyro.conf.arg(metavar="NAME,...", help_behavior_hint="(default: all that are here)")] = None,
    out: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: the terminal)")] = None,
    scale: Annotated[str, tyro.conf.arg(metavar="SCALE")] = "small",
    threads: Annotated[int | None, _COUNT, tyro.conf.arg(help_behavior_hint="(default: as torch does)")] = None,
    repeats: Annotated[int | None, _COUNT, tyro.conf.arg(help_behavior_hint="(default: by the scale)")] = None,
    device: Annotated[str, tyro.conf.arg(metavar="DEVICE")] = "cpu",
) -> int:
    """Measure how fast this is, side by side with what you would use instead.

    Args:
        against: torch, loop, torchdiffeq, torchode, diffrax.
        out: File to write, .json, .md, .svg or .png.
        scale: smoke, small (minutes) or full (a quarter of an hour).
        threads: For everyone, ours and theirs.
        repeats: Rounds; everyone runs once in each.
        device: cpu or cuda.
    """
    from experiments.bench.output.files import refuse  # noqa: PLC0415
    from experiments.bench.peers.names import chosen  # noqa: PLC0415

    peers = chosen(against)
    _check_word("scale", scale, ("smoke", "small", "full"))
    _check_word("device", device, ("cpu", "cuda"))
    if out is not None:
        refuse(out)
    given = {"--against": against, "--out": out, "--scale": scale, "--threads": threads, "--repeats": repeats}
    words = ["ctrnn", "bench", *(str(word) for pair in given.items() if pair[1] is not None for word in pair)]
    words += ["--device", device] if device != "cpu" else []
    from experiments.bench.run import run  # noqa: PLC0415

    return DONE if run(peers, out, scale, threads, repeats, device, shlex.join(words)) else FAILED


def _check_word(kind: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        hint = did_you_mean(word, known) or f"; there is {', '.join(known)}."
        raise UsageError(f"there is no {kind} {word!r}{hint}")


def _recording(command: str, out: Path, input: Path | None, rate: float | None) -> tuple[Recording, list[str]]:
    """What is played, read before torch is imported so that a wrong file is told at once; and the command in words."""
    if input is not None and rate is None:
        raise UsageError("--input needs --rate too: how many samples per second is it?")
    if rate is not None and input is None:
        raise UsageError("--rate is for a recording of yours; name it with --input FILE.")
    from experiments.data.recording import load  # noqa: PLC0415

    given = [] if input is None else ["--input", str(input), "--rate", f"{rate:g}"]
    return load(input, rate), ["ctrnn", command, "--out", str(out), *given]


def study() -> int:
    """Repeat a claim about learning: many trainings, a table, figures and a verdict."""
    return WRONG_USAGE  # its own commands are called instead


COMMANDS: dict[str, Callable[..., int]] = {
    "demo": demo,
    "derive": derive,
    "breakdown": breakdown,
    "train": train,
    "bench": bench,
    "study": study,
}
GROUPS: dict[str, dict[str, Callable[..., int]]] = {"study": studies.COMMANDS}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        with interruptible():
            return _run(words)
    except UsageError as error:
        return _complain(f"{_prog(words)}: {error}", WRONG_USAGE)
    except Interrupted as signal_:
        return _complain(f"{_prog(words)}: {signal_.word}; no file was left half written.", signal_.code)
    except BrokenPipeError:
        # Whoever read our output has left; Python would complain once more on its way out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return BROKEN_PIPE


def _run(words: list[str]) -> int:
    if not words or words[0] in ("-h", "--help"):
        print(_help())
        return DONE if words else WRONG_USAGE
    if words[0] == "--version":
        from importlib.metadata import version  # noqa: PLC0415

        print(f"ctrnn {version('ctrnn')}")
        return DONE
    command, rest = _known(words[0], COMMANDS), words[1:]
    _refuse_foreign_packages()
    if words[0] in GROUPS:
        if not rest or rest[0] in ("-h", "--help"):
            print(_help(_prog(words), _summary(command), GROUPS[words[0]]))
            return DONE if rest else WRONG_USAGE
        command, rest = _known(rest[0], GROUPS[words[0]]), rest[1:]
    try:
        return tyro.cli(command, args=rest, prog=_prog(words), description=_summary(command))
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else WRONG_USAGE


def _known(word: str, commands: Mapping[str, Callable[..., int]]) -> Callable[..., int]:
    if word not in commands:
        kind = "option" if word.startswith("-") else "command"
        known = list(commands) if kind == "command" else ["--help", "--version"] if commands is COMMANDS else ["--help"]
        hint = did_you_mean(word, known) or f"; there is {', '.join(known)}."
        raise UsageError(f"there is no {kind} {word!r}{hint}")
    return commands[word]


def _help(prog: str = "ctrnn", about: str = ABOUT, commands: Mapping[str, Callable[..., int]] | None = None) -> str:
    commands = COMMANDS if commands is None else commands
    width = max(map(len, commands))
    lines = [f"  {name:<{width}}  {_summary(command)}" for name, command in commands.items()]
    last = f"{prog} COMMAND --help tells what a command takes"
    last += "; ctrnn --version tells the version." if commands is COMMANDS else "."
    return "\n".join([f"usage: {prog} COMMAND [options]", "", about, "", "commands:", *lines, "", last])


def _summary(command: Callable[..., int]) -> str:
    return (command.__doc__ or "").strip().partition("\n")[0]


def _prog(words: Sequence[str]) -> str:
    """The command as far as it is known: ctrnn, ctrnn study, ctrnn study run."""
    if not words or words[0] not in COMMANDS:
        return "ctrnn"
    inner = words[1:2] if words[1:] and words[1] in GROUPS.get(words[0], ()) else []
    return shlex.join(["ctrnn", words[0], *inner])


def _complain(line: str, code: int) -> int:
    print(line, file=sys.stderr)
    return code


def _refuse_foreign_packages() -> None:
    """On PyPI another project installs a package `discretize` too; the one beside this folder is meant."""
    ours = Path(__file__).resolve().parents[1]
    for name in ("ctrnn", "discretize", "derivations"):
        spec = importlib.util.find_spec(name)
        places = [] if spec is None else list(spec.submodule_search_locations or [])
        if not places:
            raise UsageError(f"the package {name!r} is missing beside {ours / 'experiments'}; install ctrnn again.")
        if Path(places[0]).resolve().parent != ours:
            raise UsageError(
                f"Python finds another package {name!r} first, {places[0]}, and not the one of ctrnn in {ours}. "
                f"Uninstall that one, or install ctrnn into an environment of its own."
            )


if __name__ == "__main__":
    sys.exit(main())
