r"""Show a module's code beside the mathematics that was read from it, statement by statement, for the first unit.

    rate = torch.sigmoid(self.x(x) + self.h(h))        rate_1 = 1/(1 + exp(-...))
    return (1 - rate) * h + rate * aim                 h_1' = h_1*(1 - rate_1) + rate_1*aim_1

What a statement in a loop, of several names, or called from several places computes is not shown, nor what is too long to read.
"""

from __future__ import annotations

import ast
import inspect
import linecache
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, takewhile
from types import FunctionType
from typing import Any

import numpy as np
from sympy import Eq, Expr, Symbol
from torch import nn

from derivations.prover.formulas import PrintedFormula, written
from derivations.prover.identity import DIFFERENCE
from derivations.prover.notebook import Cells, certificate_words
from derivations.prover.verdict import Verdict
from derivations.report import Excerpt, Finding, Line, Report, ReportPart
from derivations.tracing.reading import values_of
from derivations.tracing.symbolic import letters_of
from derivations.twins.fields import SymbolicField, SymbolicStep
from derivations.wording import plain
from discretize.kernels.record.recording import ModuleRecord, user_lines

__all__ = ["code_of", "report_of"]

LONGEST, MOST_LINES, MOST_UNITS = 300, 80, 4  # of a formula, of functions that are shown whole, of units that are shown
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
LOOPS = (ast.For, ast.AsyncFor, ast.While)


def report_of(
    module: nn.Module, program: ModuleRecord, system: SymbolicField | SymbolicStep, right: Sequence[Expr], verdict: Verdict
) -> Report:
    """Report a verdict beside the code that it is of; right: what the equations say of each unit."""
    asked = [Eq(left, e, evaluate=False) for left, e in zip(system.left_sides, right, strict=True)]
    point = {u: value for u, value in (verdict.counterexample or {}).items() if u != DIFFERENCE and value != 0}
    evidence, at = verdict.evidence.split("; "), [f"{plain(u)} = {plain(value)}" for u, value in point.items()]
    numbers = None if verdict.replays is None else verdict.replay()
    units = () if numbers is None else zip(numbers.units, numbers.torch, numbers.equations, strict=True)
    excerpt, known = code_of(module, program, system)
    rows: list[tuple[str, Cells]] = [
        ("the code", _first(system.equations, known)),
        ("asked", _first(asked, known) if tuple(right) != tuple(system.flow) else []),
        ("where", [" and ".join(map(plain, verdict.defined_on))] if verdict.defined_on else []),
        ("at", [", ".join([*at, "0 for the rest"]) if at else "all letters 0"] if verdict.holds is False else []),
        ("there", [f"{plain(u)}: torch {a:.10g}, asked {b:.10g}" for u, a, b in units]),
        ("because", evidence[:1] if verdict.holds is None else []),
        ("checked", certificate_words(verdict.certificate) if verdict.holds else []),
        ("for", evidence[1:]),
    ]  # fmt: skip
    finding = Finding(verdict.verdict, verdict.statement or "its code is the equations", tuple(rows))
    summary = (f"{verdict.verdict[0].upper()}{verdict.verdict[1:]}.", f"Exit status {0 if verdict else 1}.")
    return Report(type(module).__name__, summary, (ReportPart(excerpt, (finding,)),), bool(verdict))


def _first(equations: Sequence[Eq], known: Mapping[Expr, Symbol]) -> list[PrintedFormula | str]:
    """Write the equations of the first units in the names of the code's lines, and say how many more there are."""
    short = (Eq(e.lhs, e.rhs.xreplace(known), evaluate=False) for e in equations[:MOST_UNITS])
    shown: list[PrintedFormula | str] = [written(equation, known.values()) for equation in short]
    shown = [f if not isinstance(f, PrintedFormula) or len(f.words) <= LONGEST else f"{f.words[:LONGEST]} ..." for f in shown]
    return [*shown, *[f"and {len(equations) - MOST_UNITS} more units"] * (len(equations) > MOST_UNITS)]


def code_of(
    module: nn.Module, program: ModuleRecord, system: SymbolicField | SymbolicStep
) -> tuple[Excerpt | None, Mapping[Expr, Symbol]]:
    """Return the lines of the module's class that compute, each with its mathematics, None where they are not to be had; and the
    values that have names in them."""
    file = _file(type(module))
    text = linecache.getlines(file)
    try:
        tree = ast.parse("".join(text))
    except (SyntaxError, ValueError):
        return None, {}
    read = [n for n in program.graph.nodes if n.op == "call_function"]
    lines = {n.name: [line for name, line in user_lines(n) if name == file] for n in read}
    functions = _functions(tree, {line for numbers in lines.values() for line in numbers})
    if not text or not functions:
        return None, {}
    arrays, inputs = letters_of(program, module, isinstance(system, SymbolicField))
    values = values_of(program, {**arrays, **inputs})
    computed, known = [(lines[n.name], values[n.name]) for n in read if lines[n.name]], dict[Expr, Symbol]()
    formulas = dict(_mathematics(functions, computed, system, known))
    shown = [n for f in functions for n in range(f.lineno, (f.end_lineno or f.lineno) + 1)]
    if len(shown) > MOST_LINES:
        shown = sorted({line for numbers in lines.values() for line in numbers})
    excerpt = Excerpt(
        f"{file.rpartition('/')[2]}, line{'s' * (len(shown) > 1)} {shown[0]}{f' to {shown[-1]}' if len(shown) > 1 else ''}",
        tuple(Line(n, text[n - 1].rstrip(), formulas.get(n, ())) for n in shown),
    )
    return excerpt, known


