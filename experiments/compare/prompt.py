"""Reads what is typed after `ctrnn compare`; what is heavy is imported inside."""

from __future__ import annotations

import shlex
import sys
from typing import Annotated

import tyro

from experiments.options import Folder, Set, number
from experiments.plugins import named_fields
from experiments.runs.places import check_place
from experiments.settings import assignments
from experiments.studies import command as studies
from experiments.usage import UsageError, typed

__all__ = ["compare"]


def compare(
    *,
    task: Annotated[str, tyro.conf.arg(metavar="NAME")],
    field: Annotated[str, tyro.conf.arg(metavar="NAME,...")] = "gated",
    integrator: Annotated[str, tyro.conf.arg(metavar="NAME,...")] = "euler,exponential-euler,exact",
    out: Folder,
    speeds: Annotated[str | None, tyro.conf.arg(metavar="C,...", help_behavior_hint="(default: 1/4,1/2,1,2,4 if it can)")] = None,
    clock: Annotated[str, tyro.conf.arg(metavar="WORD")] = "given",
    dt: Annotated[str, tyro.conf.arg(metavar="SHARE,...")] = "1",
    seeds: Annotated[int, number(int, "N")] = 5,
    score: Annotated[str | None, tyro.conf.arg(metavar="NAME", help_behavior_hint="(default: accuracy, or loss)")] = None,
    set: Set = (),
    data: studies.Data = None,
    workers: Annotated[int | None, number(int, "N"), tyro.conf.arg(help_behavior_hint="(default: one for each core)")] = None,
    on: Annotated[str, tyro.conf.arg(metavar="ENGINE")] = "here",
    plugin: studies.Plugin = (),
) -> int:
    """Train fields under several integrators, run each trained model under each, and say which way matters.

    Every way of training has the same starts and the same batches, seed by seed. Writes DIR/index.html, table.md and
    rows.csv. The same command goes on after any kill; more --seeds add to what is done. Exit code 1 if a run failed.

    Args:
        task: As of `ctrnn train`; csv reads a table of yours, --set data=FILE.csv target=COLUMN.
        field: Names as of `ctrnn train`, or fields of yours, FILE.py:NAME, called like ctrnn.gated(inputs, hidden).
        integrator: Of training and of running: euler, exponential-euler, backward-euler, ... or exact, the equation solved.
        out: The comparison's folder.
        speeds: How many times as fast the test is played; 1 is as recorded. Only for tasks that can be played, as vowels.
        clock: given, where a sample at speed c then lasts c units of time; hidden, where nobody says so; or both, given,hidden.
        dt: How long a step is, as a share of its sample: 1 is a step a sample, 1/2 two steps of half its length with the same
            input. Each is a way of its own, in training and in running; exact has no dt, and is there once.
        seeds: Starts and batches, each compared with itself; from 2 on there are intervals.
        score: The measure to compare by, of those of the task.
        set: Settings of task, field, integrator and training, as of `ctrnn train`, listed below; here steps=300 optimizer=adam
            lr=0.004 clip=1 hidden=32 threads=1 where nothing else is said.
        data: Folder with japanese_vowels/ or uci_har/ in it, for vowels and har.
        workers: Processes, each of which trains one run at a time.
        on: here, by processes; ray, by Ray on this machine; ray:ADDRESS or slurm, by that cluster, whose machines see --out.
        plugin: A file of yours with tasks or fields; it is run.
    """
    studies.check_data(data)
    if workers is not None and workers < 1:
        raise UsageError(f"--workers is a number of processes, at least 1; got {workers}.")
    check_place(on)
    from experiments.compare.command import comparison, listed  # noqa: PLC0415

    words = [word for words in set for word in words]
    fields, files = named_fields(listed("field", field), plugin)
    made = comparison(
        task,
        fields,
        listed("integrator", integrator),
        dt=listed("dt", dt),
        speeds=None if speeds is None else listed("speeds", speeds),
        clock=listed("clock", clock),
        seeds=seeds,
        score=score,
        settings=assignments(words),
        as_text=True,
    )
    if looked := made.base.task.look():
        print(looked, file=sys.stderr)
    options = {"task": task, "field": field, "integrator": integrator, "speeds": speeds, "clock": clock, "dt": dt, "seeds": seeds}
    command = shlex.split(typed("compare", **options, score=score, out=out, workers=workers, data=data))
    command += [*["--on", on] * (on != "here"), *(word for file in plugin for word in ("--plugin", file))]
    command += ["--set", *words] if words else []
    from experiments.studies import runner  # noqa: PLC0415

    return 0 if runner.run(made.address, "", out, shlex.join(command), workers, plugins=files, on=on) else 1
