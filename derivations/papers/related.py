r"""Makes claims of what the front matter says of equations, by their labels: by these, and by no others of their letters.

(4) is (3) at a t      (4) is (3) with a t in place of t, and h(a t), x(a t) called h and x
(5) is a step of (4)   h_{t+1} = h_t + F, of dh/dt = F in (4), with h_t for h(t)
(9) is by (2), (3)     (9) follows from the definitions (2) and (3)
(20) solves (19)       (20) is a path that satisfies (19), and starts as another one says, perhaps at times from t_0 on
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from sympy import Add, Derivative, Eq, Expr, Mul, Subs, Symbol, evaluate
from sympy.core.function import AppliedUndef

from derivations.claim import Equal, Less, Solves
from derivations.papers.equations import Paper, PaperEquation
from derivations.papers.grammar import read_value
from derivations.papers.letters import Letter, Related
from derivations.papers.meaning import Definition, Known, Meaning, put
from derivations.papers.tokens import RELATIONS, tokens
from derivations.prover.statements import Statement
from derivations.wording import plain

__all__ = ["relate"]

PRINTED = "as printed"


def relate(paper: Paper, equation: PaperEquation, judge: Any) -> bool:
    """Claim what is said of an equation; return whether it stands by itself, and is neither defined nor supposed for others."""
    labels = {equation.label, *equation.labels.values()}
    own = not labels.isdisjoint(paper.named)
    for related in paper.front.related:
        if related.first[0] in labels:
            {"solves": _solves, "step": _step, "warp": _warp, "by": _by}[related.kind](paper, equation, judge, related)
            own = True
        elif related.kind == "solves" and not labels.isdisjoint(related.others):
            said = _said(equation)
            if said.name in paper.known.rates and isinstance(said.left, Derivative):  # another equation of it
                own = True
    if own and not any(related.first[0] in labels for related in paper.front.related):
        judge.compare_units(equation.chain)
        paper.says(equation, _said(equation))
    elif own:
        judge.compare_units(equation.chain)
    return own


def _said(equation: PaperEquation) -> Definition:
    """Return what an equation defines or supposes. Raises: ValueError if it does neither."""
    chain = equation.chain
    if chain is None or not chain.relations or RELATIONS[chain.relations[0].text] not in ("=", ":="):
        raise ValueError(f"{equation.label} is named on top of the paper, and is no equation that is read")
    said = equation.definition()
    value = said.left.expr if isinstance(said.left, Derivative) else said.left
    if not isinstance(value, Symbol | AppliedUndef):
        raise ValueError(f"{equation.label} is named on top of the paper, and has no letter and no derivative alone on the left")
    return replace(said, supposed=chain.defines is None)


def _named(paper: Paper, labels: Sequence[str], related: Related) -> list[Definition]:
    definitions = list[Definition]()
    for label in labels:
        equation = paper.labelled(label, related.line)
        if equation.unread is not None or equation.chain is None or equation.chain.objection:
            raise ValueError(f"{label} is not read")
        definitions.append(_said(equation))
    return definitions


def _with(known: Known, definitions: Sequence[Definition], *without: str) -> Known:
    """Keep definitions in place of what is known of their letters, and letters that only these give."""
    own = known.copy()
    for name in without:
        own.definitions.pop(name, None)
        own.rates.pop(name, None)
    for definition in definitions:
        arguments = tuple(str(a) for a in (definition.left.args if isinstance(definition.left, AppliedUndef) else ()))
        if definition.name not in own.letters:
            own.letters[definition.name] = Letter(definition.name, arguments=arguments, in_full=bool(arguments))
        own.keep(definition)
    return own


def _by(paper: Paper, equation: PaperEquation, judge: Any, related: Related) -> None:
    definitions = _named(paper, related.others, related)
    if len({(d.name, type(d.left)) for d in definitions}) < len(definitions):
        raise ValueError(f"{' and '.join(related.others)} give one letter twice")
    assert equation.chain is not None
    for n in range(len(equation.chain.relations)):
        known = _with(paper.known, definitions)
        judge.claim(equation.chain, n, Meaning(known), own=True)


def _flow(said: Definition) -> tuple[AppliedUndef, Symbol]:
    """Return h(t) and t of dh/dt = F. Raises: ValueError for another equation."""
    left = said.left
    if not isinstance(left, Derivative) or left.derivative_count != 1 or left.expr.args != left.variables:
        raise ValueError(f"{said.label} is no equation dh/dt = F of a function of one letter")
    return left.expr, left.variables[0]


def _warp(paper: Paper, equation: PaperEquation, judge: Any, related: Related) -> None:
    """Claim that an equation is another one at other times: F(h(c), x(c)) c' is what it says, of h(c) and x(c)."""
    (flow,), warped = _named(paper, related.others, related), _said(equation)
    (value, t), (own_value, own_t) = _flow(flow), _flow(warped)
    if own_value != value or own_t != t:
        raise ValueError(f"{warped.label} is an equation of {own_value}, and {flow.label} of {value}")
    place = read_value(tokens(related.place, related.line), paper.front.letters, paper.front.functions)
    moved = {f.func for f in flow.value.atoms(AppliedUndef) if _arguments(paper, f) == (t.name,)} | {value.func}
    if any(f.func in moved for f in place.atoms(AppliedUndef)):
        raise ValueError(f"{related.place} holds what is warped itself")
    with evaluate(False):
        inner = {f: f.func(*(put(place, {t: a}) for a in f.args)) for f in warped.value.atoms(AppliedUndef) if f.func in moved}
        if any(g.func in moved for f in inner for a in f.args for g in a.atoms(AppliedUndef)):
            raise ValueError(f"{warped.label} holds functions at places that depend on functions")
        left = Mul(Derivative(place, t), put(flow.value, {t: place}))
        right = warped.value.xreplace(inner)
    names = sorted(str(f.__name__) for f in moved)
    words = f"is {flow.label} with {plain(place)} in place of {t}"
    meaning = Meaning(_with(paper.known, ()), names)
    meaning.check_place(flow, t, meaning.of(place))
    _claim(paper, equation, judge, words, (flow, warped), Equal, (left, right), meaning, (f"by {flow.label}", PRINTED))