def _file(cls: type) -> str:
    """Return the file of the first class with functions of its own."""
    functions = (inspect.unwrap(f) for c in cls.__mro__ for f in vars(c).values() if isinstance(f, FunctionType))
    return next((f.__code__.co_filename for f in functions if isinstance(f, FunctionType)), "")


def _functions(tree: ast.Module, lines: set[int]) -> list[Any]:
    """Find the innermost functions that hold these lines, in the order of the file."""
    functions = [n for n in ast.walk(tree) if isinstance(n, FUNCTIONS)]
    inner = (max((f for f in functions if _holds(f, line)), key=lambda f: f.lineno, default=None) for line in lines)
    return sorted({f for f in inner if f is not None}, key=lambda f: f.lineno)


def _holds(node: Any, line: int) -> bool:
    return node.lineno <= line <= (node.end_lineno or node.lineno)


def _mathematics(
    functions: Sequence[Any],
    computed: Sequence[tuple[list[int], Any]],
    system: SymbolicField | SymbolicStep,
    known: dict[Expr, Symbol],
) -> Iterator[tuple[int, tuple[PrintedFormula, ...]]]:
    """Yield the last line of each statement that is known, with what it computes, in the names of statements before it, which
    are added to those that are known."""
    taken = {
        str(getattr(u, "name", getattr(u, "func", u)))
        for u in (*system.state, *system.inputs, *chain(*system.parameters.values()))
    }
    statements = [s for f in functions for s in _statements(f)]
    times_set = Counter(name.id for f in functions for name in ast.walk(f) if isinstance(name, ast.Name) and _is_set(name))
    for statement, value in _values(statements, computed):
        target = _target(statement)
        if not isinstance(value, np.ndarray) or value.size == 0:
            continue
        entries = [v.expr for v in value.reshape(-1)]
        letters = [Symbol(target if value.ndim == 0 else f"{target}_{k}", real=True) for k in range(1, len(entries) + 1)]
        left: Any = system.left_sides[0] if target == "return" else letters[0]
        if entries[0] != system.flow[0] if target == "return" else {letter.name for letter in letters} & taken:
            continue
        formula = written(Eq(left, entries[0].xreplace(known), evaluate=False), {*known.values(), *letters})
        if target != "return" and times_set[target] == 1:  # of several values, which one a name would stand for does not show
            known.update({e: letter for e, letter in zip(entries, letters, strict=True) if not e.is_Atom and e not in known})
        if len(formula.words) <= LONGEST:
            yield statement.end_lineno or statement.lineno, (formula,)


def _statements(function: Any) -> Iterator[Any]:
    """Yield the statements of a function that give one name a value, or return one, but for those in loops."""
    inside = list(function.body)
    while inside:
        node = inside.pop(0)
        if isinstance(node, LOOPS + FUNCTIONS + (ast.ClassDef,)):
            continue
        if _target(node):
            yield node
        inside = [*(n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)), *inside]


def _is_set(name: ast.Name) -> bool:
    return isinstance(name.ctx, ast.Store)


def _target(node: Any) -> str:
    """Return the name that a statement gives a value, "return" if it returns one, or nothing."""
    match node:
        case ast.Return():
            return "return" if node.value is not None else ""
        case ast.Assign(targets=[target]) | ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return target.id if isinstance(target, ast.Name) else ""
    return ""


def _values(statements: Sequence[Any], computed: Sequence[tuple[list[int], Any]]) -> Iterator[tuple[Any, Any]]:
    """Yield statements with the last value that each computes, as they end; none that is run several times."""
    runs = list[tuple[Any, int, Any]]()
    for statement in statements:
        at = [k for k, (lines, _) in enumerate(computed) if any(_holds(statement, line) for line in lines)]
        callers = {tuple(takewhile(lambda line: not _holds(statement, line), computed[k][0])) for k in at}  # noqa: B023 - used at once
        if len(callers) == 1 and at == list(range(at[0], at[-1] + 1)):
            runs.append((statement, at[-1], computed[at[-1]][1]))
    for statement, _, value in sorted(runs, key=lambda run: (run[1], -run[0].lineno)):
        yield statement, value
