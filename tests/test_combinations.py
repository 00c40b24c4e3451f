"""What goes with what: every kind of field under every run, and the table, the page and the code that say so."""

import ast
import itertools
import re
from collections import Counter
from typing import get_args

import combinations
import pytest
from code_imports import FILES, ROOT, tree
from combinations import FIELDS, RUNS
from torch.testing import assert_close

from ctrnn.combinations import REFUSED, Trait, Who, check_pairs, refused_pair
from discretize import compat
from experiments.reports.combinations import KINDS, PAGE, TRAITS, filled, refusal
from experiments.reports.combinations import RUNS as ROWS

# Exporting takes half a second. The slow run adds fields whose graphs differ from an LSTM's in `flow` and the size of a state.
LIKE_AN_LSTM = {"gated", "Stack", "GLNN", "coRNN"}


def cases():
    for kind, run in itertools.product(FIELDS, RUNS):
        marks = [pytest.mark.slow] * (run == "export" and kind in LIKE_AN_LSTM)
        yield pytest.param(kind, run, id=f"{kind}-{run}", marks=marks)


@pytest.mark.parametrize(("kind", "run"), [*cases()])
def test_a_field_under_a_run_gives_right_numbers_or_is_refused_in_the_words_of_the_table(kind, run):
    if (kind, run) == ("noisy", "export") and not compat.EXPORTS_NOISE:
        pytest.skip("torch 2.12 exports noise")
    one, refused = combinations.case(kind), refusal(kind, run)
    if refused is None:
        assert_close(RUNS[run].numbers(one), RUNS[run].expected(one), rtol=0, atol=RUNS[run].off)
        return
    _, words = refused
    with pytest.raises((TypeError, ValueError)) as caught:
        RUNS[run].numbers(one)
    said = re.fullmatch(r"`.*` does not go with `.*`(: .*)", str(caught.value))
    assert said is not None
    assert said[1] == f": {words.who} refuses it, for {words.why}; take {words.take}."


def test_the_page_has_the_fields_and_runs_that_are_tried():
    assert list(KINDS) == list(FIELDS)
    assert list(ROWS) == list(RUNS)


def test_the_page_is_what_the_table_says():
    page = PAGE.read_text(encoding="utf-8")
    assert filled(page) == page, "write it anew: python -m experiments.reports.combinations"


def test_every_pair_names_known_traits_who_refuses_and_what_to_take():
    assert set(TRAITS) == set(get_args(Trait)) == {trait for pair in REFUSED for trait in pair}
    for pair, refused in REFUSED.items():
        assert refused.who in get_args(Who)
        assert pair[::-1] not in REFUSED
        for part in (refused.why, refused.take):
            assert part
            assert not part.endswith((".", " "))


def test_of_several_pairs_the_one_whose_traits_are_named_first_is_said():
    assert refused_pair({"noise": "", "smooth method": "", "backwards": ""}) == ("noise", "smooth method")
    assert refused_pair({"backwards": "", "noise": "", "smooth method": ""}) == ("noise", "backwards")
    assert refused_pair({"backwards": "", "smooth method": ""}) is None
    with pytest.raises(ValueError, match=r"^`A` does not go with `rk4`: mathematics refuses it, for .*; take a step for noise"):
        check_pairs({"smooth method": "rk4", "noise": "A"})