def _arguments(paper: Paper, f: AppliedUndef) -> tuple[str, ...]:
    """Return the letters that a function is declared as one of."""
    letter = paper.front.letters.get(str(f.func.__name__))
    return letter.arguments if letter is not None else ()


def _step(paper: Paper, equation: PaperEquation, judge: Any, related: Related) -> None:
    """Claim that a recurrence is Euler's step of length 1 of an equation."""
    (flow,), (step, *definitions) = _named(paper, related.others, related), _named(paper, related.first, related)
    value, t = _flow(flow)
    name, index = _indexed(step.left)
    if name != str(value.func.__name__):
        raise ValueError(f"{step.label} gives {step.left}, and {flow.label} is an equation of {value}")
    letters = {u for d in (step, *definitions) for u in d.value.atoms(Symbol)} - {d.left for d in definitions}
    before = index.removesuffix("+1") if index.endswith("+1") else f"{index}-1"
    if not index.endswith("+1") and f"{name}_{{{before}}}" not in {u.name for u in letters}:
        raise ValueError(f"{step.left} is no next state: its right side does not hold {name}_{{{before}}}, the state before")
    states = dict[Expr, Expr]()
    for u in letters:
        function, at = _indexed(u)
        letter = paper.front.letters.get(function)
        if letter is None or letter.arguments != (t.name,) or not at:
            continue
        if at not in (before, index) or (function == name and at != before):
            raise ValueError(f"{step.label} holds {u}, and is a step from {name}_{before} to {step.left}")
        if letter.symbol(t) in states.values():
            raise ValueError(f"{step.label} holds {function} at two times")
        states[u] = letter.symbol(t)
    with evaluate(False):
        moved = [replace(d, value=d.value.xreplace(states)) for d in definitions]
        left, right = step.value.xreplace(states), Add(value, flow.value)
    names = sorted({name, *(str(f.func.__name__) for f in states.values())})
    known = _with(paper.known, moved, *(u.name for u in (step.left, *states)))
    words, of_sides = f"is a step of {flow.label}", (PRINTED, f"by {flow.label}")
    meaning = Meaning(known, names)
    _claim(paper, equation, judge, words, (step, *definitions, flow), Equal, (left, right), meaning, of_sides)


def _indexed(e: Expr) -> tuple[str, str]:
    """Split h_{t+1} into h and t+1."""
    name = e.name if isinstance(e, Symbol) else ""
    match = re.fullmatch(r"([^_^]+)_\{?([^_^{}]+?)\}?", name)
    return (match[1], match[2]) if match else (name, "")


