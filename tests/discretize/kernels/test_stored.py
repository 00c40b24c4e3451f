"""Programs that an earlier process has kept: taken where the code is the same, down to what it reads, and only there."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import ctrnn
from discretize import DiscreteRNN, Euler, compat
from discretize.kernels.cpp.rows import written
from discretize.kernels.price import kernels_at_once
from discretize.kernels.record import stored
from discretize.kernels.record.attributes import attributes_of
from discretize.kernels.record.program import FlowModule, StepModule, program_of
from discretize.kernels.record.recording import UnknownOperation
from discretize.kernels.record.tableau import tableau_of
from discretize.kernels.triton.attempts import attempt_text
from discretize.kernels.triton.kernels import writer
from discretize.kernels.triton.solve_writing import solve_writer
from discretize.solvers.pairs import EXPLICIT_PAIRS

ROOT = Path(__file__).resolve().parents[3]
HELPER = "def twice(x):\n    return 2 * x\n"
OWN = """
import ctrnn, torch, users_helper
from users_helper import twice

SCALE = 1.0


def closed(factor):
    return lambda x: factor * x


times = closed(3.0)


class Own(ctrnn.VectorField):
    slope = 0.5

    def __init__(self, hidden=3, rate=1.0, learned=True, dtype=torch.float32):
        super().__init__(2, hidden)
        self.rate = rate
        weight = torch.linspace(-1, 1, 2 * hidden, dtype=dtype).reshape(hidden, 2)
        self.weight = torch.nn.Parameter(weight, requires_grad=learned)

    def flow(self, x, h, by=1.0):
        return self.rate * times(torch.tanh(twice(x @ self.weight.T)) * SCALE * self.slope) - by * users_helper.twice(h)
"""
SCRIPT = """
import json, sys, torch
import ctrnn, discretize
before = set(sys.modules)
from users_own import Own
field = Own(hidden=4)
kind = discretize.ContinuousRNN if sys.argv[1] == "solve" else discretize.DiscreteRNN
rnn = kind(field, fused="always", **({"method": "rodas5p"} if sys.argv[1] == "solve" else {"dt": 0.1}))
x = torch.linspace(-1, 1, 600).reshape(100, 3, 2).requires_grad_()
output, _ = rnn(x)
output.square().sum().backward()
loaded = [name for name in sys.modules if name not in before]
numbers = [t.double().flatten().tolist() for t in (output.detach(), x.grad, field.weight.grad)]
print(json.dumps([rnn.stats["engine"], numbers, loaded]))
"""
OF_RECORDING = {"torch._dynamo", "torch.fx.experimental.symbolic_shapes", "sympy"}


@pytest.fixture
def _programs():
    """Those of the folder below, not of the run."""


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def folder(libraries, monkeypatch):
    """A cache that has libraries only, which are the same for all tests."""
    monkeypatch.setenv("CTRNN_CACHE", str(libraries))
    for file in libraries.glob("*.json"):
        file.unlink()
    return libraries


@pytest.fixture
def recordings(monkeypatch):
    """How many programs were recorded."""
    found, record = [], stored.program_of
    monkeypatch.setattr(stored, "program_of", lambda *given: found.append(given) or record(*given))
    return found


def as_in_a_new_process(monkeypatch, own=OWN, helper=HELPER):
    """The user's modules as their files are now: other classes and functions of the same names."""
    for name, text in (("users_helper", helper), ("users_own", own)):
        module = type(sys)(name)
        monkeypatch.setitem(sys.modules, name, module)
        exec(text, vars(module))
    return sys.modules["users_own"]


def check(module, **settings):
    """A sequence by a kernel is that by steps."""
    field = module.Own(**settings)
    x = torch.linspace(-1, 1, 60, dtype=field.weight.dtype).reshape(10, 3, 2)
    answers = []
    for fused in ("always", False):
        rnn = DiscreteRNN(field, dt=0.1, fused=fused)
        h_0 = torch.zeros(3, field.state_size, dtype=x.dtype, requires_grad=True)
        output, _ = rnn(x, h_0)
        learned = [h_0, *(p for p in field.parameters() if p.requires_grad)]
        answers.append((output.detach(), *torch.autograd.grad(output.square().sum(), learned)))
        assert rnn.stats["engine"] == ("compiled" if fused else "steps"), rnn.stats
    for mine, theirs in zip(*answers, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-4, atol=1e-4)


def test_the_same_code_is_not_recorded_again(monkeypatch, recordings):
    for own in (OWN, OWN, "# moved\n\n" + OWN.replace("SCALE = 1.0", "SCALE = 1.0  # of all")):
        check(as_in_a_new_process(monkeypatch, own))
        assert len(recordings) == 1


