"""Which way imports point, what each module shows of itself, and how folders are laid out: one test a rule."""

import ast
import functools
import gc
import importlib
import subprocess
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ["ctrnn", "discretize", "derivations", "experiments"]  # a file imports from its own or from the left of it
FILES = [file for package in PACKAGES for file in sorted((ROOT / package).rglob("*.py"))]
INITS = [file for file in FILES if file.name == "__init__.py"]
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
    for kept in (tree, nodes, imported_modules, import_graph):
        kept.cache_clear()
    gc.enable()


@functools.cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(), str(file))


@functools.cache
def nodes(file: Path) -> list[ast.AST]:
    return list(ast.walk(tree(file)))


def names_imported(file: Path) -> Iterator[tuple[str, str]]:
    """(module, name) of every import wherever it stands; the name is empty for a whole module, also by `import_module`."""
    for node in nodes(file):
        if isinstance(node, ast.Import):
            yield from ((name.name, "") for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = file.parent.relative_to(ROOT).parts
            home = package[: len(package) - node.level + 1] if node.level else ()
            module = ".".join([*home, *([node.module] if node.module else [])])
            yield from ((module, name.name) for name in node.names)
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "_import_module", "__import__") and isinstance(node.args[0].value, str):
                yield node.args[0].value, ""


@functools.cache
def imported_modules(file: Path) -> set[str]:
    """Every module that a file names in an import; `from derivations import agreement` names one by its second half."""
    return {full for module, name in names_imported(file) for full in (module, f"{module}.{name}".rstrip("."))}


def exported(file: Path) -> list[str] | None:
    """`__all__` as it is written, if it is written as a list."""
    for node in tree(file).body:
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["__all__"]:
            return ast.literal_eval(node.value) if isinstance(node.value, ast.List) else None
    return None


def top(module: str) -> str:
    return module.partition(".")[0]


@functools.cache
def import_graph() -> dict[str, set[str]]:
    """Which of the packages' modules each of them imports, types included; packages' own `__init__` files left out."""
    modules = {module_name(file): file for file in FILES if file not in INITS}
    return {module: imported_modules(file) & modules.keys() - {module} for module, file in modules.items()}


def room(module: str) -> str:
    """A module's folder below its package, with all folders within."""
    return "/".join(module.split(".")[:-1][:2])


def run_python(script: str) -> None:
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


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
        private += [
            f"{place(file)} uses {node.value.id}.{node.attr}"
            for node in nodes(file)
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
    run_python(
        f"import importlib, sys\nfor name in {[m for m in modules if not m.endswith('__main__')]}:\n"
        "    importlib.import_module(name)\n    assert 'torch' not in sys.modules, name\n"
    )


def test_importing_loads_no_library_until_a_name_is_used_and_solving_none_that_only_compiling_and_events_need():
    names = [module_name(file) for file in INITS]
    run_python(
        "import importlib, os, sys\nos.environ['CTRNN_FUSED'] = '0'\n"
        f"for name in {names}:\n    importlib.import_module(name)\n"
        f"    loaded = [heavy for heavy in {HEAVY} if heavy in sys.modules]\n    assert not loaded, (name, loaded)\n"
        "import ctrnn, discretize\nctrnn.plain\nassert 'torch' in sys.modules\nimport torch\n"
        "discretize.DiscreteRNN(ctrnn.plain(1, 1))(torch.ones(2, 1, 1))\ndiscretize.Trajectory\n"
        "from ctrnn import gated\nfrom discretize import ContinuousRNN, DiscreteRNN, Ensemble, Layers\n"
        "x = torch.ones(2, 1, 1)\nDiscreteRNN(gated(1, 2))(x)\nContinuousRNN(gated(1, 2))(x)[0].sum().backward()\n"
        "heavy = ['torch._dynamo', 'torch.fx.experimental.symbolic_shapes', 'sympy', 'scipy', 'pandas', 'torchdiffeq']\n"
        "assert not (loaded := [name for name in [*heavy, 'matplotlib'] if name in sys.modules]), loaded"
    )


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


def test_type_checkers_take_each_name_of_a_stub_as_exported():
    for stub in (file.with_suffix(".pyi") for file in INITS if file.with_suffix(".pyi").exists()):
        for node in tree(stub).body:
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


def test_the_reader_of_imports_sees_every_way_to_write_one(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    file = tmp_path / "ctrnn" / "inner" / "file.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import a.b\nfrom c import d\nfrom .. import e\nfrom ..f import g\n"
        "def later():\n    import h\n    importlib.import_module('i.j')\n    __import__('k')\n"
    )
    assert {"a.b", "c", "c.d", "ctrnn", "ctrnn.e", "ctrnn.f", "ctrnn.f.g", "h", "i.j", "k"} <= imported_modules(file)
