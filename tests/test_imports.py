"""Which way imports point, and what each package shows of itself."""

import ast
import importlib
import subprocess
import sys
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


def imported_modules(file: Path) -> list[str]:
    """Every module that a file names in an import, wherever it stands, and in a call of `import_module`."""
    found: list[str] = []
    for node in ast.walk(ast.parse(file.read_text(), str(file))):
        if isinstance(node, ast.Import):
            found += [name.name for name in node.names]
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                package = file.parent.relative_to(ROOT).parts
                home = package[: len(package) - node.level + 1]
                module = ".".join([*home, module]) if module else ".".join(home)
            # `from derivations import agreement` names a module by its second half.
            found += [module, *(f"{module}.{name.name}" for name in node.names)]
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("import_module", "_import_module", "__import__") and isinstance(node.args[0].value, str):
                found.append(node.args[0].value)
    return found


def top(module: str) -> str:
    return module.partition(".")[0]


def run_python(script: str) -> str:
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def ids(files: list[Path]) -> list[str]:
    return [str(file.relative_to(ROOT)) for file in files]


@pytest.mark.parametrize("file", FILES, ids=ids(FILES))
def test_imports_never_point_right(file):
    own = PACKAGES.index(file.relative_to(ROOT).parts[0])
    right = {module for module in imported_modules(file) if top(module) in PACKAGES[own + 1 :]}
    assert not right, f"{file.relative_to(ROOT)} imports {sorted(right)}; the thing it wants lives in the wrong place"


@pytest.mark.parametrize("file", FILES, ids=ids(FILES))
def test_no_package_imports_the_tests(file):
    assert not {"tests", "problems", "conftest", "pytest", "hypothesis"} & {top(m) for m in imported_modules(file)}


def test_in_derivations_only_agreement_names_torch():
    sees_torch = {"torch", "torchdiffeq", "ctrnn", "discretize"}
    for file in FILES:
        if file.is_relative_to(ROOT / "derivations") and file != ROOT / "derivations" / "agreement.py":
            # What resolves the packages' public names knows no torch and no mathematics.
            modules = [module for module in imported_modules(file) if not module.startswith("ctrnn.lazy")]
            named = sees_torch & {top(module) for module in modules}
            assert not named, f"{file.relative_to(ROOT)} sees {sorted(named)}"


def test_in_derivations_only_agreement_loads_torch():
    modules = [module_name(f) for f in FILES if f.is_relative_to(ROOT / "derivations") and f.name != "agreement.py"]
    script = (
        f"import importlib, sys\nfor name in {[m for m in modules if not m.endswith('__main__')]}:\n"
        "    importlib.import_module(name)\n    assert 'torch' not in sys.modules, name\n"
    )
    run_python(script)


def test_importing_the_packages_loads_no_library():
    names = [module_name(file) for file in INITS]
    script = (
        f"import importlib, sys\nfor name in {names}:\n    importlib.import_module(name)\n"
        f"    loaded = [heavy for heavy in {HEAVY} if heavy in sys.modules]\n    assert not loaded, (name, loaded)\n"
    )
    run_python(script)


def test_a_name_is_resolved_on_first_use_in_a_fresh_interpreter():
    run_python("import sys, ctrnn\nassert 'torch' not in sys.modules\nctrnn.plain\nassert 'torch' in sys.modules")


@pytest.mark.parametrize("file", INITS, ids=ids(INITS))
def test_every_exported_name_resolves(file):
    package = importlib.import_module(module_name(file))
    exported = getattr(package, "__all__", [])
    assert len(set(exported)) == len(exported)
    for name in exported:
        assert getattr(package, name) is not None
        assert name in dir(package)


@pytest.mark.parametrize("file", INITS, ids=ids(INITS))
def test_an_unknown_name_is_an_attribute_error_that_says_so(file):
    package = importlib.import_module(module_name(file))
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = package.no_such_name


@pytest.mark.parametrize("file", INITS, ids=ids(INITS))
def test_no_exported_name_is_also_a_submodule(file):
    # Importing the submodule would bind its name in the package, over the object that is to be found there.
    submodules = {f.stem for f in file.parent.glob("*.py")} | {f.name for f in file.parent.iterdir() if f.is_dir()}
    exported = getattr(importlib.import_module(module_name(file)), "__all__", [])
    assert not submodules & set(exported)


def test_type_checkers_take_each_name_of_a_stub_as_exported():
    for stub in (file.with_suffix(".pyi") for file in INITS if file.with_suffix(".pyi").exists()):
        for node in ast.parse(stub.read_text()).body:
            assert isinstance(node, ast.ImportFrom), ast.unparse(node)  # `import name as name`, PEP 484's form of a re-export
            assert all(alias.asname == alias.name for alias in node.names), ast.unparse(node)


@pytest.mark.parametrize("file", FILES, ids=ids(FILES))
def test_every_name_a_module_exports_is_defined_in_it(file):
    if file.name in ("__init__.py", "__main__.py"):
        return
    tree = ast.parse(file.read_text())
    exported = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["__all__"]
    ]
    defined = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    # Names that are assigned, also several at once: a, b = ...
    defined |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    for names in exported:
        assert set(names) <= defined


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_says_that_it_is_typed(package):
    assert (ROOT / package / "py.typed").is_file()


@pytest.mark.parametrize("package", PACKAGES)
def test_every_folder_of_python_files_is_a_package(package):
    folders = {file.parent for file in FILES if file.is_relative_to(ROOT / package)}
    assert all((folder / "__init__.py").is_file() for folder in folders)


def test_the_tests_are_no_package():
    # With an `__init__`, tests/ctrnn would be imported in place of ctrnn.
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_the_reader_of_imports_sees_every_way_to_write_one(tmp_path, monkeypatch):
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    file = tmp_path / "ctrnn" / "inner" / "file.py"
    file.parent.mkdir(parents=True)
    file.write_text(
        "import a.b\nfrom c import d\nfrom .. import e\nfrom ..f import g\n"
        "def later():\n    import h\n    importlib.import_module('i.j')\n    __import__('k')\n"
    )
    modules = set(imported_modules(file))
    assert {"a.b", "c", "c.d", "ctrnn", "ctrnn.e", "ctrnn.f", "ctrnn.f.g", "h", "i.j", "k"} <= modules
