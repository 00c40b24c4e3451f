"""Certificates are checked again from data alone, and one that is tampered with is refused."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from sympy import Abs, Function, Integral, exp, log, oo, sqrt, symbols, tanh

import derivations.rules.replay
from derivations.prover.inequalities import Less
from derivations.prover.limits import Expands, Tends
from derivations.prover.statements import Equal, Fails, Rounds
from derivations.rules.quotients import NotShown
from derivations.rules.replay import as_data, from_data, replay

x, y = symbols("x y", real=True)
g, a, r = symbols("g a r", positive=True)
h = Function("h", real=True)
STATEMENTS = {
    "a gate": Equal(1 / (1 + exp(-x)), (1 + tanh(x / 2)) / 2),
    "cases of sign": Equal(Abs(x) ** r * x, Abs(x) ** (r + 1) * (x / Abs(x))),
    "roots": Equal(sqrt(8 * g), 2 * sqrt(2) * sqrt(g)),
    "logarithms": Equal(log(1 + exp(x)) - log(1 + exp(-x)), x),
    "an integral": Equal(Integral(x * exp(-x), (x, 0, 1)), 1 - 2 / exp(1)),
    "an integral to infinity": Equal(Integral(exp(-g * x), (x, 0, oo)), 1 / g),
    "another place": Equal(h(x), h(2 * x)),
    "a number off": Equal((x + y) ** 2, x**2 + y**2),
    "rising": Less(g - 1 + exp(-g), g**2 / 2, True),
    "on a region": Less(1 - g, 0, True, region={g: (1, oo)}),
    "not less": Less(tanh(x), 0),
    "a limit": Tends((1 - a / g) ** g, g, oo, exp(-a)),
    "a slow limit": Tends(g * log(g), g, 0, 0),
    "a series": Expands(log(1 + x), x, x - x**2 / 2, 3),
    "a decimal": Rounds(log(49), "3.89"),
    "refuted": Fails(Equal(x, -x)),
}
STEPS = [(name, json.loads(json.dumps(as_data(step)))) for name, s in STATEMENTS.items() for step in s.decide().certificate]


def numbers_in(data, path=()):
    """The places of integers."""
    if isinstance(data, dict):
        for key, part in data.items():
            yield from numbers_in(part, (*path, key))
    elif isinstance(data, list):
        for k, part in enumerate(data[:2] if data[:2] == ["q", 0] else data):  # 0/2 is 0/1
            yield from numbers_in(part, (*path, k))
    elif isinstance(data, int) and not isinstance(data, bool):
        yield path


def changed(data, path, by):
    copy = json.loads(json.dumps(data))
    inner = copy
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] += by
    return copy


def test_every_statement_has_a_certificate_that_is_accepted_from_data_alone():
    assert {name for name, _ in STEPS} == set(STATEMENTS)
    for name, step in STEPS:
        replay(from_data(step))
        assert as_data(from_data(step)) == step, name


CLAIMED = ("lhs", "rhs", "lower", "upper", "term", "value", "values", "printed", "low", "high")


def test_a_changed_number_in_the_claim_is_refused_or_another_truth(subtests):
    for name, step in STEPS:
        with subtests.test(name):
            tried = refused = 0
            for path in numbers_in(step):
                if path[0] not in CLAIMED:
                    continue
                tried += 1
                try:
                    replay(from_data(changed(step, path, 1)))
                except (NotShown, ValueError, ArithmeticError, KeyError, IndexError, TypeError):
                    refused += 1
            # An inequality, a refutation or a rounding may well survive one change; an equality, limit or series does not, but
            # for what a piece is where the claim says nothing.
            if step["rule"] in ("equal", "limit", "series") and tried:
                assert refused == tried or ("piece" in json.dumps(step) and refused >= tried - 2), name


def test_a_proof_for_other_letters_is_refused():
    (step,) = [step for name, step in STEPS if name == "on a region"]
    step = json.loads(json.dumps(step))
    step["region"] = []
    with pytest.raises(NotShown):
        replay(from_data(step))


def test_a_rule_that_is_none_is_refused():
    with pytest.raises(NotShown, match="no rule 'faith'"):
        replay({"rule": "faith"})


def test_checking_loads_neither_sympy_nor_torch_nor_any_other_room():
    code = "import derivations.rules.conclusions, sys; print(*(m for m in sys.modules if m[:5] in ('sympy', 'torch', 'deriv')))"
    loaded = set(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split())
    assert not [m for m in loaded if m.split(".")[0] in ("sympy", "torch")]
    assert {m.split(".")[1] for m in loaded if "." in m} == {"rules"}
    assert "derivations.rules.reading" not in loaded


def _defined(node):
    names = [node.name] if isinstance(node, ast.FunctionDef | ast.ClassDef) else []
    return [*names, *(n.id for t in getattr(node, "targets", [getattr(node, "target", None)]) if t for n in ast.walk(t)
                      if isinstance(n, ast.Name))]  # fmt: skip


def test_no_check_uses_what_finds_proofs():
    files = {file.stem: file.read_text() for file in Path(derivations.rules.replay.__file__).parent.glob("*.py")}
    finding, checking = {}, {}
    for name, text in files.items():
        start = (
            text.splitlines().index("# Finding") if "\n# Finding\n" in text else 0 if name in ("generators", "reading") else 10**6
        )
        body = [node for node in ast.parse(text).body if not isinstance(node, ast.Import | ast.ImportFrom)]
        finding[name] = {n for node in body if node.lineno > start for n in _defined(node)}
        checking[name] = [node for node in body if node.lineno < start]
    assert {name for name, names in finding.items() if names} == {
        "generators",
        "reading",
        "limits",
        "numbers",
        "equality",
        "inequalities",
    }
    for name, nodes in checking.items():
        imports = [
            n for n in ast.walk(ast.parse(files[name])) if isinstance(n, ast.ImportFrom) and n.module.startswith("derivations")
        ]
        finders = finding[name] | {a.name for i in imports for a in i.names if a.name in finding.get(i.module.split(".")[-1], ())}
        used = {n.id for node in nodes for n in ast.walk(node) if isinstance(n, ast.Name)}
        assert not used & finders, f"{name}.py checks with what finds: {used & finders}"
