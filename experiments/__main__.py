r"""Runs the command line: `ctrnn ...`, and from the root of the repository `python -m experiments ...`.

    0 done    1 a check failed    2 wrong usage    74 a disk or a device failed    130, 138, 143 interrupted

One function a command; what is heavy is imported inside, so that help and wrong usage answer at once.
"""

from __future__ import annotations

import importlib.util
import io
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Union

import tyro

import ctrnn
from ctrnn.extras import MissingPackageError, needed_by
from derivations.processes.interruption import Interrupted, interruptible
from experiments.breakdown.prompt import breakdown
from experiments.compare.prompt import compare
from experiments.data.prompt import read_recording
from experiments.models.fields import FIELDS, JUMPS
from experiments.options import Folder, Form, Input, Name, Output, Rate, Set, number
from experiments.plugins import named_fields, use
from experiments.runs.places import check_place
from experiments.studies import command as studies
from experiments.tasks.registry import TASKS
from experiments.usage import UsageError, check_word, typed

__all__ = ["COMMANDS", "main"]

ROOT = Path(__file__).resolve().parents[1]
DONE, FAILED, WRONG_USAGE, IO_ERROR, BROKEN_PIPE = 0, 1, 2, 74, 141
ABOUT = (
    "Recurrent networks as ordinary differential equations. `ctrnn COMMAND --help` says what a command takes, `ctrnn --version` "
    "which version this is."
)
PAPERS = (".md", ".tex")
COMPLETION = ("--tyro-print-completion", "--tyro-write-completion")  # `SHELL`, and `SHELL FILE`
FORMATS = {".txt": "table", ".json": "json", ".tex": "latex", ".html": "html"}
REPORTS_OF_CODE = {".txt": "table", ".html": "html", ".md": "markdown"}
REPORTS = {**FORMATS, **REPORTS_OF_CODE}


def demo(
    *,
    out: Folder = Path("out/demo"),
    input: Input = None,
    rate: Rate = None,
    set: Set = (),
    verbose: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
) -> int:
    """Run the main job on a real recording; writes one page, DIR/index.html.

    Args:
        out: Folder for index.html and numbers.json.
        input: Your own recording, .npy or .csv: one column a channel, one row a sample.
        rate: Samples per second of your recording.
        set: How a table is read, as by --task csv: inputs, time, missing, words, decimal, dates, clock, separator, encoding.
        verbose: Print a line for each proof, not only for those that fail.
    """
    recording, command = read_recording("demo", out, input, rate, set)
    from experiments.demo.run import run  # noqa: PLC0415

    return DONE if run(out, recording, command, verbose) else FAILED


def derive(
    *,
    source: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: all)")] = None,
    format: Form = None,
    out: Output = None,
    check: Annotated[Path | None, tyro.conf.arg(metavar="FILE.json", help_behavior_hint="")] = None,
    paper: Annotated[Path | None, tyro.conf.arg(metavar="PAPER.md", help_behavior_hint="(with --check)")] = None,
) -> int:
    """Decide every claim of the papers; exit code 1 if a decision is not as recorded.

    Args:
        source: One text only, as the stem of its file, or "this project".
        format: table, json, latex or html.
        out: File to write.
        check: Decide nothing: check the certificates in what --out FILE.json wrote, without what decided them.
        paper: That FILE.json was made of by `ctrnn prove`: it is read and decided again, and every word compared.
    """
    if check is not None:
        if (source, format, out) != (None, None, None):
            raise UsageError("--check stands alone, or with --paper: it checks the file that it names.")
        from experiments.derive.check import run as check_certificates  # noqa: PLC0415

        return DONE if check_certificates(check, paper) else FAILED
    if paper is not None:
        raise UsageError("--paper goes with --check: name the ledger that was made of it.")
    form = _form(format, out)
    from derivations.contents import SOURCES  # noqa: PLC0415

    if source is not None:
        check_word("source", source, SOURCES)
    from experiments.derive.run import run  # noqa: PLC0415

    return DONE if run(source, form, out) else FAILED


