"""Private names of torch: all in one file, and what happens without them."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from threading import Thread, current_thread, main_thread

import pytest
import torch

import ctrnn
import derivations
from discretize import ContinuousRNN, DiscreteRNN, compat

ROOT = Path(__file__).resolve().parents[2]
FILES = [file for package in ("ctrnn", "discretize", "derivations") for file in sorted((ROOT / package).rglob("*.py"))]


def own_field() -> ctrnn.VectorField:
    """Of a class of its own, whose kernel no other test has asked for."""

    class Own(ctrnn.VectorField):
        def __init__(self) -> None:
            super().__init__(2, 3)
            self.a = torch.nn.Linear(2, 3)

        def flow(self, x: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
            return self.a(x).tanh() - h

    return Own()


def clear() -> None:
    compat._found.cache_clear()
    compat.lacks_checks.cache_clear()


@pytest.fixture
def without(monkeypatch):
    """A torch that lacks a private name."""
    whole = dict(compat.PRIVATE)

    def moved(name: str) -> str:
        compat.PRIVATE.update(whole)
        path, purpose = compat.PRIVATE[name]
        monkeypatch.setitem(compat.PRIVATE, name, (path + "_moved", purpose))
        clear()
        return f"torch {torch.__version__} has no `{path}_moved`, which {purpose}"

    yield moved
    clear()


def private(name: str) -> bool:
    return re.fullmatch(r"torch\.[\w.]+", name) is not None and (".experimental." in name or "._" in name.replace(".__", ""))


def private_names(file: Path):
    """Modules that a file imports and attributes of torch that it reads by private names."""
    text = file.read_text()
    for node in ast.walk(ast.parse(text)) if "torch" in text else ():
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from filter(private, (f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Import):
            yield from filter(private, (alias.name for alias in node.names))
        elif isinstance(node, ast.Attribute) and private(name := dotted(node)):
            yield name


def dotted(node: ast.expr) -> str:
    """`torch.nn.Module` of a chain of names, "" of attributes of anything else."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join([node.id, *reversed(names)]) if isinstance(node, ast.Name) else ""


def test_only_one_file_knows_private_names_of_torch(tmp_path):
    others = {file.relative_to(ROOT).as_posix(): [*private_names(file)] for file in FILES if file.name != "compat.py"}
    assert not {file: names for file, names in others.items() if names}
    (tmp_path / "file.py").write_text("from torch._ops import OpOverload\nimport torch._dynamo\ntorch._C._functorch.of(x)")
    assert {"torch._ops.OpOverload", "torch._dynamo", "torch._C._functorch.of"} <= {*private_names(tmp_path / "file.py")}


def test_functions_of_torch_are_not_exchanged_by_a_library_for_tests():
    assert not [file for file in FILES if "mock" in file.read_text()]


def test_this_torch_has_all_private_names():
    assert compat.missing(compat.PRIVATE) is None


@pytest.mark.parametrize("from_main", [True, False])
def test_a_cuda_build_without_a_gpu_gets_its_guard_of_devices_from_a_thread_that_does_not_end(monkeypatch, from_main):
    made_in = []
    monkeypatch.setattr(compat, "_found", lambda name: lambda: made_in.append(current_thread()))
    monkeypatch.setattr(torch, "__version__", type(torch.__version__)("2.11.0"))
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    asking = Thread(target=compat.keep_device_guard.__wrapped__)  # not kept: each case asks anew
    asking.run() if from_main else (asking.start(), asking.join())
    (thread,) = made_in
    assert thread.is_alive()
    assert (thread is main_thread()) == from_main
    monkeypatch.setattr(torch, "__version__", type(torch.__version__)("2.12.0"))
    compat.keep_device_guard.__wrapped__()
    assert made_in == [thread]


@pytest.mark.kernels
@pytest.mark.parametrize("name", [*compat.CHECKS, *compat.RECORDING])
def test_a_sequence_runs_by_steps_and_says_which_name_is_missing(without, name):
    why, rnn, xs = without(name), DiscreteRNN(own_field(), dt=0.1), torch.ones(5, 2, 2)
    output, _ = rnn(xs)
    assert rnn.stats["engine"] == "steps"
    assert why in rnn.stats["engine_why"]
    h, steps = torch.zeros(2, 3), []
    for x in xs:
        h = h + 0.1 * rnn.field(x, h)
        steps.append(h)
    torch.testing.assert_close(output, torch.stack(steps))


@pytest.mark.kernels
@pytest.mark.parametrize("name", ["transforms_are_active", "make_fx"])
def test_a_solve_runs_by_steps_and_says_which_name_is_missing(without, name):
    why, rnn = without(name), ContinuousRNN(own_field())
    rnn(torch.ones(5, 2, 2))
    assert rnn.stats["engine"] == "steps"
    assert why in rnn.stats["engine_why"]


def test_a_derivation_raises_and_says_which_name_is_missing(without):
    why = without("make_fx")
    with pytest.raises(compat.Missing, match="make_fx_moved") as raised:
        derivations.symbolic(ctrnn.plain(1, 1))
    assert str(raised.value) == why


@pytest.mark.slow
def test_a_torch_without_a_name_is_told_of_in_a_new_process():
    script = (
        "import sys, torch\ndel torch.fx.experimental.proxy_tensor.make_fx\n"
        "import ctrnn, discretize\n"
        "field = type('Own', (ctrnn.VectorField,), {'flow': lambda self, x, h: x - h})(2, 2)\n"
        "rnn = discretize.DiscreteRNN(field, fused='always')\nrnn(torch.ones(200, 1, 2))\nprint(rnn.stats['engine_why'])"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert "has no `torch.fx.experimental.proxy_tensor.make_fx`, which records code" in done.stdout
