r"""Judges the equations of a paper of yours, and shows them as the ledger is shown."""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import chain
from pathlib import Path
from typing import Any

from sympy import Basic, Derivative, Eq, Expr, ImmutableDenseMatrix, Symbol
from sympy.core.function import AppliedUndef
from torch import nn

from ctrnn.storage.files import read_file
from derivations.claim import Entry, Equal
from derivations.papers.equations import About, NotRead, Paper
from derivations.papers.meaning import Meaning
from derivations.papers.names import name_of
from derivations.papers.paper import read_paper
from derivations.papers.report import decided_within, is_proved, report
from derivations.papers.tokens import Token, Unread
from derivations.prover.statements import Statement
from derivations.prover.verdict import UNDECIDED, Verdict
from derivations.report import ReportPart
from derivations.tracing.equations import match
from derivations.tracing.proof import verify
from derivations.tracing.reading import UnknownOperation
from derivations.tracing.symbolic import SECONDS, symbolic
from derivations.wording import plain
from experiments.code_files import SIZES, called, imported, no_exit, required
from experiments.derive.run import as_json, show, watched, write_report
from experiments.files import check_output
from experiments.usage import UsageError, nearest, typed

__all__ = ["SUFFIXES", "differences", "run"]

SUFFIXES = (".md", ".tex")
MOST = 1 << 21  # bytes
NOWHERE = Token("", "", 1, 1)
UNKNOWN = (UnknownOperation, TimeoutError, ValueError, TypeError, RuntimeError)  # raised for code that cannot be read


def run(file: Path, form: str, out: Path | None, *, run_code: bool = False, seconds: float = SECONDS) -> bool:
    r"""Show every claim of the paper with its verdict, beside its line; return whether there are some, and all are proved.

    Args:    file, form, out; run_code: whether the files beside the paper are run that its `code` lines name; seconds: after
             which a claim is undecided.
    Raises:  UsageError for a file that cannot be read, and front matter that says nothing.
    """
    if not seconds > 0:
        raise UsageError(f"--seconds must be above 0, got {seconds:g}.")
    if out is not None and out.resolve() == file.resolve():
        raise UsageError(f"--out {out} is the paper itself; name another file.")
    paper, more = _read(file)
    entries = [*paper.entries, *_code(paper, file.resolve().parent, run_code)]
    found = (decided_within(entry, seconds) for entry in entries)
    if form in ("json", "latex"):
        return is_proved(show(found, form, out, [*_notes(paper)], more))
    if out is not None:
        check_output(out)
    claims = [*watched(found)]
    beside = {e.label: s.parts for e in entries for s in e.statements if isinstance(s, _IsCode) and s.parts}
    made = report(paper, claims, file.name, beside)
    write_report(made, form, out, typed("prove", str(file), *["--code"] * run_code, out=out))
    return made.proved


def differences(file: Path, claims: Sequence[Mapping[str, Any]], seconds: float = SECONDS) -> Iterator[str]:
    """Read a paper and decide it again; say what a ledger has otherwise, but for the time that it took."""
    paper, more = _read(file)
    again = {entry.label: entry for entry in (*paper.entries, *_code(paper, file.resolve().parent, False))}
    if [claim["label"] for claim in claims] != [*again]:
        yield f"the claims of {file} are {', '.join(again)}, in this order"
    for claim in claims:
        label = claim["label"]
        if label in again:
            wanted = _comparable({**as_json(decided_within(again[label], seconds)), **more})
            if other := sorted(key for key in {*wanted, *claim} if _comparable(claim).get(key) != wanted.get(key)):
                by_code = "; no code is run by a check: run `ctrnn prove --code` again" * label.startswith("code, ")
                yield f"{label}: {', '.join(other)} {'is' if len(other) == 1 else 'are'} otherwise in {file}{by_code}"


def _comparable(claim: Mapping[str, Any]) -> dict[str, str]:
    """Write each part of a claim as text, without the time that it took and numbers that SymPy gives to letters."""
    return {key: re.sub(r"_?Dummy_\d+", "_", json.dumps(part)) for key, part in claim.items() if key != "seconds"}


def _read(file: Path) -> tuple[Paper, dict[str, str]]:
    """Read a paper; return it with the digest of its file. Raises: UsageError."""
    try:
        data = read_file(file.resolve(), MOST)
        return read_paper(data.decode("utf-8-sig"), file.stem, file.suffix == ".tex"), {"paper": sha256(data).hexdigest()}
    except OSError as error:
        raise UsageError(f"{file}: cannot be read ({error.strerror or error}).") from None
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text.") from None
    except Unread as error:
        raise UsageError(f"{file}, {error}.") from None