def _form(format: str | None, out: Path | None, forms: Mapping[str, str] = FORMATS) -> str:
    """Return the form of a ledger or report: the one that is named, or that of the file's ending, a table without one."""
    if format is not None:
        check_word("format", format, forms.values())
        return format
    if (ending := out.suffix.lower() if out else "") and ending not in forms:
        raise UsageError(
            f"--out {out}: nothing here is written as {ending}; take {', '.join(forms)}, or say by --format what it is."
        )
    return forms.get(ending, "table")


def prove(
    cell: Annotated[tyro.conf.Positional[str], tyro.conf.arg(metavar="FILE.py:NAME|PAPER.md|PAPER.tex")],
    *,
    equations: Annotated[str | None, tyro.conf.arg(metavar="FILE.py:NAME")] = None,
    set: Set = (),
    seconds: Annotated[float, number(float, "S")] = 60.0,
    code: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    format: Form = None,
    out: Output = None,
) -> int:
    """Prove that a cell of yours is the equations you have in mind, or that those of a paper follow from one another; exit code 1
    if that is not proved.

    Runs the files that it names; of a paper, those beside it that its `code` lines name, and only with --code.

    Args:
        cell: A torch module, or what makes one; or a paper, its equations in LaTeX (docs/papers.md).
        equations: What derivations.verify takes, or a function that makes it, of nothing or of the cell's own equations. Without
            it, the `formula` of a field's own class.
        set: Arguments of what makes the module; input_size is 2 and hidden_size 3 where it needs them.
        seconds: After which the answer is undecided; of a paper, that to each claim.
        code: Of a paper: run the files that it names, to prove that their code is its equations.
        format: Of the report: table, html or markdown; of a paper also json or latex, a ledger.
        out: File to write.
    """
    if Path(cell).suffix in PAPERS:
        if equations is not None or set:
            raise UsageError("--equations and --set are for a cell; a paper names the code of its equations (docs/papers.md).")
        form = _form(format, out, REPORTS)
        from experiments.papers import run as judge  # noqa: PLC0415

        return DONE if judge(Path(cell), form, out, run_code=code, seconds=seconds) else FAILED
    form = _form(format, out, REPORTS_OF_CODE)
    if code:
        raise UsageError("--code is for a paper, PAPER.md or PAPER.tex; the code of a cell is run anyhow.")
    from experiments.prove import run  # noqa: PLC0415

    return DONE if run(cell, equations, seconds, [word for words in set for word in words], form, out) else FAILED


def train(
    *,
    task: Annotated[str, tyro.conf.arg(metavar="NAME", help=", ".join(TASKS.own))],
    field: Annotated[
        str, tyro.conf.arg(metavar="NAME", help=f"{', '.join(FIELDS.own)}; the last {len(JUMPS)} jump at their samples")
    ],
    integrator: Name = "euler",
    out: Folder,
    set: Set = (),
    resume: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    device: Annotated[str | None, tyro.conf.arg(metavar="DEVICE", help_behavior_hint="(default: cpu)")] = None,
    workers: Annotated[
        int | None, number(int, "N"), tyro.conf.arg(help_behavior_hint="(default: 1; elsewhere, all there is)")
    ] = None,
    on: Annotated[str, tyro.conf.arg(metavar="ENGINE")] = "here",
    page: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    look: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False,
    log: Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="NAME")] = (),
    plugin: studies.Plugin = (),
) -> int:
    """Train a field under an integrator on a task; the run is a folder, and goes on from where it was.

    Args:
        task: One of those named.
        field: One of those named, or of yours: FILE.py:NAME, called like ctrnn.gated(inputs, hidden).
        integrator: exact, euler, exponential-euler, or another step map; with noise=SIGMA euler-maruyama or another one for it.
        out: Folder of the run: config.json, metrics.csv, checkpoints, result.json.
        set: Settings of all four, listed below; those of a task by `ctrnn train --task NAME --help`.
            Several values, seed=0,1,2, are as many runs, each in a folder of its own in DIR.
        resume: Go on with the run in DIR, from nothing if there is none; with more steps or patience it gets longer.
        device: cpu, cuda, or auto: the GPU where there is one. The same as --set device=DEVICE.
        workers: Processes, each of which trains one of several runs at a time.
        on: here, by processes; ray, by Ray on this machine; ray:ADDRESS or slurm, by that cluster, whose machines see DIR.
        page: Write DIR/index.html at the end: curves, answers, time scales, and whether the steps are the equation.
        look: Train nothing, and say what was understood of your own data (--task csv): sequences, times, what is missing.
        log: tensorboard, wandb or mlflow, or several: what to send losses, measures and settings to while it trains.
        plugin: A file of yours with tasks or fields; it is run.
    """
    (field,), plugin = named_fields([field], plugin)
    from experiments.runs.command import run  # noqa: PLC0415

    words = [word for words in set for word in words] + ([] if device is None else [f"device={device}"])
    if workers is not None and workers < 1:
        raise UsageError(f"--workers must be at least 1, got {workers}.")
    check_place(on)
    done = run(
        task, field, integrator, words, out, resume=resume, look=look, page=page, workers=workers, on=on, plugins=plugin, log=log
    )
    return DONE if done else FAILED