CHANGED = {
    "a line of its flow": {"own": OWN.replace("- by", "+ by")},
    "a function of another module": {"helper": HELPER.replace("2 * x", "-1 * x")},
    "a global": {"own": OWN.replace("SCALE = 1.0", "SCALE = -1.0")},
    "a global, from 1.0 to 1": {"own": OWN.replace("SCALE = 1.0", "SCALE = 1")},
    "a closure": {"own": OWN.replace("closed(3.0)", "closed(4.0)")},
    "a default": {"own": OWN.replace("by=1.0", "by=1.5")},
    "a class attribute": {"own": OWN.replace("slope = 0.5", "slope = 0.7")},
    "a base class": {"own": OWN.replace("class Own(", "class Base(") + "class Own(Base):\n    slope = 0.7\n"},
    "a constant tensor": {"own": OWN.replace("SCALE = 1.0", "SCALE = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float32)")},
    "its numbers": {"own": OWN.replace("SCALE = 1.0", "SCALE = torch.tensor([0.5, 1.0, -2.0], dtype=torch.float32)")},
    "a hyper-parameter": {"rate": 2.0},
    "the weights' shapes": {"hidden": 4},
    "what is learned": {"learned": False},
    "the dtype": {"dtype": torch.float64},
    "a function of torch": {"own": OWN.replace("torch.tanh", "torch.sin")},
}


OTHERS = ["a line of its flow", "the dtype"]


def changed_module(monkeypatch, changed):
    """The user's module after a change, and the settings of its field."""
    texts = {name: value for name, value in changed.items() if name in ("own", "helper")}
    return as_in_a_new_process(monkeypatch, **texts), {name: value for name, value in changed.items() if name not in texts}


def test_code_that_has_changed_is_recorded_anew(monkeypatch, recordings, subtests):
    check(as_in_a_new_process(monkeypatch))
    recordings.clear()
    # So that nothing is compiled, which takes half a second for each: what is not sought in vain would be `compiled`.
    monkeypatch.setattr(stored, "program_of", nothing_is_recorded(recordings))
    for name, changed in CHANGED.items():
        with subtests.test(name):
            recordings.clear()
            module, settings = changed_module(monkeypatch, changed)
            field = module.Own(**settings)
            rnn, x = DiscreteRNN(field, dt=0.1), torch.linspace(-1, 1, 60, dtype=field.weight.dtype).reshape(10, 3, 2)
            with kernels_at_once():
                rnn(x, field.initial_state(3).requires_grad_())
            assert len(recordings) == 1
            assert (rnn.stats["engine"], rnn.stats["engine_why"]) == ("steps", "not today")


def nothing_is_recorded(noted):
    def record(*given):
        noted.append(given)
        raise UnknownOperation("not today")

    return record


# The slow ones add changes of which the test above sees that another program is sought.
@pytest.mark.parametrize("name", ["a constant tensor", *(pytest.param(name, marks=pytest.mark.slow) for name in OTHERS)])
def test_programs_of_code_before_and_after_a_change_are_kept_side_by_side(monkeypatch, recordings, name):
    for _ in range(2):
        for changed in ({}, CHANGED[name]):
            module, settings = changed_module(monkeypatch, changed)
            check(module, **settings)
        assert len(recordings) == 2


def test_a_function_in_the_place_of_one_of_torch_is_seen(monkeypatch, recordings):
    check(as_in_a_new_process(monkeypatch))
    monkeypatch.setattr(torch, "tanh", lambda x: x.sin())
    check(as_in_a_new_process(monkeypatch))
    monkeypatch.setattr(torch, "tanh", torch.cos)
    monkeypatch.setattr(stored, "program_of", nothing_is_recorded(recordings))  # as above
    field = as_in_a_new_process(monkeypatch).Own()
    with kernels_at_once():
        DiscreteRNN(field, dt=0.1)(torch.ones(2, 3, 2, dtype=torch.float32), field.initial_state(3).requires_grad_())
    assert len(recordings) == 3


def test_another_default_dtype_is_another_program(monkeypatch, recordings):
    check(as_in_a_new_process(monkeypatch))
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        check(as_in_a_new_process(monkeypatch))
    finally:
        torch.set_default_dtype(before)
    assert len(recordings) == 2


def test_whether_there_is_one_is_told_without_running_the_code(monkeypatch):
    def key(rate):
        module = StepModule(as_in_a_new_process(monkeypatch).Own(rate=rate), Euler())
        wanted = {"x": False, "dt": False, "stored": False}
        return stored.program_key(attributes_of(module), wanted, torch.float32, written)

    assert not stored.is_stored(key(1.0))
    check(as_in_a_new_process(monkeypatch))
    assert stored.is_stored(key(1.0))
    assert not stored.is_stored(key(2.0))


@pytest.mark.parametrize("packages", ["site-packages", "dist-packages"])
def test_what_comes_from_an_installed_package_is_recorded_anew(monkeypatch, recordings, tmp_path, folder, packages):
    package = tmp_path / packages
    package.mkdir()
    (package / "users_package.py").write_text(HELPER)
    monkeypatch.syspath_prepend(package)
    for _ in range(2):
        check(as_in_a_new_process(monkeypatch, OWN.replace("from users_helper", "from users_package")))
    assert len(recordings) == 2
    assert not [*folder.glob("*.json")]


