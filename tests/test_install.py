"""Installing: what the page, the recipe for conda and the jobs of CI say, compared with pyproject.toml."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGE = (ROOT / "docs" / "install.md").read_text()
CONDA_NAMES = {"torch": "pytorch", "matplotlib": "matplotlib-base"}


def bounds(requirements):
    """Name -> bound, of requirements as pip and conda write them."""
    pairs = [re.fullmatch(r"([\w.-]+) ?([<>=][^;#]*)", each.strip()).groups() for each in requirements]
    return {name.lower(): bound for name, bound in pairs}


def test_the_page_lists_every_extra_once():
    listed = [name for row in re.findall(r"^\| (`.*?) \|", PAGE, re.MULTILINE) for name in re.findall(r"`(\w+)`", row)]
    extras = {*PROJECT["optional-dependencies"]}
    assert sorted(name for name in listed if name in extras) == sorted(extras)


def test_the_recipe_for_conda_asks_for_what_pip_is_asked_for():
    recipe = (ROOT / "tools" / "conda" / "recipe.yaml").read_text()
    run = recipe.split("\n  run:")[1].split("\n  run_constraints:")[0]
    asked = bounds(re.findall(r"^    - (.*)$", run, re.MULTILINE))
    extras = PROJECT["optional-dependencies"]
    wanted = bounds([*PROJECT["dependencies"], *extras["prove"], *extras["lab"], *extras["all"][1:]])
    assert asked.pop("python") == PROJECT["requires-python"]
    assert asked == {CONDA_NAMES.get(name, name): bound for name, bound in wanted.items()}
    by_hand = re.search(r"conda create .*python=[\d.]+ (.*)", PAGE)[1].replace("pytorch-cpu", "pytorch").split()
    assert sorted(by_hand) == sorted(asked)
    ((name, entry),) = PROJECT["scripts"].items()
    for line in (f'version: "{PROJECT["version"]}"', f"- {name} = {entry}", f"- python {PROJECT['requires-python']}"):
        assert re.search(rf"^ +{re.escape(line)}$", recipe, re.MULTILINE), line


@pytest.mark.parametrize("page", ["README.md", "docs/install.md"])
def test_pages_name_the_lowest_torch_and_numpy(page):
    text, lowest = (ROOT / page).read_text(), bounds(PROJECT["dependencies"])
    assert f"torch {lowest['torch'].removeprefix('>=')} or later" in text
    assert f"NumPy {lowest['numpy'].removeprefix('>=')} or later" in text


def test_ci_runs_the_lowest_torch_numpy_and_python():
    jobs = (ROOT / ".github" / "workflows" / "ci.yml").read_text()
    oldest = dict(re.findall(r'(\w+): "([\d.*]+)"', jobs.split("  oldest:")[1].split("include:")[1].split("}")[0]))
    lowest = bounds([*PROJECT["dependencies"], f"python {PROJECT['requires-python']}"])
    for name in ("torch", "numpy", "python"):
        assert lowest[name].startswith(f">={oldest[name].removesuffix('.0').removesuffix('.*')}"), name
