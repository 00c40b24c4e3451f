"""Which way imports point, what each module shows of itself, and how folders are laid out: one test a rule."""

import ast
import functools
import gc
import importlib
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any

import pytest
from code_imports import FILES, PACKAGES, ROOT, imported_modules, names_imported, top, tree

from ctrnn.lazy import places_of

INITS = [file for file in FILES if file.name == "__init__.py"]
OF_FEW_CALLS = ["torch._dynamo", "torch.fx.experimental.symbolic_shapes", "sympy", "scipy", "pandas", "torchdiffeq", "matplotlib"]
HEAVY = ["torch", "torchdiffeq", "sympy", "scipy", "numpy", "matplotlib", "tyro", "pandas", "jinja2", "tqdm"]


def module_name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def place(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()


@pytest.fixture(scope="module", autouse=True)
def _half_a_million_nodes() -> Iterator[None]:
    """Parsed without looking through those again and again, and forgotten at the end: so do no later tests."""
    gc.disable()
    yield
    for kept in (tree, import_graph):
        kept.cache_clear()
    gc.enable()


def exported(file: Path) -> list[str] | None:
    """`__all__` as it is written, if it is written as a list."""
    for node in tree(file).body:
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["__all__"]:
            return ast.literal_eval(node.value) if isinstance(node.value, ast.List) else None
    return None


@functools.cache
def import_graph() -> dict[str, set[str]]:
    """Which of the packages' modules each of them imports, types included; packages' own `__init__` files left out."""
    modules = {module_name(file): file for file in FILES if file not in INITS}
    return {module: imported_modules(file) & modules.keys() - {module} for module, file in modules.items()}


def room(module: str) -> str:
    """A module's folder below its package, with all folders within."""
    return "/".join(module.split(".")[:-1][:2])


def answer(script: str) -> Any:
    """What a new interpreter says in JSON on its last line."""
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_imports_never_point_right():
    tests = ["tests", "problems", "conftest", "pytest", "hypothesis"]
    right = {
        f"{place(file)} imports {module}"
        for file in FILES
        for module in imported_modules(file)
        if top(module) in [*PACKAGES[PACKAGES.index(file.relative_to(ROOT).parts[0]) + 1 :], *tests]
    }
    assert not right, "the thing it wants lives in the wrong place"


def test_no_file_imports_itself_through_others():
    TopologicalSorter(import_graph()).prepare()  # else an error that names a circle; imports of types are imports too


def test_no_two_folders_import_each_other():
    # A package's root is no room: what is there is for all, and `__main__` calls all. Circles of files are found above.
    arrows = {(room(module), room(other)) for module, others in import_graph().items() for other in others}
    assert not {(a, b) for a, b in arrows if a < b and "/" in a and "/" in b and (b, a) in arrows}


def test_nothing_in_the_wheel_imports_what_the_wheel_leaves_out():
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    left_out = tuple(folder.strip("/").replace("/", ".") for folder in wheel["exclude"])
    arrows = ((module, other) for module, others in import_graph().items() for other in others)
    crossing = {module for module, other in arrows if other.startswith(left_out) and not module.startswith(left_out)}
    assert crossing == {"experiments.__main__"}, "which looks whether it is there"


def test_nothing_is_imported_past_all():
    files = {module_name(file): file for file in FILES}
    past: dict[str, set[str]] = {}
    for file in FILES:
        for module, name in names_imported(file):
            if name and module in files and f"{module}.{name}" not in files and name not in (exported(files[module]) or ()):
                past.setdefault(module, set()).add(name)
    for module in {module_name(file) for file in INITS}:  # what packages show is resolved, see below
        past.pop(module, None)
    assert not past, "their `__all__` lacks names that others import"


def test_nothing_private_is_used_elsewhere():
    modules, private = {module_name(file) for file in FILES}, []
    for file in FILES:
        named = [(module, name) for module, name in names_imported(file) if top(module) in PACKAGES]
        private += [f"{place(file)} imports {name}" for _, name in named if name.startswith("_")]
        here = {name for module, name in named if f"{module}.{name}" in modules}
        if not any(re.search(rf"\b{name}\s*\._", file.read_text()) for name in here):
            continue  # without a look through all of its nodes
        private += [
            f"{place(file)} uses {node.value.id}.{node.attr}"
            for node in ast.walk(tree(file))
            if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in here
            if node.attr.startswith("_") and node.attr != "__doc__"
        ]
    assert not private


def test_in_derivations_only_agreement_and_tracing_name_torch():
    sees_torch = {"torch", "torchdiffeq", "ctrnn", "discretize"}
    for file in FILES:
        if file.is_relative_to(ROOT / "derivations") and not sees_code(file):
            # What resolves the packages' public names knows no torch and no mathematics; step maps are read when asked for.
            resolved = ("ctrnn.lazy", "discretize.steps.catalog" if file.name == "step_maps.py" else "ctrnn.lazy")
            modules = [module for module in imported_modules(file) if not module.startswith(resolved)]
            named = sees_torch & {top(module) for module in modules}
            assert not named, f"{place(file)} sees {sorted(named)}"


def sees_code(file: Path) -> bool:
    """The files of derivations that look at the code that computes."""
    return "tracing" in file.parts or file.name == "agreement.py"


@pytest.mark.slow
def test_in_derivations_only_agreement_and_tracing_load_torch():
    modules = [module_name(f) for f in FILES if f.is_relative_to(ROOT / "derivations") and not sees_code(f)]
    loads_torch = answer(
        f"import importlib, json, sys\nfor name in {[m for m in modules if not m.endswith('__main__')]}:\n"
        "    importlib.import_module(name)\n    if 'torch' in sys.modules: break\nelse:\n    name = None\nprint(json.dumps(name))"
    )
    assert loads_torch is None


@pytest.fixture(scope="module")
def loaded() -> dict[str, list[str]]:
    """Which heavy libraries a new interpreter has loaded after each of a few stages, all in one process."""
    return answer(f"""
import importlib, json, os, sys
os.environ["CTRNN_FUSED"] = "0"
found = {{}}
def look(stage, names):
    found[stage] = [name for name in names if name in sys.modules]
for name in {[module_name(file) for file in INITS]}:
    importlib.import_module(name)
    look(name, {HEAVY})
import ctrnn, discretize
ctrnn.plain
look("a name", ["torch"])
import torch
discretize.DiscreteRNN(ctrnn.plain(1, 1))(torch.ones(2, 1, 1))
discretize.Trajectory
from ctrnn import gated
from discretize import ContinuousRNN, DiscreteRNN, Ensemble, Layers, SequenceModel
x = torch.ones(2, 1, 1)
SequenceModel(DiscreteRNN(gated(1, 2)), 1)(x)
ContinuousRNN(gated(1, 2))(x)[0].sum().backward()
look("solving", {OF_FEW_CALLS})
print(json.dumps(found))
""")


@pytest.mark.parametrize("package", [module_name(file) for file in INITS])
def test_importing_a_package_loads_no_library(loaded, package):
    assert loaded[package] == []


def test_torch_is_loaded_once_a_name_is_used(loaded):
    assert loaded["a name"] == ["torch"]


def test_solving_loads_no_library_that_only_compiling_events_and_figures_need(loaded):
    assert loaded["solving"] == []


def test_every_exported_name_resolves_and_no_other():
    for file in INITS:
        package = importlib.import_module(module_name(file))
        names = getattr(package, "__all__", [])
        assert len(set(names)) == len(names), place(file)
        assert not [name for name in names if getattr(package, name) is None or name not in dir(package)], place(file)
        # Importing a submodule of that name would bind it in the package, over the object that is to be found there.
        assert not {f.stem for f in file.parent.iterdir()} & set(names), place(file)
        with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
            _ = package.no_such_name


@pytest.mark.parametrize("package", ["ctrnn", "discretize"])
def test_names_have_one_place_and_those_of_modules_go_on_working_where_they_were(package):
    top, places = importlib.import_module(package), places_of(str(ROOT / package / "__init__.py"))
    first = [name for name, place in places.items() if place == package]
    assert list(top.__all__) == first
    assert 20 < len(first) < 40, "what a newcomer meets; the rule for a new name is in CONTRIBUTING.md"
    rooms = {place for place in places.values() if place != package}
    assert set(dir(top)) == {*first, *(room.partition(".")[2] for room in rooms), *(["init"] if package == "ctrnn" else [])}
    stub = (ROOT / package / "__init__.pyi").read_text()
    for name, place in places.items():
        value = getattr(importlib.import_module(place), name)
        assert name not in re.findall(r"\w+", stub) or getattr(top, name) is value
        assert place == package or name in dir(importlib.import_module(place))


def test_a_name_that_is_asked_for_in_another_place_is_told_where_it_is():
    for place, name, told in (
        ("ctrnn", "PowrDecay", "ctrnn.parts.PowerDecay"),
        ("ctrnn.cells", "gru", "ctrnn.gru"),
        ("discretize.steps", "ContinuousRNN", "discretize.ContinuousRNN"),
        ("discretize.analysis", "fixd_points", "fixed_points"),
    ):
        with pytest.raises(AttributeError, match=rf"{place}' has no attribute '{name}'; did you mean '{told}'\?"):
            getattr(importlib.import_module(place), name)


def test_type_checkers_take_each_name_of_a_stub_as_exported():
    for stub in (file.with_suffix(".pyi") for file in INITS if file.with_suffix(".pyi").exists()):
        for node in tree(stub).body:
            if isinstance(node, ast.Assign):  # a name before is the one of now, which is above
                continue
            assert isinstance(node, ast.ImportFrom), ast.unparse(node)  # `import name as name`, PEP 484's form of a re-export
            assert all(alias.asname == alias.name for alias in node.names), ast.unparse(node)


def test_every_module_starts_with_a_sentence():
    def has_none(file: Path) -> bool:
        paragraph = (ast.get_docstring(tree(file)) or "").partition("\n\n")[0]
        return not paragraph.endswith((".", ":", ";", "?", "!")) and not paragraph.partition("\n")[0].endswith((".", ":"))

    assert not [place(file) for file in FILES if has_none(file)]


def test_every_package_is_typed_and_every_folder_of_python_files_but_the_tests_is_one():
    assert not [package for package in PACKAGES if not (ROOT / package / "py.typed").is_file()]
    assert not [place(file.parent) for file in FILES if not (file.parent / "__init__.py").is_file()]
    assert not list((ROOT / "tests").rglob("__init__.py"))  # with which tests/ctrnn would be imported in place of ctrnn


def test_the_reader_of_imports_sees_every_way_to_write_one(tmp_path):
    file = tmp_path / "ctrnn" / "inner" / "file.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import a.b\nfrom c import d\nfrom .. import e\nfrom ..f import g\n"
        "def later():\n    try:\n        import h\n    except OSError:\n        import l\n    else:\n        import m\n"
        "    finally:\n        import n\n    match h:\n        case 1:\n            import o\n"
        "    importlib.import_module('i.j')\n    __import__('k')\n"
    )
    expected = {"a.b", "c", "c.d", "ctrnn", "ctrnn.e", "ctrnn.f", "ctrnn.f.g", "h", "i.j", "k", *"lmno"}
    assert expected <= imported_modules(file, tmp_path)