def _claim(
    paper: Paper, equation: PaperEquation, judge: Any, words: str, said: Sequence[Definition], kind: Any, sides: Sequence[Expr],
    meaning: Meaning, of_sides: tuple[str, str],
) -> None:  # fmt: skip
    assert equation.chain is not None
    if len(equation.chain.relations) > 1:
        raise ValueError(f"{equation.label} has several relations, and is named on top of the paper")
    statement = kind(*map(meaning.of, sides))
    formulas = [Eq(d.left, d.value, evaluate=False) for d in (*said, *meaning.defined.values(), *meaning.supposed.values())]
    sizes = next((d.sizes for d in said if d.sizes), "")
    whole, about = f"{equation.chain.text} {words}", f"it {words}"
    judge.claim_of(equation.label, whole, formulas, [statement], meaning, own=True, sizes=sizes, about=about, of_sides=of_sides)


def _solves(paper: Paper, equation: PaperEquation, judge: Any, related: Related) -> None:
    known, labels = paper.known, related.others
    if not isinstance(equation.chain.sides[0], AppliedUndef):  # type: ignore[union-attr]
        raise ValueError("what solves an equation is a function alone on the left, h(t) = ...")
    path = _said(equation)
    name, given = path.name, list[Definition]()
    paper.mentioned |= judge.behind(path.value)
    for label in labels:
        other = paper.labelled(label, related.line)
        if paper.equations.index(other) > paper.equations.index(equation):
            raise ValueError(f"there is no equation of a derivative, and no start, with the label {label} before this one")
        given += _named(paper, [label], related)
    equations = [d for d in given if isinstance(d.left, Derivative)]
    starts = [d for d in given if not isinstance(d.left, Derivative)]
    values = [*(d.left.expr for d in equations), *(d.left for d in starts)]
    if (
        not equations
        or len(starts) > 1
        or any(not isinstance(v, AppliedUndef) or str(v.func.__name__) != name for v in values)
        or path.left.args != equations[0].left.expr.args
    ):
        raise ValueError(f"{path.label} solves equations of {name}, and starts once")
    (time,) = path.left.args
    supposed = known.rates.get(name)
    of_all = not related.place and (supposed is None or supposed.label in labels)
    own = _with(known, (), name)
    own.starts = {left: start for left, start in known.starts.items() if start.name != name}
    meaning = Meaning(own, (name, time.name))
    value, initial, of_itself = path.value, None, False
    if starts:
        initial = (meaning.of(starts[0].left.args[0]), {path.left: meaning.of(starts[0].value)})
    # The value that the path has somewhere is a letter, which it must have there: h(t_0) in h(t).
    for there in {f for f in value.atoms(AppliedUndef) if f.func == path.left.func}:
        if initial is not None or there.has(time):
            raise ValueError(f"{name} is given by itself")
        letter, of_itself = Symbol(str(there), **known.letters[name].assumptions), True
        own.letters[letter.name] = Letter(letter.name, known.letters[name].assumptions)
        value, initial = value.xreplace({there: letter}), (meaning.of(there.args[0]), {path.left: letter})
    odes = tuple(Eq(d.left, meaning.of(d.value), evaluate=False) for d in equations)
    value, place = meaning.of(value), meaning.place(time)
    if related.place:
        begin = meaning.of(read_value(tokens(related.place, related.line), paper.front.letters, paper.front.functions))
        since = Symbol(f"{time} - {begin}", positive=True)
        with evaluate(False):
            place = Add(begin, since)
        meaning.within[since] = (time, place)
    ranges = _declared(known.letters[name], Subs(value, time, place))
    statements: list[Statement] = [Solves(odes, {path.left: value}, initial, place), *ranges]
    printed = [Eq(d.left, d.value, evaluate=False) for d in (path, *equations, *starts)]
    about = f"solves {', '.join(labels)}" + (f" from {related.place} on" if related.place else "")
    words = f"{' = '.join(equation.chain.texts[:2])} {about}"  # type: ignore[union-attr]
    judge.claim_of(path.label, words, printed, statements, meaning, own=True, sizes=path.sizes, about=f"it {about}")
    if of_all and not of_itself:
        known.keep(replace(path, supposed=False, path=True))


def _declared(letter: Letter, value: Expr) -> Iterator[Less]:
    """Claim of a path what is declared of its function: that it is positive, or in an interval."""
    if letter.assumptions.keys() & {"integer", "nonzero"}:
        raise ValueError(f"{letter.words} is declared, and given by its path here; leave that out, and claim it of the path")
    if letter.ends is not None:
        left, low, high, right = letter.ends
        if low.is_finite:
            yield Less(low, value, strict=left == "(")
        if high.is_finite:
            yield Less(value, high, strict=right == ")")
