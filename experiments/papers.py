r"""Judges the equations of a paper of yours, and shows them as the ledger is shown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from sympy import Basic, Derivative, Eq, ImmutableDenseMatrix
from torch import nn

from ctrnn.storage.files import read_file
from derivations.claim import Claim, Entry, Equal, decided
from derivations.papers.equations import NotRead, Paper
from derivations.papers.meaning import Meaning
from derivations.papers.names import name_of
from derivations.papers.paper import read_paper
from derivations.papers.tokens import Token, Unread
from derivations.prover.statements import Statement
from derivations.prover.timelimit import OutOfTime, time_limit
from derivations.prover.verdict import FAILS, REINTERPRETED, UNDECIDED, Verdict
from derivations.tracing.equations import match
from derivations.tracing.proof import verify
from derivations.tracing.reading import UnknownOperation
from derivations.tracing.symbolic import SECONDS, symbolic
from experiments.code_files import SIZES, called, imported, no_exit, required
from experiments.derive.run import show
from experiments.usage import UsageError, nearest

__all__ = ["SUFFIXES", "run"]

SUFFIXES = (".md", ".tex")
MOST = 1 << 21  # bytes
NOWHERE = Token("", "", 1, 1)


def run(file: Path, form: str, out: Path | None, *, run_code: bool = False, seconds: float = SECONDS) -> bool:
    r"""Show every claim of the paper with its verdict; return whether there are some, and all are proved.

    Args:    file, form, out; run_code: whether the files beside the paper are run that its `code` lines name; seconds: after
             which a claim is undecided.
    Raises:  UsageError for a file that cannot be read, and front matter that says nothing.
    """
    if not seconds > 0:
        raise UsageError(f"--seconds must be above 0, got {seconds:g}.")
    try:
        text = read_file(file.resolve(), MOST).decode("utf-8-sig")
        paper = read_paper(text, file.stem, file.suffix == ".tex")
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror or error}).") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text.") from None
    except Unread as error:
        raise UsageError(f"{file}, {error}.") from None
    entries = [*paper.entries, *_code(paper, file.resolve().parent, run_code)]
    claims = show((_decided(entry, seconds) for entry in entries), form, out, [*_notes(paper)])
    return bool(claims) and all(claim.verdict not in (FAILS, REINTERPRETED, UNDECIDED) for claim in claims)


def _decided(entry: Entry, seconds: float) -> Claim:
    """Decide a claim of which nobody has recorded what is expected."""
    try:
        with time_limit(seconds):
            claim = decided(entry)
    except OutOfTime:
        claim = decided(replace(entry, statements=tuple(_OutOfTime(s.kind, s.formulas(), seconds) for s in entry.statements)))
    return replace(claim, recorded="", mutation="")


@dataclass(frozen=True)
class _OutOfTime:
    """A statement that took too long: undecided."""

    kind: str
    printed: tuple[Basic, ...]
    seconds: float

    def formulas(self) -> tuple[Basic, ...]:
        return self.printed

    def says(self) -> None:
        return None

    def decide(self) -> Verdict:
        return Verdict(UNDECIDED, self.seconds, f"out of time after {self.seconds:g} s")


def _notes(paper: Paper) -> Iterator[str]:
    """Say what was defined or supposed, and how much says nothing."""
    for definition in paper.said:
        word = "supposed" if definition.supposed else "by definition"
        yield f"{definition.label}: {definition.left} = {definition.value} ({word}, nothing proved)."
    if paper.skipped:
        yield f"{paper.skipped} displays without an equation were skipped."


@dataclass(frozen=True)
class _IsCode:
    """The code of a torch module is the equations, for all weights, inputs and states."""

    place: str
    module: nn.Module
    equations: object
    letters: Mapping[Any, str]
    field: bool
    printed: tuple[Basic, ...]
    kind = "code"

    def formulas(self) -> tuple[Basic, ...]:
        return self.printed

    def says(self) -> dict[str, Any] | None:
        return self._sides.says() if self.decide().holds is not None else None

    @cached_property
    def _sides(self) -> Equal:
        """The code's right sides and those that are written, in the letters of the code."""
        system = symbolic(self.module, field=self.field)
        matched = match(self.equations, system, self.letters)
        return Equal(system.flow, ImmutableDenseMatrix([value.expr for value in matched.right]))

    def decide(self) -> Verdict:
        return self._verdict

    @cached_property
    def _verdict(self) -> Verdict:
        try:
            with no_exit(self.place):
                found = verify(self.module, self.equations, self.letters, field=self.field, seconds=None)
            certain = self._sides.decide()
        except (UnknownOperation, TimeoutError, ValueError, TypeError) as error:
            return Verdict(UNDECIDED, 0.0, str(error))
        if found.holds is not certain.holds:
            return replace(found, verdict=UNDECIDED, evidence=f"{found.evidence}; the checker finds: {certain.evidence}")
        return replace(found, certificate=certain.certificate)


def _code(paper: Paper, folder: Path, run_code: bool) -> Iterator[Entry]:
    """Compare equations with the code that the front matter names."""
    said = {definition.label: definition for definition in paper.said}
    for labels, place, pairs in paper.front.code:
        if missing := [label for label in labels if label not in said]:
            raise UsageError(f"code: {missing[0]!r} is no label of a definition, or of dh/dt = F.")
        names = {name_of(name, NOWHERE): value for name, value in pairs.items()}
        if missing := [name for name in names if name not in paper.known.letters]:
            raise UsageError(f"code: {missing[0]!r} is no letter of the paper.")
        meaning, equations = Meaning(paper.known), dict[Any, Any]()
        definitions = [said[label] for label in labels]
        field = isinstance(definitions[0].left, Derivative)
        for definition in definitions:
            equations[names.get(definition.name, definition.name)] = meaning.of(definition.value)
        values = {meaning.value(name): value for name, value in names.items()}
        printed = tuple(Eq(d.left, d.value, evaluate=False) for d in definitions)
        statement: Statement = NotRead(f"{place} is run with --code only")
        if run_code:
            statement = _IsCode(place, _module(folder, place), equations, values, field, printed)
        words = f"{', '.join(labels)} is the code of {place}, for all weights, inputs and states."
        yield Entry(paper.name, f"code, {', '.join(labels)}", words, (statement,), recorded=UNDECIDED)


def _module(folder: Path, place: str) -> nn.Module:
    """Make the module that a file beside the paper defines."""
    file, _, name = place.rpartition(":")
    if Path(file).name != file or not file.endswith(".py"):
        raise UsageError(f"code: {place!r} is not of the form FILE.py:NAME, with FILE.py beside the paper.")
    found = vars(imported(str(folder / file)))
    if name not in found:
        raise UsageError(f"code: {file} has no {nearest(name, [n for n in found if not n.startswith('_')])}")
    module = found[name] if isinstance(found[name], nn.Module) else called(place, found[name], **_one_unit(found[name]))
    if not isinstance(module, nn.Module):
        raise UsageError(f"code: {place} is no torch.nn.Module, nor makes one by `input_size` and `hidden_size` at most.")
    return module


def _one_unit(maker: Any) -> dict[str, int]:
    """Return sizes of 1 where a class wants them: equations are those of one unit."""
    return {name: 1 for name in required(maker) if name in SIZES}