def bench(
    *,
    against: Annotated[str | None, tyro.conf.arg(metavar="NAME,...", help_behavior_hint="(default: all that are here)")] = None,
    out: Output = None,
    scale: Annotated[str, tyro.conf.arg(metavar="SCALE")] = "small",
    threads: Annotated[int | None, number(int, "N"), tyro.conf.arg(help_behavior_hint="(default: as torch does)")] = None,
    repeats: Annotated[int | None, number(int, "N"), tyro.conf.arg(help_behavior_hint="(default: by the scale)")] = None,
    device: Annotated[str, tyro.conf.arg(metavar="DEVICE")] = "cpu",
) -> int:
    """Measure how fast this is, side by side with what you would use instead; in a copy of the repository.

    Args:
        against: torch, loop, torchdiffeq, torchode, diffrax, torchsde, torchdde.
        out: File to write, .json, .md, .svg or .png.
        scale: smoke, small (minutes), full (a quarter of an hour), or gpu (sizes for one, with --device cuda).
        threads: For everyone, ours and theirs.
        repeats: Rounds; everyone runs once in each.
        device: cpu or cuda.
    """
    if importlib.util.find_spec("experiments.bench") is None:
        raise UsageError(
            "it measures a copy of the repository, and lies there in experiments/bench, not in this package; in the copy, "
            "`pip install -e '.[all,bench]'` and `ctrnn bench`."
        )
    from experiments.bench.options import check_out, chosen  # noqa: PLC0415

    peers = chosen(against)
    check_word("scale", scale, ("smoke", "small", "full", "gpu"))
    check_word("device", device, ("cpu", "cuda"))
    for name, count in (("threads", threads), ("repeats", repeats)):
        if count is not None and count < 1:
            raise UsageError(f"--{name} must be at least 1, got {count}.")
    if out is not None:
        check_out(out)
    other = device if device != "cpu" else None
    command = typed("bench", against=against, out=out, scale=scale, threads=threads, repeats=repeats, device=other)
    from experiments.bench.run import run  # noqa: PLC0415

    return DONE if run(peers, out, scale, threads, repeats, device, command) else FAILED


def doctor(*, build: Annotated[bool, tyro.conf.FlagCreatePairsOff] = False) -> int:
    """Say what is installed, which engines work here and why others do not, and which packages hide one another.

    Args:
        build: Build kernels for a small network, and compare all engines.
    """
    from experiments.doctor import run  # noqa: PLC0415

    return run(build=build)


def study() -> int:
    """Repeat a claim about learning: many trainings, a table, figures and a verdict."""
    return WRONG_USAGE  # its own commands are called instead


def docs() -> int:
    """Open these pages in a browser: those of the package, or as `make docs` built them in a copy of the repository."""
    from experiments.documents import open_pages  # noqa: PLC0415

    return open_pages()


