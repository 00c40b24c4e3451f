"""What works with torch, NumPy and safetensors alone, and what is said where a package of an extra is missing."""

import json
import os
import re
import subprocess
import sys
import tomllib

import pytest
from code_imports import FILES, PACKAGES, ROOT, imported_modules, top

from ctrnn.extras import BROUGHT_BY, MissingPackageError, needed_by

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WITHOUT = """
import sys
from importlib.machinery import PathFinder
MISSING, find = {missing!r}, PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name.partition(".")[0] in MISSING else find(name, *more)
"""
OF_TORCH = {"sympy", "jinja2", "markupsafe", "filelock"}  # which itself requires these
# Of other extras, of none (pyarrow, IPython), or what these bring themselves.
OTHERS = {"mpmath", "ncps", "ray", "triton", "jax", "diffrax", "lineax", "torchode", "torchsde", "torchdde", "neurogym"}


def run_without(missing: set[str], script: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run it where these packages cannot be found, as if they were not installed."""
    script = WITHOUT.format(missing=missing) + script
    environment = os.environ | {"PYTHONPATH": str(ROOT), "CTRNN_FUSED": "0"}
    command = [sys.executable, "-c", script, *words]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)


def names(requirements: list[str]) -> set[str]:
    return {re.match(r"[\w-]+", each).group().lower() for each in requirements}  # type: ignore[union-attr]


def test_ctrnn_itself_requires_torch_numpy_and_safetensors_alone():
    assert names(PROJECT["dependencies"]) == {"torch", "numpy", "safetensors"}


@pytest.mark.parametrize(("name", "extra"), sorted(set(BROUGHT_BY.values())))
def test_an_extra_brings_what_it_is_said_to(name, extra):
    assert name.lower() in names(PROJECT["optional-dependencies"][extra])


def test_code_imports_nothing_that_no_extra_brings():
    known = {*sys.stdlib_module_names, *PACKAGES, *names(PROJECT["dependencies"]), *BROUGHT_BY, *OTHERS}
    foreign = {(top(module), file.name) for file in FILES for module in imported_modules(file) if top(module) not in known}
    assert {module for module, _ in foreign} <= {"pyarrow", "IPython", "torch_xla"}, foreign


CALLS = {
    "trajectory.plot()": "trajectory.plot needs Matplotlib: pip install 'ctrnn-ode[lab]'",
    "discretize.plot(trajectory)": "discretize.plot needs Matplotlib: pip install 'ctrnn-ode[lab]'",
    "discretize.state_space(trajectory.hs)": "discretize.analysis.state_space needs Matplotlib: pip install 'ctrnn-ode[lab]'",
    "discretize.phase_plane(None, None)": "discretize.analysis.phase_plane needs Matplotlib: pip install 'ctrnn-ode[lab]'",
    "discretize.continuation(None, None, 0, (0, 1))": (
        "discretize.analysis.continuation needs SciPy: pip install 'ctrnn-ode[lab]'"
    ),
    "discretize.fit(f, (ts, ts), {'k': (1, 0, 2)})": "discretize.fit needs SciPy: pip install 'ctrnn-ode[lab]'",
    "discretize.integrate(f, None, h0, ts, progress=True)": ("integrate(progress=True) needs tqdm: pip install 'ctrnn-ode[lab]'"),
    "discretize.integrate(f, None, h0, ts, method='torchdiffeq:dopri8')": (
        "`method` names one of torchdiffeq's, which cannot be used here: it needs torchdiffeq: pip install 'ctrnn-ode[all]'."
    ),
    "derivations.verify": "derivations needs SymPy: pip install 'ctrnn-ode[prove]'",
    "from derivations import ledger": "derivations needs python-flint: pip install 'ctrnn-ode[prove]'",
}


@pytest.fixture(scope="module")
def alone():
    """What one new interpreter says that has no package of an extra: of names, of the example of the README, and of CALLS."""
    readme = (ROOT / "README.md").read_text()
    example = readme.split("```python\n")[1].split("```")[0].replace("range(60)", "range(2)")  # what it learns is on its page
    script = f"""
import contextlib, io, json, types, torch, ctrnn, derivations, discretize
from importlib import import_module
from ctrnn.lazy import places_of
places = {{**places_of(ctrnn.__file__), **places_of(discretize.__file__)}}
answers = {{}}
# Optimizers import torch's compiler, which takes as long as all else, and ask it for two things that they do not need here.
torch._dynamo = sys.modules["torch._dynamo"] = types.ModuleType("torch._dynamo")
torch._dynamo.disable, torch._dynamo.graph_break = lambda function, *_, **__: function, lambda: None
h0, ts, f = torch.ones(1, 1), torch.arange(2.0), lambda t, h: -h
trajectory = discretize.integrate(f, None, h0, ts)
for call in {list(CALLS)}:
    try:
        exec(call)
    except (ImportError, ValueError) as error:
        answers[call] = str(error)
    else:
        answers[call] = "nothing was said"
MISSING -= {OF_TORCH | {"mpmath"}}
answers["missing names"] = [n for n in places if getattr(import_module(places[n]), n, None) is None]
field, x = ctrnn.gru(1, 2), torch.ones(3, 1, 1)
for name in ("DiscreteRNN", "ContinuousRNN"):
    field.zero_grad()
    getattr(discretize, name)(field)(x)[0].square().sum().backward()
    answers[name] = sum(float(p.grad.abs().sum()) for p in field.parameters())
with contextlib.redirect_stdout(io.StringIO()) as said:
    exec({example!r}, {{"__name__": "__main__"}})
answers["example"] = said.getvalue()
print(json.dumps(answers))
"""
    done = run_without({*BROUGHT_BY, "mpmath"}, script)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_every_name_of_ctrnn_and_discretize_needs_no_extra(alone):
    assert alone["missing names"] == []


@pytest.mark.parametrize("sequence", ["DiscreteRNN", "ContinuousRNN"])
def test_sequences_and_their_gradients_need_no_extra(alone, sequence):
    assert alone[sequence] > 0


def test_the_example_of_the_readme_needs_no_extra(alone):
    assert alone["example"].startswith("learned: False")


@pytest.mark.parametrize(("call", "words"), CALLS.items())
def test_a_call_that_needs_a_package_names_the_extra_that_brings_it(alone, call, words):
    assert alone[call] == words


@pytest.mark.parametrize(("missing", "words"), [("tyro", ["--help"]), ("pandas", ["study", "list"]), ("flint", ["derive"])])
def test_a_command_that_lacks_a_package_is_one_line(missing, words):
    done = run_without({missing}, "from ctrnn_command import main\nsys.exit(main())", *words)
    about = "ctrnn" if missing == "tyro" else f"ctrnn {words[0]}"
    name = BROUGHT_BY[missing][0]
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(rf"{about}( \w+)?: this command needs {name}: pip install 'ctrnn-ode\[all\]'\n", done.stderr)


def test_what_is_missing_and_of_no_extra_is_pythons_own_error():
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module'") as told, needed_by("it"):
        import no_such_module  # type: ignore[import-not-found] # noqa: F401, PLC0415
    assert not isinstance(told.value, MissingPackageError)
