"""Runs `ctrnn study list | fetch | cost | run | plot | export | restore`; what is typed is checked before heavy imports."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated

import tyro

from experiments.plugins import use
from experiments.runs.places import check_place
from experiments.studies.listing import listed
from experiments.studies.registry import STUDIES, check_name
from experiments.studies.study import COMPARISON, SCALES
from experiments.usage import UsageError, check_word, typed

__all__ = ["COMMANDS", "Data", "Plugin", "check_data"]

DONE, FAILED = 0, 1

Data = Annotated[Path | None, tyro.conf.arg(metavar="DIR", help_behavior_hint="(default: none)")]
Scale = Annotated[str, tyro.conf.arg(metavar="SCALE")]
Workers = Annotated[int | None, tyro.conf.arg(metavar="N", help_behavior_hint="(default: one for each core)")]
Shard = Annotated[str | None, tyro.conf.arg(metavar="I/N", help_behavior_hint="(default: all runs)")]
StudyName = Annotated[str, tyro.conf.Positional, tyro.conf.arg(metavar="NAME")]
StudyFolder = Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="DIR")]
Out = Annotated[Path, tyro.conf.arg(metavar="DIR")]
Plugin = Annotated[tuple[str, ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="FILE.py")]


def list_(*, plugin: Plugin = ()) -> int:
    """Tell which studies there are, what they claim, and what they cost.

    Args:
        plugin: A file of yours with studies, tasks or fields; it is run.
    """
    use(plugin)
    for name in STUDIES:
        print(f"{name}\n{listed(name)}")
    return DONE


def fetch(name: StudyName, /, *, data: Annotated[Path, tyro.conf.arg(metavar="DIR")], plugin: Plugin = ()) -> int:
    """Fetch recordings, texts and weights that a study needs; exit code 1 if some are left to be put there by hand.

    Args:
        name: As `ctrnn study list` has it.
        data: Folder for them, the --data of `ctrnn study run`; what is in it stays as it is.
        plugin: A file of yours with studies, tasks or fields; it is run.
    """
    use(plugin)
    check_name(name)
    from experiments.studies.fetched import fetch as fetched  # noqa: PLC0415
    from experiments.studies.registry import study_named  # noqa: PLC0415

    needs = study_named(name).needs
    if not needs:
        print(f"{name} needs no files.")
    done = True
    for line, is_there in fetched(needs, data):
        print(line, flush=True)
        done = done and is_there
    return DONE if done else FAILED


def run(
    name: StudyName,
    /,
    *,
    out: Out,
    scale: Scale = "small",
    workers: Workers = None,
    shard: Shard = None,
    data: Data = None,
    budget: Annotated[str | None, tyro.conf.arg(metavar="TIME", help_behavior_hint="(default: none)")] = None,
    on: Annotated[str, tyro.conf.arg(metavar="ENGINE")] = "here",
    plugin: Plugin = (),
) -> int:
    """Carry out the runs of a study that are missing in a folder; exit code 1 if one failed.

    Args:
        name: As `ctrnn study list` has it.
        out: The study's folder; what is done in it is not done again.
        scale: smoke (seconds), small (minutes) or paper (the printed sizes).
        workers: Processes; each has its share of the cores.
        shard: Runs I, I + N, ... of all, counted from 1, so that N machines share a study.
        data: Folder of recordings, with mnist/, uci_har/, japanese_vowels/ and physionet2012/ in it; only for studies of them.
        budget: Such as 3h: what is missing is measured by slices first, and refused if it will take longer.
        on: here, by processes; ray, by Ray on this machine; ray:ADDRESS or slurm, by that cluster, whose machines see --out.
        plugin: A file of yours with studies, tasks or fields; it is run.
    """
    address, part = _checked(name, scale, workers, shard, data, plugin)
    from experiments.studies.cost import seconds_in  # noqa: PLC0415

    most = None if budget is None else seconds_in(budget)
    check_place(on)
    from experiments.studies import runner  # noqa: PLC0415

    command = typed("study", "run", name, scale=scale, out=out, workers=workers, shard=shard, data=data)
    more = [*([] if on == "here" else ["--on", on]), *(word for file in plugin for word in ("--plugin", file))]
    command = shlex.join([*shlex.split(command), *more])
    return DONE if runner.run(address, scale, out, command, workers, part, plugin, most, on) else FAILED


def cost(
    name: StudyName,
    /,
    *,
    scale: Scale = "paper",
    workers: Workers = None,
    shard: Shard = None,
    data: Data = None,
    plugin: Plugin = (),
) -> int:
    """Tell what the runs of a study will cost on this machine, from a few steps of each kind of run.

    Args:
        name: As `ctrnn study list` has it.
        scale: smoke, small or paper.
        workers: Processes; each has its share of the cores.
        shard: Runs I, I + N, ... of all, counted from 1.
        data: Folder of recordings, with mnist/, uci_har/, japanese_vowels/ and physionet2012/ in it; only for studies of them.
        plugin: A file of yours with studies, tasks or fields; it is run.
    """
    address, part = _checked(name, scale, workers, shard, data, plugin)
    from experiments.studies import runner  # noqa: PLC0415

    runner.tell_cost(address, scale, workers, part, plugin)
    return DONE


def plot(folder: StudyFolder, /, *, plugin: Plugin = ()) -> int:
    """Draw verdict, table and figures of a study's folder from its records, however many there are.

    Args:
        folder: The --out of `ctrnn study run`.
        plugin: A file of yours with studies, tasks or fields; it is run.
    """
    use(plugin)
    from experiments.studies.folder import described  # noqa: PLC0415

    asked = described(folder)
    if asked["study"] == COMPARISON:
        raise UsageError(f"{folder} is a comparison, whose own command writes its page again: {(asked['commands'] or ['?'])[-1]}")
    check_name(asked["study"])
    from experiments.studies.html_page import write  # noqa: PLC0415

    print(write(folder))
    return DONE


def export(
    folder: StudyFolder,
    /,
    *,
    out: Out,
    plugin: Plugin = (),
) -> int:
    """Write a study's records as tables, runs.csv and rows.csv, and its trained models, models/KEY.safetensors.

    Args:
        folder: The --out of `ctrnn study run`.
        out: Where the files go; those of the same names are replaced.
        plugin: A file of yours with studies, tasks or fields; it is run.
    """
    use(plugin)
    from experiments.studies.folder import described  # noqa: PLC0415

    described(folder)
    from experiments.studies import tables  # noqa: PLC0415

    print(tables.export(folder, out))
    return DONE


def restore(
    folder: Annotated[Path, tyro.conf.Positional, tyro.conf.arg(metavar="TABLES")],
    /,
    *,
    out: Out,
    data: Data = None,
    plugin: Plugin = (),
) -> int:
    """Write the folder that exported tables are of, so that `ctrnn study run` goes on where they end.

    Args:
        folder: The --out of `ctrnn study export`; docs/tables has some.
        out: The study's folder; without the trained models.
        data: Folder of recordings that `run` is to go on with; without it, the folder data.
        plugin: A file of yours with studies, tasks or fields; it is run.
    """
    use(plugin)
    check_data(data)
    from experiments.studies import tables  # noqa: PLC0415

    print(tables.restore(folder, out))
    return DONE


# The words after `ctrnn study`.
COMMANDS: dict[str, Callable[..., int]] = {
    "list": list_,
    "fetch": fetch,
    "cost": cost,
    "run": run,
    "plot": plot,
    "export": export,
    "restore": restore,
}


def _checked(
    name: str, scale: str, workers: int | None, shard: str | None, data: Path | None, plugin: Sequence[str]
) -> tuple[str, tuple[int, int]]:
    """Return the study's address, and which share of its runs."""
    use(plugin)
    address = check_name(name)
    check_word("scale", scale, SCALES)
    if workers is not None and workers < 1:
        raise UsageError(f"--workers is a number of processes, at least 1; got {workers}.")
    check_data(data)
    return address, (1, 1) if shard is None else _shard(shard)


def check_data(data: Path | None) -> None:
    """Take the folder of recordings, so that worker processes have it, too. Raises: UsageError for one that is not there."""
    if data is not None:
        if not data.is_dir():
            raise UsageError(f"--data is a folder; there is none at {data}.")
        os.environ["CTRNN_DATA"] = str(data.resolve())


def _shard(words: str) -> tuple[int, int]:
    first, slash, count = words.partition("/")
    if not (slash and first.isdecimal() and count.isdecimal() and 1 <= int(first) <= int(count)):
        raise UsageError(f"--shard is I/N with I from 1 to N, as 2/3 for the second of three shares; got {words!r}.")
    return int(first), int(count)
