"""What works with torch, NumPy and safetensors alone, and what is said where a package of an extra is missing."""

import json
import os
import re
import subprocess
import sys
import tomllib
from types import SimpleNamespace

import pytest
from code_imports import FILES, PACKAGES, ROOT, imported_modules, top

from ctrnn import extras
from ctrnn.extras import BROUGHT_BY, MissingPackageError, install_line, needed_by
from experiments.__main__ import COMMANDS

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


INSTALL = f"pip install -e '{ROOT}"  # in a copy of the repository
CALLS = {
    "trajectory.plot()": f"trajectory.plot needs Matplotlib: {INSTALL}[lab]'",
    "discretize.plot(trajectory)": f"discretize.plot needs Matplotlib: {INSTALL}[lab]'",
    "discretize.state_space(trajectory.hs)": f"discretize.analysis.state_space needs Matplotlib: {INSTALL}[lab]'",
    "discretize.phase_plane(None, None)": f"discretize.analysis.phase_plane needs Matplotlib: {INSTALL}[lab]'",
    "discretize.continuation(None, None, 0, (0, 1))": (f"discretize.analysis.continuation needs SciPy: {INSTALL}[lab]'"),
    "discretize.fit(f, (ts, ts), {'k': (1, 0, 2)})": f"discretize.fit needs SciPy: {INSTALL}[lab]'",
    "discretize.integrate(f, None, h0, ts, progress=True)": (f"integrate(progress=True) needs tqdm: {INSTALL}[lab]'"),
    "discretize.integrate(f, None, h0, ts, method='torchdiffeq:dopri8')": (
        f"`method` names one of torchdiffeq's, which cannot be used here: it needs torchdiffeq: {INSTALL}[all]'."
    ),
    "derivations.verify": f"derivations needs SymPy: {INSTALL}[prove]'",
    "from derivations import ledger": f"derivations needs python-flint: {INSTALL}[prove]'",
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


@pytest.mark.parametrize(
    ("missing", "words", "about"),
    [
        ("tyro", ["train", "--help"], "ctrnn"),
        pytest.param("pandas", ["study", "cost", "ohno-har"], "ctrnn study cost", marks=pytest.mark.slow),
        ("flint", ["derive"], "ctrnn derive"),
    ],
)
def test_a_command_that_lacks_a_package_is_one_line(missing, words, about):
    done = run_without({missing}, "from ctrnn_command import main\nsys.exit(main())", *words)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"{about}: this command needs {BROUGHT_BY[missing][0]}: {INSTALL}[all]'\n"


@pytest.mark.parametrize("word", ["--help", "--version", "docs"])
def test_what_a_newcomer_types_needs_no_extra(word, tmp_path):
    without = "import experiments.documents as d, pathlib, webbrowser\nwebbrowser.open = lambda page: None\n"
    (tmp_path / "experiments" / "site").mkdir(parents=True)
    (tmp_path / "experiments" / "site" / "index.html").touch()
    without += f"d.ROOT = pathlib.Path({str(tmp_path)!r})\nfrom ctrnn_command import main\nsys.exit(main())"
    done = run_without({*BROUGHT_BY} - OF_TORCH, without, word)
    assert (done.returncode, done.stderr) == (0, "")
    if word == "--help":
        listed = re.findall(r"^  (\w+) +[A-Z].*\.$", done.stdout, re.MULTILINE)
        assert listed == [*COMMANDS]
        assert f"the extra `all`: {INSTALL}[all]'" in done.stdout


ORIGINS = {
    "an index": (None, "pip install 'ctrnn-ode[lab]'"),
    "a folder": ({"url": "file://{here}", "dir_info": {"editable": True}}, "pip install '{here}[lab]'"),
    "a folder that is gone": ({"url": "file://{here}/gone", "dir_info": {}}, "pip install 'ctrnn-ode[lab]'"),
    "a file": ({"url": "file://{here}/a.whl", "archive_info": {}}, "pip install 'ctrnn-ode[lab] @ file://{here}/a.whl'"),
    "a repository": (
        {"url": "https://a.b/c.git", "vcs_info": {"vcs": "git", "requested_revision": "v1"}},
        "pip install 'ctrnn-ode[lab] @ git+https://a.b/c.git@v1'",
    ),
}


@pytest.mark.parametrize("origin", ORIGINS)
def test_the_line_that_is_named_installs_from_where_this_came(origin, monkeypatch, tmp_path):
    (tmp_path / "a.whl").touch()
    written, line = ORIGINS[origin]
    text = None if written is None else json.dumps(written).replace("{here}", str(tmp_path))
    monkeypatch.setattr(extras, "ROOT", tmp_path)  # no copy of the repository
    monkeypatch.setattr(extras, "distribution", lambda name: SimpleNamespace(read_text=lambda file: text))
    monkeypatch.setattr(extras, "PathFinder", SimpleNamespace(find_spec=lambda name: True))
    assert install_line("lab") == line.replace("{here}", str(tmp_path))
    monkeypatch.setattr(extras, "PathFinder", SimpleNamespace(find_spec=lambda name: None))  # uv makes environments without pip
    assert install_line("lab") == "uv " + line.replace("{here}", str(tmp_path))


def test_what_is_missing_and_of_no_extra_is_pythons_own_error():
    with pytest.raises(ModuleNotFoundError, match="No module named 'no_such_module'") as told, needed_by("it"):
        import no_such_module  # type: ignore[import-not-found] # noqa: F401, PLC0415
    assert not isinstance(told.value, MissingPackageError)