def _notes(paper: Paper) -> Iterator[str]:
    """Say what was defined or supposed, and how much says nothing."""
    for definition in paper.said:
        word = "supposed" if definition.supposed else "by definition"
        yield f"{definition.label}: {plain(definition.left)} = {plain(definition.value)} ({word}, nothing proved)."
    if paper.skipped:
        yield f"{paper.skipped} displays without an equation were skipped."


@dataclass(frozen=True)
class _IsCode:
    """The code of a torch module is the equations, for all weights, inputs and states, of each of its units.

    Args:    place, module, widths: that its arguments have; equations: right sides by letters of the first unit; letters: those
             of the paper by names of the code; field; printed.
    """

    place: str
    module: nn.Module
    widths: Mapping[str, int] | None
    equations: Mapping[str, Expr]
    letters: Mapping[Expr, str]
    field: bool
    printed: tuple[Basic, ...]
    kind = "code"

    @property
    def parts(self) -> tuple[ReportPart, ...]:
        """Return the lines of the code, with the mathematics read from them; none where it is not read."""
        found = self._verdict.reports
        return tuple(ReportPart(p.excerpt, ()) for p in found(self._verdict).parts if p.excerpt) if found is not None else ()

    def formulas(self) -> tuple[Basic, ...]:
        return self.printed

    def says(self) -> dict[str, Any] | None:
        return self._sides.says() if self.decide().holds is not None else None

    @cached_property
    def _system(self) -> Any:
        return symbolic(self.module, widths=self.widths, field=self.field)

    def _right(self, *, all_units: bool) -> dict[Any, Any]:
        """Write the paper's right sides for every unit, or for the first, beside the code's own for the others."""
        system = self._system
        names = {_name(u): u for e in (*system.state, *system.inputs, *chain(*system.parameters.values())) for u in _letters(e)}
        states, inputs, found = list(map(_name, system.state)), set(map(_name, system.inputs)), dict[Any, Any]()
        shared = inputs if len(inputs) != len(states) else set[str]()  # all units have one and the same first input
        if missing := sorted({*self.letters.values()} - names.keys()):
            raise ValueError(f"the code has no letter {missing[0]}, but {', '.join(sorted(names))}")
        for k in range(1, len(states) + 1 if all_units else 2):
            of_unit = {u: _of_unit(name, k) if name not in shared else name for u, name in self.letters.items()}
            known = {u: names[new if new in names else self.letters[u]] for u, new in of_unit.items()}
            own = {_of_unit(unit, k): right.xreplace(known) for unit, right in self.equations.items()}
            found |= {names[unit]: right for unit, right in own.items() if unit in states}
        return {**({} if all_units else dict(zip(system.state, system.flow, strict=True))), **found}

    @cached_property
    def _sides(self) -> Equal:
        """The code's right sides and those that are written, in the letters of the code."""
        matched = match(self._right(all_units=True), self._system, {})
        return Equal(self._system.flow, ImmutableDenseMatrix([value.expr for value in matched.right]))

    def decide(self) -> Verdict:
        return self._verdict

    @cached_property
    def _verdict(self) -> Verdict:
        try:
            with no_exit(self.place):
                return self._found()
        except UNKNOWN as error:
            return Verdict(UNDECIDED, 0.0, str(error))

    def _found(self) -> Verdict:
        system, said = self._system, {*self.letters.values(), *self.equations}
        flow = [right for state, right in zip(system.state, system.flow, strict=True) if _name(state) in self.equations]
        read = {_name(u) for u in (*system.state, *system.inputs) if any(right.has(u) for right in flow)}
        if others := sorted(read - said):
            return Verdict(
                UNDECIDED, 0.0, f"the code of this unit reads {', '.join(others)}, of which the equation does not speak"
            )
        found = verify(self.module, self._right(all_units=True), {}, widths=self.widths, field=self.field, seconds=None)
        if found.holds is False and len(system.state) > len(self.equations):
            first = verify(self.module, self._right(all_units=False), {}, widths=self.widths, field=self.field, seconds=None)
            if first.holds is not False:
                return Verdict(
                    UNDECIDED, found.seconds, f"one unit is the equation, and others are not seen to be: {found.evidence}"
                )
            found = first
        certain = self._sides.decide()
        if found.holds is not certain.holds:
            return replace(found, verdict=UNDECIDED, evidence=f"{found.evidence}; the checker finds: {certain.evidence}")
        return replace(found, certificate=certain.certificate, counterexample=certain.counterexample)