def damaged(path):
    path.write_bytes(path.read_bytes()[:-10])


def written_by_others(path):
    path.chmod(0o666)


def of_something_else(path):
    content = json.dumps({"before": [["call_function", "system", [], {}]]}).encode()
    key = path.name.partition("-")[0]
    path.unlink()
    stored.Cache().keep(content, key, ".json")


@pytest.mark.parametrize("harm", [damaged, written_by_others, of_something_else])
def test_a_file_that_is_not_what_was_kept_counts_as_absent(monkeypatch, recordings, folder, harm):
    check(as_in_a_new_process(monkeypatch))
    (path,) = folder.glob("*.json")
    harm(path)
    check(as_in_a_new_process(monkeypatch))
    assert len(recordings) == 2


def test_only_operations_of_torch_itself_are_read():
    for name in ("os.system", "aten", "builtins.eval.default", "inductor.seeds.default"):
        with pytest.raises((AssertionError, ValueError)):
            stored._function(name)
    with pytest.raises(AssertionError):
        stored._read({"dataclass": ["discretize.sequences.rnn", "DiscreteRNN"]}, [])
    with pytest.raises(AssertionError):
        stored._read({"dtype": "load"}, [])


def test_stored_numbers_come_back_as_they_were():
    given = [1, 1.0, -0.0, 1e-30, True, None, "x", (1, [2.5]), slice(None, 3), torch.float16, torch.device("cpu"), float("inf")]
    found = stored._read(json.loads(json.dumps(stored._value(given, {}))), [])
    assert ascii(found) == ascii(given)
    for tensor in (torch.tensor([1.5, -2]), torch.tensor(True), torch.tensor([[1, 2]]), torch.tensor(1.5, dtype=torch.bfloat16)):
        again = stored._read(json.loads(json.dumps(stored._value(tensor, {}))), [])
        assert again.dtype == tensor.dtype
        assert torch.equal(again, tensor)


@pytest.mark.parametrize(("kind", "write"), [("step", writer(torch.float32)), ("flow", solve_writer(torch.float32))])
def test_programs_of_kernels_for_gpus_come_back_as_they_were(kind, write):
    field = ctrnn.leaky(2, 3, dtype=torch.float32)
    module = StepModule(field, Euler()) if kind == "step" else FlowModule(field, 3)
    program = program_of(module, {"x": True}, torch.float32, write)
    again = stored._program(json.loads(json.dumps(stored._written(program))))
    assert again.written == program.written
    assert (again.sums, again.nobody) == (program.sums, program.nobody)
    assert again.before.code.count("torch.ops") == program.before.code.count("torch.ops")


def test_the_text_of_a_method_for_gpus_comes_back_as_it_was():
    text = attempt_text(tableau_of(EXPLICIT_PAIRS["bosh3"]).values(3))
    again = stored._read(json.loads(json.dumps(stored._value(text, {}))), [])
    assert (again, hash(again)) == (text, hash(text))


def test_a_recording_does_not_have_torch_list_its_own_files(monkeypatch):
    def listed():
        raise AssertionError("for which it loads torch.export and more, 0.4 s of processor time")

    monkeypatch.setattr(compat.symbolic_shapes, "uninteresting_files", listed)
    program_of(StepModule(ctrnn.leaky(2, 3, dtype=torch.float32), Euler()), {"x": True}, torch.float32, written)
    assert compat.symbolic_shapes.uninteresting_files is listed  # put back


@pytest.mark.parametrize("what", ["sequence", pytest.param("solve", marks=pytest.mark.slow)])
def test_a_second_process_loads_nothing_of_what_records_and_gives_the_same(tmp_path, monkeypatch, capsys, what):
    # A new Python takes seconds, and what it loads is what is looked at.
    (tmp_path / "users_own.py").write_text(OWN)
    (tmp_path / "users_helper.py").write_text(HELPER)
    command = [sys.executable, "-B", "-c", SCRIPT, what]
    path = os.pathsep.join([str(tmp_path), str(ROOT)])

    def second_process():
        return subprocess.run(
            command, cwd=tmp_path, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path}
        ).stdout

    def this_process():
        monkeypatch.syspath_prepend(tmp_path)
        monkeypatch.setattr(sys, "argv", ["-c", what])
        torch.set_default_dtype(torch.float32)  # `_same_start` puts it back
        for name in ("users_helper", "users_own"):
            monkeypatch.delitem(sys.modules, name, raising=False)
        exec(SCRIPT, {})
        return capsys.readouterr().out

    (engine, first, _), (same_engine, second, loaded) = (json.loads(run()) for run in (this_process, second_process))
    assert (engine, same_engine) == ("compiled", "compiled")
    assert second == first
    assert not OF_RECORDING & {*loaded}
