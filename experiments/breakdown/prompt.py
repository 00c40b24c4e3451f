"""Reads what is typed after `ctrnn breakdown`; what is heavy is imported inside."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import tyro

from experiments.data.prompt import read_recording
from experiments.options import Folder, Input, Rate, Set
from experiments.studies import command as studies
from experiments.usage import UsageError, typed

__all__ = ["breakdown"]


def breakdown(
    *,
    run: Annotated[Path | None, tyro.conf.arg(metavar="RUN", help_behavior_hint="(default: no trained model)")] = None,
    model: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="")] = None,
    data: Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(required with --model)")] = None,
    plugin: studies.Plugin = (),
    out: Folder = Path("out/breakdown"),
    input: Input = None,
    rate: Rate = None,
    set: Set = (),
) -> int:
    """Draw where the Taylor step stops being the field, and what to take instead; or say of a trained model whether it is its
    equation or its step. Writes DIR/index.html.

    Args:
        run: Folder of a run of `ctrnn train`, whose model is looked at on sequences of its test.
        model: A model of your own, written by ctrnn.save.
        data: Tensors for it, .safetensors: xs (time, batch, input), and perhaps targets, counts, ts and lengths, as a
            discretize.sequences.Batch has them.
        plugin: A file of yours that a run was begun with, or with the classes of a model; it is run.
        out: Folder for index.html, the numbers and the figures.
        input: Your own recording, .npy or .csv: one column a channel, one row a sample; not for a trained model.
        rate: Samples per second of your recording.
        set: How a table is read, as by --task csv: inputs, time, missing, words, decimal, dates, clock, separator, encoding.
    """
    if run is not None or model is not None or data is not None or plugin:
        _of_trained(run, model, data, plugin, out, input, rate, set)
        return 0
    recording, command = read_recording("breakdown", out, input, rate, set)
    from experiments.breakdown.run import run as draw  # noqa: PLC0415

    return 0 if draw(out, recording, command) else 1


def _of_trained(
    run: Path | None,
    model: Path | None,
    data: Path | None,
    plugin: Sequence[str],
    out: Path,
    input: Path | None,
    rate: float | None,
    set: Sequence[Sequence[str]],
) -> None:
    if input is not None or rate is not None or set:
        raise UsageError(
            "--input, --set and --sampling-rate are for a recording that is played to fields; a trained model has its own data."
        )
    if (run is None) == (model is None) or (model is None) != (data is None):
        raise UsageError("Give --run RUN, or --model FILE and --data FILE.")
    from experiments.breakdown.trained import of_files, of_run  # noqa: PLC0415

    command = typed(
        "breakdown", *(word for file in plugin for word in ("--plugin", file)), run=run, model=model, data=data, out=out
    )
    if run is not None:
        of_run(run, out, command, plugin)
        return
    assert model is not None
    assert data is not None
    of_files(model, data, out, command, plugin)