def _name(e: Any) -> str:
    return str(e.func.__name__) if isinstance(e, AppliedUndef) else str(getattr(e, "name", e))


def _letters(e: Any) -> Iterator[Any]:
    yield from [e] if isinstance(e, Symbol | AppliedUndef) else e.free_symbols


def _of_unit(name: str, k: int) -> str:
    """Return the name that a letter of the first unit has of another: h_2 of h_1, w[1,0] of w[0,0]."""
    return re.sub(r"_1$", f"_{k}", re.sub(r"\[0(?=[\],])", f"[{k - 1}", name))


def _code(paper: Paper, folder: Path, run_code: bool) -> Iterator[Entry]:
    """Compare equations with the code that the front matter names."""
    said = {definition.label: definition for definition in paper.said}
    for labels, place, pairs in paper.front.code:
        if missing := [label for label in labels if label not in said]:
            raise UsageError(f"code: {missing[0]!r} is no label of a definition, or of dh/dt = F.")
        names = {name_of(name, NOWHERE): value for name, value in pairs.items()}
        if missing := [name for name in names if name not in paper.known.letters]:
            raise UsageError(f"code: {missing[0]!r} is no letter of the paper.")
        meaning, equations = Meaning(paper.known), dict[str, Expr]()
        definitions = [said[label] for label in labels]
        field = isinstance(definitions[0].left, Derivative)
        for definition in definitions:
            equations[names.get(definition.name, definition.name)] = meaning.of(definition.value)
        values = {meaning.value(name): value for name, value in names.items()}
        printed = tuple(Eq(d.left, d.value, evaluate=False) for d in definitions)
        statement: Statement = NotRead(f"{place} is run with --code only", add="--code, at the prompt")
        at, sizes = "", ""
        if doubtful := paper.doubted({*meaning.letters, *(d.name for d in definitions)}):
            letter, at_line = doubtful
            reason = f"line {at_line.line}, column {at_line.column}: this is not read, and may say something of {letter}"
            statement = NotRead(reason, cause=at_line)
        elif run_code:
            module, widths, units = _module(folder, place, field)
            statement = _IsCode(place, module, widths, equations, values, field, printed)
            at = f" with {units[0]} inputs and {units[1]} units" if units else ""
            sizes = "" if units else "its own sizes"
        words = f"{', '.join(labels)} is the code of {place}{at}, for all weights, inputs and states."
        label, equation = f"code, {', '.join(labels)}", next(e for e, d in paper.stated if d is definitions[0])
        unread = statement if isinstance(statement, NotRead) else None
        paper.about[label] = About(
            equation,
            f"it is the code of {place}{at}, for all weights, inputs and states",
            sides=("the code", "as printed"),
            unread=unread,
        )
        yield Entry(paper.name, label, words, (statement,), recorded=UNDECIDED, sizes=sizes)


def _module(folder: Path, place: str, field: bool) -> tuple[nn.Module, dict[str, int] | None, tuple[int, int] | None]:
    """Make the module that a file beside the paper defines, of several inputs and units where it can be; return these, too."""
    file, _, name = place.rpartition(":")
    if Path(file).name != file or not file.endswith(".py"):
        raise UsageError(f"code: {place!r} is not of the form FILE.py:NAME, with FILE.py beside the paper.")
    found = vars(imported(str(folder / file)))
    if name not in found:
        raise UsageError(f"code: {file} has no {nearest(name, [n for n in found if not n.startswith('_')])}")
    maker = found[name]
    wants = not isinstance(maker, nn.Module) and [size for size in required(maker) if size in SIZES]
    for inputs, units in ((2, 3), (3, 3)):
        sizes = dict(zip(SIZES, (inputs, units), strict=True))
        module = maker if isinstance(maker, nn.Module) else called(place, maker, **{size: sizes[size] for size in wants or ()})
        if not isinstance(module, nn.Module):
            raise UsageError(f"code: {place} is no torch.nn.Module, nor makes one by `input_size` and `hidden_size` at most.")
        arguments = list(inspect.signature(module.forward).parameters)[:2]
        widths = None if wants else dict(zip(arguments, (inputs, units), strict=False))
        try:
            with no_exit(place):
                system = symbolic(module, widths=widths, field=field)
            return module, widths, (len(system.inputs), units)
        except UNKNOWN:
            continue
    return module, None, None