# Code that asks for the class or the name of a method: traits decide what goes with what, and here it is still asked, so often.
# The list gets shorter only.
ALLOWED = Counter(
    {
        # whether an argument is a method at all
        "sequences/cell.py checked_step": 2,
        "settings.py _check_gradient": 1,
        "settings.py _check_method": 3,
        "parallel/newton.py unroll_parallel": 1,
        # what a method is to the settings: their traits are read from these
        # which engine runs a method, and what it keeps
        "settings.py _engine": 6,
        "kernels/choose.py solve_by_steps": 2,
        "kernels/cpp/solves.py steps_counted": 1,
        "jumps/between.py __init__": 1,
        "jumps/between.py _choose": 2,
        "jumps/between.py _over": 1,
        "jumps/between.py _over_by_steps": 1,
        "jumps/between.py _request": 1,
        "jumps/between.py finish": 1,
        "kernels/record/tableau.py tableau_of": 1,
        "loop/delayed.py __init__": 3,
        "loop/delayed.py _by_blocks": 1,
        "loop/delayed.py _spacing": 1,
        "loop/delayed.py solve_stepped": 1,
        "loop/held.py run_held": 1,
        "loop/held.py solve_held": 1,
        "methods.py checked_method": 3,
        "solve.py to_next_stops": 1,
        "solvers/doubling.py _stepped": 1,
        "solvers/doubling.py attempt": 1,
        "solvers/doubling.py check_noise": 1,
        "loop/checking.py check_settings": 1,
        "loop/solving.py __init__": 1,
        "loop/solving.py _by_steps": 1,
        "loop/solving.py _continuation": 2,
        "loop/solving.py _new_engine": 1,
        "loop/solving.py _try_kernel": 4,
        "loop/solving.py run": 1,
        "settings.py _read_method": 5,
        # steps that read noise beside their input
        "sequences/cell.py forward": 1,
        "sequences/rnn.py _fits_a_graph": 1,
        "sequences/rnn.py _states": 1,
        "sequences/rnn.py noisy": 1,
        "sequences/unroll.py unroll": 1,
        # Euler's step alone is torch's, and has the metrics of symbols
        "sequences/conversion.py _torch_cell": 1,
        "riemannian/ascent.py __init__": 1,
        "riemannian/symbols.py _by_kernel": 1,
        # names and options of torchdiffeq
        "torchdiffeq.py __init__": 1,
        "torchdiffeq.py _check_options": 1,
        "torchdiffeq.py _is_here": 2,
        "torchdiffeq.py _states": 1,
        "torchdiffeq.py solve_backwards_by": 1,
    }
)
CLASSES = re.compile(
    r"\b(\w*Step|StepDoubling|Zoneout|\w*Euler|\w*Milstein|\w*Heun|\w*Rosenbrock|Rodas\w*|\w*RungeKutta|\w*Method|\w*Engine|Adjoint|"
    r"Checkpointed)\b"
)
METHODS = re.compile(r"(^|[._])(method|step|map)$")
CLASS_OF = re.compile(r"type\(([\w.]+[._])?(method|step|map)\)|([\w.]+[._])?(method|step|map)\.__class__")
CALLS = {"isinstance", "issubclass", "hasattr"}


def asks(node):
    """Whether a branch is taken by what class or name a method has."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in CALLS and node.args:
        if node.func.id == "hasattr":
            return METHODS.search(ast.unparse(node.args[0])) is not None
        return any(CLASSES.search(ast.unparse(other)) for other in node.args[1:])
    if isinstance(node, ast.Compare):
        sides = [node.left, *node.comparators]
        words = any(isinstance(side, ast.Constant) and isinstance(side.value, str) for side in sides)
        tables = any(isinstance(side, ast.Name) and side.id.isupper() for side in sides)
        kinds = any(isinstance(side, ast.Call | ast.Attribute) and CLASS_OF.fullmatch(ast.unparse(side)) for side in sides)
        return kinds or ((words or tables) and any(METHODS.search(ast.unparse(side)) for side in sides))
    return isinstance(node, ast.Match) and METHODS.search(ast.unparse(node.subject)) is not None


def questions(file):
    """The functions of a file that ask so, each as often as it does; assertions are none."""

    def within(node, function):
        for below in ast.iter_child_nodes(node):
            if isinstance(below, ast.Assert):
                continue
            if asks(below):
                yield function
            inside = below.name if isinstance(below, ast.FunctionDef) else function
            yield from within(below, inside)

    where = file.relative_to(ROOT / "discretize").as_posix()
    return Counter(f"{where} {function}" for function in within(tree(file), ""))


def test_the_class_or_name_of_a_method_is_asked_for_nowhere_but_in_a_few_named_places():
    found = sum((questions(file) for file in FILES if (ROOT / "discretize") in file.parents), Counter())
    assert found - ALLOWED == Counter(), "give the method a trait or an attribute, and a pair to ctrnn/combinations.py"
    assert ALLOWED - found == Counter(), "these are gone: take them off the list"


@pytest.mark.parametrize(
    ("code", "count"),
    [
        ("if isinstance(step, StochasticStep): pass", 1),
        ("x = 1 if type(self.step) is Euler else 2", 1),
        ("match settings.method:\n    case 'rk4': pass", 1),
        ("if settings.method == 'rk4' or method in ADAPTIVE_METHODS: pass", 2),
        ("kernels = known[type(step)]", 0),  # a key
        ("if hasattr(cell.step, 'advance'): pass", 1),
        ("assert isinstance(step, Euler)", 0),
        ("if step.noisy and isinstance(x, Tensor): pass", 0),
        ("if isinstance(method, str): pass", 0),
    ],
)
def test_questions_for_the_class_of_a_method_are_found(code, count):
    module = ast.parse(code)
    skipped = {id(below) for node in ast.walk(module) if isinstance(node, ast.Assert) for below in ast.walk(node)}
    assert sum(asks(node) for node in ast.walk(module) if id(node) not in skipped) == count