COMMANDS: dict[str, Callable[..., int]] = {
    "demo": demo,
    "derive": derive,
    "prove": prove,
    "breakdown": breakdown,
    "train": train,
    "compare": compare,
    "bench": bench,
    "doctor": doctor,
    "study": study,
    "docs": docs,
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit code."""
    words = list(sys.argv[1:] if argv is None else argv)
    program = ["ctrnn", *words[:1]] if words[:1] and words[0] in COMMANDS else ["ctrnn"]
    program += words[1:2] if words[:1] == ["study"] and words[1:] and words[1] in studies.COMMANDS else []
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a letter that the terminal lacks must not end a run
    try:
        with interruptible(), needed_by("this command", "all"):
            code = _run(words)
            sys.stdout.flush()
            return code
    except (UsageError, MissingPackageError) as error:
        line, code = str(error), WRONG_USAGE
    except Interrupted as signal_:
        line, code = f"{signal_.word}; no file was left half written.", signal_.code
    except BrokenPipeError:
        # Whoever read our output has left; Python would complain once more on its way out.
        _discard_output()
        return BROKEN_PIPE
    except OSError as error:  # a disk or device is full or fails, and no command said so in its own words
        _discard_output()
        where = f"{error.filename}: " if error.filename else ""
        line, code = f"{where}cannot be read or written ({error.strerror or error}).", IO_ERROR
    print(f"{' '.join(program)}: {line}", file=sys.stderr)
    return code


def _discard_output() -> None:
    """Discard output that cannot be written: Python would try again, and complain, on its way out."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run(words: list[str]) -> int:
    if words[:1] == ["--version"]:
        print(f"ctrnn {ctrnn.__version__}")
        return DONE
    for word in words:
        if not word:
            raise UsageError("an empty word was typed; is a variable of the shell not set?")
        if not word.isprintable() and word.encode(errors="replace") != word.encode(errors="surrogateescape"):
            raise UsageError(f"{word!r} is not UTF-8 text, and could not be written down as what was typed; rename it.")
    program, about, commands, options = "ctrnn", ABOUT, COMMANDS, ["-h", "--help", "--version", *COMPLETION]
    if words[:1] == ["study"]:
        program, about, commands, options = "ctrnn study", str(study.__doc__), studies.COMMANDS, options[:2]
        words = words[1:]
    if words and words[0] in COMPLETION:
        commands = {**COMMANDS, "study": _with_its_own_commands(study)}
    elif words and words[0] not in options:
        option = words[0].startswith("-")
        check_word("option" if option else "command", words[0], options[1:] if option else commands)
        if words[0] != "doctor":
            _refuse_foreign_packages()
    helped = words[:1] in (["train"], ["compare"]) and not {"-h", "--help"}.isdisjoint(words)
    if helped:  # before anything is said, what is named is looked for
        from experiments.runs.command import settings_help  # noqa: PLC0415

        use(word for before, word in pairwise(words) if before == "--plugin")
        settings = settings_help(word for before, word in pairwise(words) if before == "--task")
    try:
        code: int = tyro.extras.subcommand_cli_from_dict(dict(commands), prog=program, description=about, args=words)
    except SystemExit as exit_:
        if helped:
            print(settings)
        return exit_.code if isinstance(exit_.code, int) else WRONG_USAGE if exit_.code else DONE
    return code


def _with_its_own_commands(study: Callable[..., int]) -> Callable[..., int]:
    """Make `study` one command with commands of its own, as shells complete them."""

    def group(command: int) -> int:
        return command

    kinds = tuple(Annotated[Any, tyro.conf.subcommand(name, constructor=each)] for name, each in studies.COMMANDS.items())
    group.__annotations__["command"] = Annotated[Union[kinds], tyro.conf.arg(name="")]  # noqa: UP007 - made while running
    group.__doc__ = study.__doc__
    return group


def _refuse_foreign_packages() -> None:
    """Refuse a package of the same name that is found first: on PyPI another project installs a `discretize` too."""
    from experiments.doctor import overwritten  # noqa: PLC0415

    for words in overwritten().values():
        raise UsageError(words)
    for name in ("ctrnn", "discretize", "derivations"):
        spec = importlib.util.find_spec(name)
        places = [] if spec is None else list(spec.submodule_search_locations or [])
        if not places:
            raise UsageError(f"the package {name!r} is missing beside {ROOT / 'experiments'}; install ctrnn again.")
        if Path(places[0]).resolve().parent != ROOT:
            raise UsageError(
                f"Python finds another package {name!r} first, {places[0]}, and not the one of ctrnn in {ROOT}. "
                f"Uninstall that one, or install ctrnn into an environment of its own."
            )


if __name__ == "__main__":
    sys.exit(main())
