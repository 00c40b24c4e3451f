"""Options that several commands have, as tyro reads them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import tyro
from tyro.constructors import PrimitiveConstructorSpec

__all__ = ["Folder", "Form", "Input", "Name", "Output", "Rate", "Set", "number"]


def number(kind: type[int] | type[float], metavar: str) -> PrimitiveConstructorSpec:
    """Make an option that is one number, or not given."""

    def read(words: list[str]) -> float:
        try:
            return kind(words[0])
        except ValueError:
            raise ValueError(f"a {'whole ' * (kind is int)}number is needed, got {words[0]!r}") from None

    return PrimitiveConstructorSpec(
        nargs=1,
        metavar=metavar,
        instance_from_str=read,
        is_instance=lambda value: value is None or isinstance(value, kind),
        str_from_instance=lambda value: [str(value)],
    )


Folder = Annotated[Path, tyro.conf.arg(metavar="DIR")]
Input = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: an EEG)")]
Rate = Annotated[
    float | None,
    number(float, "HZ"),
    # tyro shows aliases first: `--rate` is the name before, which goes on working.
    tyro.conf.arg(aliases=("--sampling-rate",), help_behavior_hint="(required with --input, but for --set time=COLUMN)"),
]
Output = Annotated[Path | None, tyro.conf.arg(metavar="FILE", help_behavior_hint="(default: the terminal)")]
Form = Annotated[str | None, tyro.conf.arg(metavar="FORM", help_behavior_hint="(default: by FILE's ending, or table)")]
Set = Annotated[tuple[tuple[str, ...], ...], tyro.conf.UseAppendAction, tyro.conf.arg(metavar="KEY=VALUE")]
Name = Annotated[str, tyro.conf.arg(metavar="NAME")]
