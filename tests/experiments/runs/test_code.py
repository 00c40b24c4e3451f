"""What a run is of beside its settings: the file of --plugin, and what that imports, may not change between two calls."""

import importlib
import json
import os
import sys

import pytest

from experiments.__main__ import main
from experiments.plugins import use
from experiments.runs.code import check_same_code, digests_of
from experiments.studies.folder import opened
from experiments.usage import UsageError

PLUGIN = """
import os, torch, ctrnn, helper
from package import inner

def mine(input_size, hidden_size, **keywords):
    import lazily
    return helper.made(input_size, hidden_size, **keywords)

FIELDS = {"mine-of-code": mine}
"""
HELPER = """
import importlib, ctrnn
def made(input_size, hidden_size, **keywords):
    importlib.import_module("by_words")
    return ctrnn.gru(input_size, hidden_size, **keywords)
"""
FILES = {"plugin.py": PLUGIN, "helper.py": HELPER, "lazily.py": "", "by_words.py": "", "other.py": "",
         "package/__init__.py": "", "package/inner.py": "from . import beside\n", "package/beside.py": ""}  # fmt: skip
READ = sorted(set(FILES) - {"by_words.py", "other.py"})


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    for module in ("helper", "lazily", "by_words", "package", "package.inner", "package.beside"):
        monkeypatch.delitem(sys.modules, module, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def test_the_code_of_a_run_is_the_plugin_and_what_it_imports_anywhere(folder):
    assert sorted(digests_of([str(folder / "plugin.py")])) == READ


@pytest.mark.parametrize("name", READ)
def test_each_file_that_is_read_and_no_other_may_not_change(folder, name):
    files = [str(folder / "plugin.py")]
    before = digests_of(files)
    (folder / "other.py").write_text("x = 1\n")
    check_same_code(folder / "config.json", files, before)
    (folder / name).write_text((folder / name).read_text() + "# more\n")
    with pytest.raises(UsageError, match=f"begun with other code: {name} changed since. Put back"):
        check_same_code(folder / "config.json", files, before)
    (folder / name).unlink()
    with pytest.raises(UsageError, match="begun with other code: "):
        check_same_code(folder / "config.json", files, before)


def test_packages_that_are_installed_beside_the_code_are_none_of_it(folder, monkeypatch):
    installed = folder / "other" / "site-packages"  # of an environment that is not Python's own
    installed.mkdir(parents=True)
    (folder / "helper.py").rename(installed / "helper.py")
    monkeypatch.syspath_prepend(str(installed))
    assert sorted(digests_of([str(folder / "plugin.py")])) == [name for name in READ if name != "helper.py"]


def test_what_was_imported_by_words_is_compared_before_it_is_imported_again(folder, monkeypatch):
    files = [str(folder / "plugin.py")]
    importlib.import_module("by_words")
    before = digests_of(files)
    assert "by_words.py" in before
    monkeypatch.delitem(sys.modules, "by_words")  # as in another process, at its start
    check_same_code(folder / "config.json", files, before)
    (folder / "by_words.py").write_text("x = 1\n")
    with pytest.raises(UsageError, match=r"begun with other code: by_words\.py changed since"):
        check_same_code(folder / "config.json", files, before)


def words(folder, steps, *more):
    plugin = str(folder / "plugin.py")
    start = ["train", "--task", "copy", "--field", "mine-of-code", "--integrator", "euler", "--plugin", plugin]
    return [*start, "--out", str(folder / "run"), "--set", f"steps={steps}", "hidden=2", "evaluation=4", "batch=2", *more]


@pytest.fixture
def config(folder):
    """Two steps of a run that reads all kinds of files; what its folder says of them."""
    use([str(folder / "plugin.py")])
    assert main(words(folder, 2)) == 0
    return folder / "run" / "config.json"


def test_a_run_keeps_a_digest_of_each_file_that_its_code_reads(config):
    assert set(READ) | {"by_words.py"} == set(json.loads(config.read_text())["code"])


@pytest.mark.usefixtures("config")
def test_a_run_does_not_go_on_with_another_model_and_does_with_the_same(folder, capsys, subtests):
    for name in ("plugin.py", "helper.py", "by_words.py"):
        kept = (folder / name).read_text(), (folder / name).stat()
        (folder / name).write_text(kept[0] + "# another model\n")
        os.utime(folder / name, ns=(kept[1].st_atime_ns, kept[1].st_mtime_ns))  # the file is known by its content
        with subtests.test(name):
            assert main(words(folder, 2, "--resume")) == 2
            assert main(words(folder, 3, "--resume")) == 2
            said = capsys.readouterr().err
            assert said.count(f"was begun with other code: {name} changed since") == 2
            assert 'take "code" out of' in said
        (folder / name).write_text(kept[0])
    assert main(words(folder, 3, "--resume")) == 0


def test_a_run_of_a_version_without_digests_goes_on_and_that_is_said(folder, config, capsys):
    told = json.loads(config.read_text())
    del told["code"]
    config.write_text(json.dumps(told))
    (folder / "plugin.py").write_text(PLUGIN + "# another model\n")
    assert main(words(folder, 3, "--resume")) == 0
    assert "whether they are what they were then is not known" in capsys.readouterr().err


def test_a_study_does_not_go_on_with_another_model(folder):
    files, about = [str(folder / "plugin.py")], {"command": "typed"}
    (folder / "study").mkdir()
    for _ in range(2):
        opened(folder / "study", "mine", "smoke", [], about, files)
    (folder / "helper.py").write_text(HELPER + "# more\n")
    with pytest.raises(UsageError, match=r"begun with other code: helper\.py changed since"):
        opened(folder / "study", "mine", "smoke", [], about, files)
    opened(folder / "study", "mine", "smoke", [], about)  # only read, as for a page
