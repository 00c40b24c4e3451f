"""Studies: runs survive the death of their processes, nothing is done twice or mixed, and pages say no more than records do."""

import base64
import dataclasses
import html
import importlib.util
import json
import math
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import pages
import pytest
from fake_studies import Doubled, Fake, Settings, draws, records_of, tables_of
from hypothesis import given
from hypothesis import strategies as st

from derivations.processes.pool import End
from experiments.reports.bands import LOOKS, bands
from experiments.reports.machine import cores
from experiments.reports.pages import short_paragraphs
from experiments.reports.spreads import NotEnoughError, Spread, markdown, number, spread
from experiments.runs.configuration import configuration
from experiments.studies import docs_page
from experiments.studies.folder import claimed, configuration_of, described, keep, kept, opened, place_of
from experiments.studies.found import Found, folders_of
from experiments.studies.html_page import write
from experiments.studies.listing import LISTED, listed, listing
from experiments.studies.records import changed
from experiments.studies.registry import OWN, STUDIES, loaded, study_named
from experiments.studies.report import report_of
from experiments.studies.results import Results, groups, spreads, where
from experiments.studies.runner import run
from experiments.studies.study import DATA, SCALES, Run, RunMeasures
from experiments.usage import UsageError

TESTS, ROOT = Path(__file__).resolve().parents[2], Path(__file__).resolve().parents[3]
TABLES = ROOT / "docs" / "tables"


def where_changed(names):
    """All of them, those slow that are made of what they were made of when they were recorded."""
    return [name if name in changed() else pytest.param(name, marks=pytest.mark.slow) for name in names]


def carried_out(folder, study="Fake", workers=2, shard=(1, 1), scale="small"):
    return run(f"fake_studies:{study}", scale, folder, f"typed {shard}", workers, shard)


def results(folder):
    """Every record, but for where it was made."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("runs/*/rows.json"))]
    return {record["key"]: {name: part for name, part in record.items() if name != "made"} for record in found}


def attempts(folder):
    return {path.parent.name: len(path.read_text().split()) for path in sorted(folder.glob("runs/*/attempts"))}


KEYS = [f"run-{seed}" for seed in range(6)]


class Here:
    """In place of worker processes, each of which has all to import: what is asked is which runs are taken."""

    def __init__(self, size, work, *_):
        self.work = work

    def carry_out(self, keys):
        do = self.work.begun()
        yield from (End(key, do(key)) for key in keys)


@pytest.fixture
def without_processes(monkeypatch):
    monkeypatch.setattr("derivations.processes.pool.WorkerPool", Here)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """A folder in which everything is done."""
    folder = tmp_path_factory.mktemp("whole")
    assert carried_out(folder)
    return folder


@pytest.fixture
def done(whole, tmp_path):
    return Path(shutil.copytree(whole, tmp_path / "done"))


def test_records_do_not_depend_on_how_many_workers_there_are(whole, tmp_path):
    assert carried_out(tmp_path, workers=1)
    assert results(tmp_path) == results(whole)
    assert list(results(whole)) == KEYS
    at_work = {(place_of(whole, key) / "attempts").read_text().strip() for key in KEYS}
    assert len(at_work) <= 2  # each process imports once and takes run after run
    assert str(os.getpid()) not in at_work
    draw = random.Random(4)  # the numbers themselves, drawn a second time
    assert results(whole)["run-4"]["point"] == {"kind": "run", "seed": 4}
    assert results(whole)["run-4"]["measures"] == {"loss": draw.random()}
    assert [row["x"] for row in results(whole)["run-4"]["rows"]] == [draw.random() for _ in range(3)]


def test_a_death_or_an_exception_costs_its_own_run_only(tmp_path, capfd):
    assert not carried_out(tmp_path, "Troubled")
    assert list(results(tmp_path)) == ["run-0", "run-3", "run-4", "run-5"]
    assert attempts(tmp_path) == {"run-0": 2, "run-1": 2, "run-2": 1, "run-3": 1, "run-4": 1, "run-5": 1}
    said = capfd.readouterr().out
    assert "FAILED  run-1: its process was killed by SIGKILL (perhaps memory ran out), 2 times" in said
    assert "FAILED  run-2: ZeroDivisionError: the second line says it" in said
    assert "4 of 6 runs" in said
    error = (place_of(tmp_path, "run-2") / "error.txt").read_text()
    assert "Traceback" in error
    assert "in live" in error
    # The same command tries these again, and only these; what went wrong before is forgotten once it is right.
    assert carried_out(tmp_path)
    assert attempts(tmp_path) == {"run-0": 2, "run-1": 3, "run-2": 2, "run-3": 1, "run-4": 1, "run-5": 1}
    assert not (place_of(tmp_path, "run-2") / "error.txt").exists()
    assert "6 runs, 4 done before, 2 missing" in capfd.readouterr().out


@pytest.mark.usefixtures("without_processes")
def test_a_second_call_does_only_what_is_missing_or_damaged(done, whole, capsys):
    assert carried_out(done)
    assert "all done before" in capsys.readouterr().out
    assert attempts(done) == attempts(whole)
    torn, other, gone = (place_of(done, key) / "rows.json" for key in KEYS[:3])
    torn.write_text(torn.read_text()[:-40])
    other.write_text(json.dumps({**json.loads(other.read_text()), "rows": None}))
    gone.unlink()
    assert carried_out(done)
    assert results(done) == results(whole)
    assert list(attempts(done).values()) == [2, 2, 2, 1, 1, 1]


def test_a_record_holds_what_a_table_can_and_nothing_else(tmp_path):
    run, made = Fake().runs("smoke")[0], {}
    place_of(tmp_path, run.key).mkdir(parents=True)
    rows = [{"unit": 0, "word": "a", "is": True, "none": None, "left": [1.0, 0.5, None]}]
    keep(tmp_path, run, RunMeasures({"loss": 0.5}, rows, 1.0), made)
    assert kept(tmp_path, run.key, configuration_of(run))["rows"] == rows
    for odd in ({"left": [[1.0]]}, {"left": {"a": 1}}):
        with pytest.raises(TypeError, match=r"list of numbers, got .* for 'left'"):
            keep(tmp_path, run, RunMeasures({"loss": 0.5}, [odd], 1.0), made)
    assert kept(tmp_path, run.key, configuration_of(run))["rows"] == rows


@pytest.mark.parametrize("begun", ["abc", None])
def test_a_page_says_at_which_commits_all_its_runs_were_begun(begun, done):
    for key, commit in zip(KEYS, ["abc", "def", *[begun] * len(KEYS[2:])], strict=True):
        (place_of(done, key) / "config.json").write_text(json.dumps({"commit": commit}))
        keep(done, next(run for run in Fake().runs("smoke") if run.key == key), RunMeasures({"loss": 0.5}, [], 1.0), {})
    assert report_of(done, Fake()).found.commits == ("abc, def" if begun else "")
    assert ("Trained at commit abc, def." in report_of(done, Fake()).markdown(str)) == bool(begun)


@pytest.mark.usefixtures("without_processes")
def test_shards_are_disjoint_and_complete(tmp_path, whole):
    for part in (1, 2, 3):
        assert carried_out(tmp_path / str(part), shard=(part, 3), workers=1)
    shares = [set(results(tmp_path / str(part))) for part in (1, 2, 3)]
    assert sorted(key for share in shares for key in share) == KEYS
    # Folders copied together are one.
    for part in (2, 3):
        shutil.copytree(tmp_path / str(part), tmp_path / "1", dirs_exist_ok=True)
    assert results(tmp_path / "1") == results(whole)
    before = attempts(tmp_path / "1")
    assert carried_out(tmp_path / "1")
    assert attempts(tmp_path / "1") == before


@pytest.mark.usefixtures("without_processes")
@pytest.mark.parametrize(("workers", "threads"), [(1, 8), (3, 2), (9, 1)])
def test_processors_are_shared_out_to_workers_as_threads(workers, threads, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("experiments.reports.machine.cores", lambda: 8)
    carried_out(tmp_path, workers=workers)
    begun = f"{min(workers, 6)} worker{'s' * (workers > 1)} with {threads} thread{'s' * (threads > 1)} each"
    assert begun in capsys.readouterr().out
    assert described(tmp_path)["machine"]["threads"] == str(threads)


def test_a_folder_from_before_a_setting_came_is_gone_on_with(tmp_path):
    runs = [Run("first", {}, configuration("recall", "leaky", "euler", alpha=0.3))]
    about = {"command": "again"}
    opened(tmp_path, "fake", "smoke", runs, about)
    place = tmp_path / "study.json"
    now = place.read_text()
    written = json.loads(now)
    del written["runs"]["first"]["field_settings"]["recurrent_gain"]
    place.write_text(json.dumps(written))
    opened(tmp_path, "fake", "smoke", runs, about)
    assert json.loads(place.read_text()) == json.loads(now)
    other = [Run("first", {}, configuration("recall", "leaky", "euler", alpha=0.3, recurrent_gain=0.1))]
    with pytest.raises(UsageError, match=r"of another configuration \(field_settings\.recurrent_gain is 0\.1 and was None"):
        opened(tmp_path, "fake", "smoke", other, about)


@pytest.mark.usefixtures("without_processes")
def test_another_study_scale_or_configuration_is_refused_and_nothing_is_touched(done, whole):
    before = {path: path.read_bytes() for path in done.rglob("*") if path.is_file()}
    with pytest.raises(UsageError, match="holds the study 'fake' at scale 'small', not 'fake' at 'paper'"):
        carried_out(done, scale="paper")
    with pytest.raises(UsageError, match=r"fake has nothing to run. The data are missing."):
        carried_out(done / "new", "Empty")
    assert not (done / "new").exists()
    with pytest.raises(TypeError, match="is no Study"):
        loaded("builtins:dict")
    with pytest.raises(UsageError, match=r"run 'run-0' of another configuration \(size is 2 and was 1\)"):
        carried_out(done, "Larger")
    (done / "study.json").unlink()  # the records know too
    with pytest.raises(UsageError, match=r"run 'run-0' of another configuration \(size is 2 and was 1\).*another folder"):
        carried_out(done, "Larger")
    assert all(path.read_bytes() == text for path, text in before.items() if path.name != "study.json")
    (done / "study.json").write_text("{")
    with pytest.raises(UsageError, match="damaged; delete that file"):
        carried_out(done)
    (done / "study.json").unlink()
    assert carried_out(done)
    assert attempts(done) == attempts(whole)


def test_runs_may_come_to_a_folder_and_none_may_go(tmp_path):
    def opened_with(keys):
        runs = [Run(key, {"seed": 0}, Settings(0)) for key in keys]
        opened(tmp_path, "fake", "smoke", runs, {"command": "typed"})
        return list(described(tmp_path)["runs"])

    assert opened_with(KEYS[:2]) == KEYS[:2]
    assert opened_with(KEYS[:4]) == KEYS[:4]
    with pytest.raises(UsageError, match=r"run 'run-0' .*it is asked for no more"):
        opened_with(KEYS[1:4])
    assert list(described(tmp_path)["runs"]) == KEYS[:4]


def test_a_run_that_another_call_is_at_work_on_is_left_to_it(tmp_path, capsys):
    with claimed(place_of(tmp_path, "run-3")) as mine:
        assert mine
        assert carried_out(tmp_path)
    assert list(results(tmp_path)) == [key for key in KEYS if key != "run-3"]
    assert "Left to another call on this folder, which is at work on them: run-3." in capsys.readouterr().out
    assert carried_out(tmp_path)
    assert list(results(tmp_path)) == KEYS


def test_workers_that_do_not_come_up_are_told_and_not_started_forever(tmp_path, capfd):
    assert not carried_out(tmp_path, "Stubborn", workers=1)
    said = capfd.readouterr().out
    assert said.count("no worker process comes up: it ended with exit code 3") == 2 * len(KEYS)
    assert "No run is done." in said


SCRIPT = """
import sys
from experiments.studies.registry import STUDIES
from experiments.__main__ import main
STUDIES.add("fake", "fake_studies:Slow")
if __name__ == "__main__":
    sys.exit(main(["study", "run", "fake", "--scale", "smoke", "--out", sys.argv[1], "--workers", "2"]))
"""


def begun(tmp_path):
    """A call whose two workers are both in a run, and their ids."""
    (tmp_path / "script.py").write_text(SCRIPT)
    path = os.pathsep.join([str(ROOT), str(TESTS)])
    call = subprocess.Popen(
        [sys.executable, str(tmp_path / "script.py"), str(tmp_path / "out")], cwd=tmp_path, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    deadline = time.monotonic() + 60
    while len(files := list((tmp_path / "out").glob("runs/*/attempts"))) < 2 or not all(f.read_text() for f in files):
        assert call.poll() is None, call.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return call, [int(file.read_text()) for file in files]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until_gone(pids, seconds):
    deadline = time.monotonic() + seconds
    while any(map(alive, pids)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(alive, pids))


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc who is alive")
def test_workers_save_and_end_when_their_parent_is_killed(tmp_path):
    call, pids = begun(tmp_path)
    assert all(map(alive, pids))
    call.kill()
    wait_until_gone(pids, 5)
    call.communicate()
    assert len(list((tmp_path / "out").glob("runs/*/saved"))) == 2
    assert not results(tmp_path / "out")


@pytest.mark.slow  # one that is interrupted while it trains is in runs/test_training.py
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="asks /proc who is alive")
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_study_saves_and_says_how_to_go_on(tmp_path, number, code):
    call, pids = begun(tmp_path)
    call.send_signal(number)
    _, said = call.communicate(timeout=20)
    assert call.returncode == code
    assert "0 of 6 runs are done and kept, those begun are saved. To go on: ctrnn study run fake --scale smoke --out " in said
    assert "Traceback" not in said
    assert len(list((tmp_path / "out").glob("runs/*/saved"))) == 2
    assert not any(map(alive, pids))


def written(folder):
    return write(folder, Fake())


def test_the_page_says_claim_verdict_numbers_and_loads_nothing(done):
    told = written(done)
    assert told.startswith("Partly reproduced. Some of it <is>.\n")
    page = pages.read((done / "index.html").read_text())  # which loads nothing
    text = page.all("body")[0].text
    for words in ("Is 1 < 2?", "“It is < always.”", "Nobody, never.", "Partly reproduced.", "Some of it <is>.",
                  "Nothing | was open.", "all 6 runs", "3 s of training in all", "The means.", "typed (1, 1)",
                  f"threads {max(1, cores() // 2)}"):  # fmt: skip
        assert words in text, words
    found = report_of(done, Fake())
    assert "of the processor" not in found.cost  # less than the trainings took: of runs that were measured anew
    for record in found.results.records:
        record["made"]["processor seconds"] = "2.00"
    assert "12 s of the processor with all tests" in found.cost
    losses = [results(done)[key]["measures"]["loss"] for key in KEYS]
    shown = {row.children[0].text: row.children[1].text for row in page.all("tr")}
    assert [shown[key] for key in KEYS] == [f"{loss:.3g}" for loss in losses]
    assert shown["largest"] == f"{max(losses):.3g}"
    assert (done / "means.svg").read_text().startswith("<svg xmlns=")
    assert (done / "table.md").read_text().startswith("Partly reproduced. Some of it <is>.\n\nIn words.\n\n| run | loss |")


def test_a_part_of_the_runs_is_always_called_one(done):
    for key in KEYS[3:]:
        (place_of(done, key) / "rows.json").unlink()
    assert "Some of it <is>. This is from 3 of 6 runs." in written(done)
    (place_of(done, "run-2") / "rows.json").unlink()
    assert "Not decided yet. Three runs are needed. This is from 2 of 6 runs." in written(done)
    for key in KEYS[:2]:
        (place_of(done, key) / "rows.json").unlink()
    assert "Not decided yet. No run is done. This is from 0 of 6 runs." in written(done)
    assert "0 of 6 runs" in (done / "index.html").read_text()


@pytest.mark.usefixtures("without_processes")
def test_at_the_smoke_scale_the_page_has_the_tables_and_no_verdict(tmp_path, capsys):
    assert carried_out(tmp_path, scale="smoke")
    assert written(tmp_path).startswith("No verdict. Nothing was trained to decide this.\n")
    assert "eproduced" not in capsys.readouterr().out
    for words in (
        report_of(tmp_path, Fake()).markdown(str),
        *((tmp_path / name).read_text() for name in ("table.md", "index.html")),
    ):
        assert "Nothing was trained to decide this." in words
        assert "eproduced" not in words
        assert "run-0" in words  # a line of the table


def test_another_experiment_than_the_printed_one_leaves_the_claim_undecided_and_tells_what_was_found(done, monkeypatch):
    monkeypatch.setattr(Fake, "another", {"small": "The claim is of more."})
    assert written(done).startswith("Undecided. The claim is of more. What was found in it: Some of it <is>.\n")
    monkeypatch.setattr(Fake, "another", {"paper": "The claim is of more."})
    assert written(done).startswith("Partly reproduced. Some of it <is>.\n")


def test_a_page_begins_with_claim_verdict_and_figure_and_ends_with_tables_and_machine(done):
    report = report_of(done, Fake())
    text = report.markdown(lambda name: f"figures/{name}.svg")
    order = [
        "> It is < always.",
        "**Partly reproduced.** Some of it <is>.",
        "![The means.](figures/means.svg)",
        "- Nothing | was open.",
    ]
    places = [text.index(words) for words in (*order, "| run | loss |", "`typed (1, 1)`: all 6 runs", "Machine: ")]
    assert places == sorted(places)
    shown = report._repr_markdown_()  # as a notebook shows it, the figures inside
    (figure,) = re.findall(r"!\[The means.\]\(data:image/svg\+xml;base64,(\S+)\)", shown)
    assert base64.b64decode(figure).decode() == report.svg("means")
    assert shown.replace(f"data:image/svg+xml;base64,{figure}", "figures/means.svg") == text


def test_what_is_recorded_of_a_report_says_the_same_without_its_runs(done, tmp_path):
    report = report_of(done, Fake())
    for missing in (0, 2):
        for key in KEYS[:missing]:
            (place_of(done, key) / "rows.json").unlink()
        report = report_of(done, Fake())
        docs_page.record(report, tmp_path)
        found = Found.read(tmp_path / "tables" / "fake")
        assert (found.heading, found.sentence) == (report.word, report.sentence)
        assert found.markdown(Fake(), str) == report.markdown(str)
    assert "This is from 4 of 6 runs." in found.markdown(Fake(), str)


def test_the_command_writes_the_pages_that_change_and_no_others(done, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(docs_page, "report_of", lambda folder: report_of(folder, Fake()))
    monkeypatch.setattr(docs_page, "study_named", lambda name: Fake())
    monkeypatch.setattr(docs_page, "OWN", ["fake"])
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "studies.md").write_text("before\n")
    with pytest.raises(UsageError, match="the page has no place for 'found'"):
        docs_page.main((done,), docs)
    (docs / "studies.md").write_text("before\n<!-- studies: found -->\n<!-- end -->\nafter\n")
    docs_page.main((), docs)
    page, figure = docs / "studies" / "fake.md", docs / "figures" / "fake-means.svg"
    assert page.read_text().startswith("# Fake\n\n*Is 1 < 2?*\n")
    assert "![The means.](../figures/fake-means.svg)" in page.read_text()
    assert (
        '\n| <a id="fake"></a>[Fake](studies/fake.md) | Is 1 < 2? | partly reproduced |\n<!-- end -->'
        in (docs / "studies.md").read_text()
    )
    (docs / "tables" / "fake" / "words.txt").write_text("# Of chance\n\nIn short.\n\nAnd more.\n\n## Beside it\n\nNothing.\n")
    before, _ = figure.stat().st_mtime_ns, capsys.readouterr()
    docs_page.main((done,), docs)
    assert capsys.readouterr().out.split() == [str(page), str(docs / "studies.md")]
    assert figure.stat().st_mtime_ns == before
    assert page.read_text().startswith("# Of chance\n")
    order = [
        "**Partly reproduced.** In short.",
        "![The",
        "And more.",
        "Some of it <is>.",
        "## Beside it\n\nNothing.",
        "## What was taken",
    ]
    assert (places := [page.read_text().index(words) for words in order]) == sorted(places)


def test_another_scale_has_a_record_figures_and_a_section_of_its_own(done, tmp_path, monkeypatch):
    monkeypatch.setattr(docs_page, "study_named", lambda name: Fake())
    monkeypatch.setattr(docs_page, "OWN", ["fake"])
    report, tables = report_of(done, Fake()), tmp_path / "tables" / "fake"
    docs_page.record(report, tmp_path)
    before = (tables / "report.json").read_bytes()
    for key in KEYS[:2]:
        (place_of(done, key) / "rows.json").unlink()
    beside = dataclasses.replace(report_of(done, Fake()), asked={**report.asked, "scale": "paper"})
    docs_page.record(beside, tmp_path, beside=True)
    assert (tables / "report.json").read_bytes() == before
    assert folders_of(tables) == [tables, tables / "paper"]
    assert (tmp_path / "figures" / "fake-paper-means.svg").exists()
    (tables / "paper" / "words.txt").write_text("# At the printed sizes\n\nIt is seen again.\n")
    page = docs_page.page(Fake(), tmp_path)
    first, section = page.partition("## At the printed sizes\n\nIt is seen again.\n")[::2]
    assert "This is from 4 of 6 runs." not in first
    section, after = section.partition("## What was taken")[::2]
    order = [
        "![The means.](../figures/fake-paper-means.svg)",
        "**Partly reproduced.**",
        "This is from 4 of 6 runs.",
        "4 of 6 runs, ",
    ]
    assert (places := [section.index(words) for words in order]) == sorted(places)
    assert "all 6 runs" in after
    assert docs_page.indexed("<!-- studies: found -->\n<!-- end -->", [Fake()], tmp_path).count(
        "| partly reproduced; at `paper`: partly reproduced |"
    )


def test_what_is_no_verdict_no_record_or_has_no_title_is_told_and_changes_nothing(done, tmp_path):
    folder, report = tmp_path / "tables" / "fake", report_of(done, Fake())
    docs_page.record(report, tmp_path)
    before = (folder / "report.json").read_bytes()
    for key in KEYS[:4]:
        (place_of(done, key) / "rows.json").unlink()
    with pytest.raises(
        UsageError, match=r"nothing is published of fake without a verdict: Not decided yet\. Three runs are needed\."
    ):
        docs_page.record(report_of(done, Fake()), tmp_path)
    assert (folder / "report.json").read_bytes() == before
    for words in ("", "In short.\n", "# A title\nand more\n"):
        (folder / "words.txt").write_text(words)
        with pytest.raises(UsageError, match=r"words.txt begins with a title"):
            docs_page.page(Fake(), tmp_path)
    for text in ("", "[]", "{}", before.decode().replace("heading", "word")):
        (folder / "report.json").write_text(text)
        with pytest.raises(UsageError, match=r"report.json is no record"):
            Found.read(folder)


@pytest.mark.parametrize(
    ("text", "counts"),
    [
        ("One. Two words", [3]),
        (f"{'a ' * 8}b. C d.", [9, 2]),
        (f"{'a ' * 5}b; {'c ' * 8}d. E.", [6, 10]),
        (f"(a; {'b ' * 9}c). D `e; f. G`.", [11, 4]),
        ("", [0]),
    ],
)
def test_a_text_is_split_where_its_sentences_end(text, counts):
    parts = short_paragraphs(text, 10)
    assert " ".join(parts) == text
    assert [len(part.split()) for part in parts] == counts


@pytest.mark.parametrize("key", ["", "a/b", "..", "A", "a b", ".a"])
def test_a_key_is_a_plain_folder_name(key):
    with pytest.raises(ValueError, match="a run's key"):
        Run(key, {"seed": 0}, Settings(0))


def test_a_study_has_no_two_runs_of_one_key():
    with pytest.raises(ValueError, match="two runs have the key 'run-0'"):
        Doubled().runs("smoke")


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=6))
def test_a_spread_has_the_mean_between_its_ends(values):
    found = spread(values)
    assert (found.low, found.high, found.count) == (min(values), max(values), len(values))
    assert found.low <= found.mean <= found.high
    assert math.isclose(found.mean, statistics.fmean(values), rel_tol=1e-12, abs_tol=1e-9)


def test_what_is_not_finite_shows_in_the_mean_and_no_runs_are_not_enough():
    found = spread([1.0, math.nan, 3.0])
    assert math.isnan(found.mean)
    assert (found.low, found.high, str(found)) == (1.0, 3.0, "not finite (1.0–3.0)")
    with pytest.raises(NotEnoughError):
        spread([])


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.123456, "0.123"),
        (0.9996, "0.9996"),
        (0.99996, "0.99996"),
        (0.95, "0.950"),
        (1.0, "1"),
        (0.0, "0"),
        (123456.0, "123000"),
        (12.345, "12.3"),
        (0.00001234, "1.23e-05"),
        (-0.5, "-0.500"),
        (9.996, "10.0"),
        (12, "12"),
        (math.inf, "not finite"),
    ],
)
def test_a_number_keeps_three_digits_and_is_never_rounded_to_1(value, words):
    assert number(value) == words


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ([0.52, 0.48, 0.56], "0.520 (0.480–0.560)"),
        ([0.98, 0.2], "0.59 (0.20–0.98)"),
        ([100.0, 300.0], "200 (100–300)"),
        ([0.5], "0.500"),
        ([0.25, 0.25], "0.250"),
        ([0.9995, 1.0], "0.99975 (0.99950–1.00000)"),
        ([4e-9, 5e-9], "4.5e-09 (4.0e-09–5.0e-09)"),
        ([1e7, 1.1e7, 1.2e7], "1.10e+07 (1.00e+07–1.20e+07)"),
    ],
)
def test_a_spread_is_written_with_two_digits_of_what_it_spans(values, words):
    assert str(spread(values)) == words


def test_records_are_two_frames_with_the_axes_of_their_points():
    records = [
        {"key": str(k), "point": {"size": k % 3, "seed": k % 2}, "configuration": {"training": {"steps": 5 + k % 2}},
         "measures": {"loss": float(k)}, "rows": [{"x": k, "y": 1.0}, {"x": -k, "y": None}], "diverged": None}
        for k in range(6)
    ]  # fmt: skip
    results = Results(records)
    assert list(groups(results.runs, ["size", "seed"])) == [(0, 0), (1, 1), (2, 0), (0, 1), (1, 0), (2, 1)]
    assert spreads(results.runs, ["seed"], "loss") == {(0,): Spread(2, 0, 4, 3), (1,): Spread(3, 1, 5, 3)}
    assert list(results.rows["x"]) == [x for k in range(6) for x in (k, -k)]
    assert where(results.rows, size=1, seed=0)["x"].tolist() == [4, -4]
    assert where(results.rows, colour="red").empty
    assert results.settings("steps") == [5, 6]
    with pytest.raises(KeyError, match="setting 'rate'"):
        results.settings("rate")
    assert Results([]).rows.empty


def test_a_table_keeps_its_columns_whatever_is_in_a_cell():
    text = markdown(["a", "b"], [("x|y\nz", 0.12345), (None, Spread(2, 1, 3, 2))])
    assert text.splitlines()[2:] == ["| x\\|y z | 0.123 |", "| – | 2.0 (1.0–3.0) |"]


def test_lines_are_told_apart_without_colour_and_bands_span_what_they_say():
    assert all(len({str(look[part]) for look in LOOKS}) == len(LOOKS) for part in range(3))
    points = {2.0: Spread(0.4, 0.3, 0.6, 3), 1.0: Spread(0.2, 0.1, 0.9, 3)}
    figure = bands({"left": {"a": points}, "right": {"b": points, "a": points}}, "x", "y", levels={"chance": 0.5})
    lines = [[line for line in ax.get_lines() if line.get_label() in ("a", "b")] for ax in figure.axes]
    assert [[line.get_label() for line in panel] for panel in lines] == [["a"], ["b", "a"]]
    assert lines[0][0].get_xydata().tolist() == [[1.0, 0.2], [2.0, 0.4]]
    (one,), (other, same) = lines
    drawn = [(line.get_color(), line.get_marker()) for line in (one, same, other)]
    assert drawn[0] == drawn[1]
    assert all(mine != theirs for mine, theirs in zip(drawn[0], drawn[2], strict=True))
    corners = figure.axes[0].collections[0].get_paths()[0].vertices
    assert {tuple(corner) for corner in corners.tolist()} == {(1.0, 0.1), (1.0, 0.9), (2.0, 0.3), (2.0, 0.6)}
    with pytest.raises(NotEnoughError):
        bands({"left": {}}, "x", "y")
    with pytest.raises(ValueError, match="6 lines"):
        bands({"left": {str(k): points for k in range(6)}}, "x", "y")


@pytest.mark.parametrize("name", list(STUDIES))
def test_a_study_says_what_it_asks_and_has_its_place_in_the_docs(name):
    study = study_named(name)
    assert study.name == name
    assert all([study.question.endswith("?"), study.claim, study.source, study.prior_work, study.resolutions])
    assert set(study.minutes) == set(SCALES)
    assert min(study.minutes.values()) > 0


@pytest.mark.each_value
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", where_changed(STUDIES))
def test_the_runs_of_a_study_have_keys_of_their_own_and_configurations_that_come_back_from_json(name, scale):
    study = study_named(name)
    runs = study.runs(scale)
    assert len({one.key for one in runs}) == len(runs)
    assert runs or study.left_out()  # says why there is none
    for asked in (one.configuration for one in runs[:: 1 + len(runs) // 20]):  # some 20, through all that is varied
        assert type(asked).from_json(json.loads(json.dumps(asked.to_json()))) == asked


@pytest.mark.parametrize(
    ("accuracies", "word"),
    [((1.0, 0.995, 0.99), "reproduced"), ((0.5, 1.0, 1.0), "partly"), ((0.98, 0.989, 0.1), "not reproduced")],
)
def test_the_unwarped_task_is_reproduced_where_every_model_succeeds(accuracies, word):
    study, accuracy = study_named("unwarped"), dict(zip(("plain", "leaky", "gated"), accuracies, strict=True))
    records = records_of(study, "small", lambda run: ({"accuracy": accuracy[run.point["model"]], "loss": 0.1}, []))
    assert study.verdict(Results(records)).word == word
    assert study.verdict(Results(records[:3])).word == word
    with pytest.raises(NotEnoughError, match="no run of leaky, gated"):
        study.verdict(Results(records[:1]))
    assert study.tables[0].markdown(Results(records)).count("\n| ") == 5
    assert study.figures["accuracy"].draw(Results(records[:1])).axes


def test_wrong_usage_and_help_answer_without_torch(tmp_path, subtests):
    asked = {
        ("study",): (2, "Expected one of {list, fetch, cost, run, plot, export, restore}"),
        ("study", "--help"): (0, "usage: ctrnn study [-h] {list,fetch,cost,run,plot,export,restore}"),
        ("study", "run", "--help"): (0, "usage: ctrnn study run"),
        ("study", "lits"): (2, "there is no command 'lits'; did you mean 'list'?"),
        ("study", "run", "unwraped", "--out", "x"): (2, "there is no study 'unwraped'; did you mean 'unwarped'?"),
        ("study", "run", "qqqq", "--out", "x"): (2, f"there is no study 'qqqq'; there is {', '.join(STUDIES)}."),
        ("study", "run", "unwarped"): (2, "--out DIR"),
        ("study", "run", "unwarped", "--out", "x", "--scale", "smok"): (2, "no scale 'smok'; did you mean 'smoke'?"),
        ("study", "run", "unwarped", "--out", "x", "--shard", "0/2"): (2, "--shard is I/N with I from 1 to N"),
        ("study", "run", "unwarped", "--out", "x", "--shard", "3/2"): (2, "--shard is I/N with I from 1 to N"),
        ("study", "run", "unwarped", "--out", "x", "--workers", "0"): (2, "at least 1; got 0"),
        ("study", "run", "unwarped", "--out", "x", "--budget", "3"): (
            2,
            "a time such as 3h, 45min, 90s or 2d; got '3'",
        ),
        ("study", "plot", str(tmp_path)): (2, "no study.json in it"),
        ("study", "export", str(tmp_path), "--out", "x"): (2, "no study.json in it"),
        ("study", "restore", str(tmp_path), "--out", "x"): (2, "has no tables of a study"),
    }
    script = (
        "import contextlib, io, json, sys\nfrom experiments.__main__ import main\nfound = []\n"
        "for words in json.loads(sys.argv[1]):\n    said = io.StringIO()\n"
        "    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):\n        code = main(words)\n"
        "    heavy = [name for name in ('torch', 'sympy', 'matplotlib') if name in sys.modules]\n"
        "    found.append((code, said.getvalue(), heavy))\nprint(json.dumps(found))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, json.dumps(list(asked))], cwd=ROOT, capture_output=True, text=True, check=True
    )
    for (words, (code, message)), found in zip(asked.items(), json.loads(done.stdout), strict=True):
        with subtests.test(" ".join(words[1:]) or "no word"):
            assert (found[0], found[2]) == (code, [])
            assert message in " ".join(found[1].replace("│", " ").split())
    assert not (ROOT / "x").exists()


@pytest.mark.slow
def test_the_smallest_study_gives_the_same_bits_by_one_worker_and_by_two(tmp_path):
    outs = []
    for workers in sorted({1, cores()}):
        out = tmp_path / str(workers)
        words = ["study", "run", "unwarped", "--scale", "smoke", "--out", str(out), "--workers", str(workers)]
        done = subprocess.run(
            [sys.executable, "-m", "experiments", *words], cwd=ROOT, capture_output=True, text=True, check=False,
        )  # fmt: skip
        said = [line for line in done.stderr.splitlines() if "compiling kernels" not in line]
        assert (done.returncode, said) == (0, [])
        assert "Nothing was trained to decide this." in done.stdout  # at that scale
        outs.append({key: record["measures"] for key, record in results(out).items()})
    assert outs[0] == outs[-1]
    plotted = subprocess.run(
        [sys.executable, "-m", "experiments", "study", "plot", str(out)], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert "Nothing was trained to decide this." in plotted.stdout


def test_the_example_of_contributing_is_a_study_that_runs(tmp_path):
    code = (ROOT / "CONTRIBUTING.md").read_text().partition("<!-- example: study -->\n```python\n")[2].partition("```")[0]
    (tmp_path / "more_units.py").write_text(code)
    spec = importlib.util.spec_from_file_location("more_units", tmp_path / "more_units.py")
    spec.loader.exec_module(module := importlib.util.module_from_spec(spec))
    study = module.MoreUnits()
    made = {run.key: study.carry_out(run, tmp_path / run.key) for run in study.runs("smoke")}
    records = records_of(study, "smoke", lambda run: (made[run.key].measures, []))
    verdict = study.verdict(Results(records))
    assert verdict.sentence.startswith("32 units recall better than 4: ")
    assert "| 4 | " in tables_of(study, Results(records))
    assert draws(study.figures["accuracy"], Results(records))
    assert draws(study.figures["accuracy"], Results([])) is None
    with pytest.raises(NotEnoughError):
        study.verdict(Results(records[:1]))
    ours = {4: 0.5, 32: 0.9}
    better = records_of(study, "smoke", lambda run: ({"accuracy": ours[run.point["units"]], "loss": 1.0}, []))
    assert study.verdict(Results(better)).word == "reproduced"


RECORDS = {file.parent.name: Found.read(file.parent) for file in TABLES.glob("*/report.json")}  # some are not run yet
BESIDE = [(name, other) for name in RECORDS for other in docs_page.other_scales(name)]
ALL_SCALES = {  # (study, name of a figure in a file, record, words)
    **{name: (name, list(found.figures), found, docs_page.read_words(TABLES / name)) for name, found in RECORDS.items()},
    **{
        f"{name}/{other.scale}": (name, [f"{other.scale}-{figure}" for figure in other.found.figures], other.found, other.words)
        for name, other in BESIDE
    },
}


@pytest.mark.parametrize("record", ALL_SCALES)
def test_the_verdict_in_the_docs_is_the_word_that_its_parts_give(record):
    name, figures, found, _ = ALL_SCALES[record]
    assert found.another in ("", *study_named(name).another.values())
    if found.parts:  # else a summary stands there
        assert found.verdict.heading == found.heading
    for figure in figures:
        drawn = (ROOT / "docs" / "figures" / f"{name}-{figure}.svg").read_text(encoding="utf-8")
        assert f">{html.escape(found.sentence)}</desc>" in drawn, figure


@pytest.mark.parametrize("record", ALL_SCALES)
def test_the_commands_of_a_study_name_no_folder_of_one_machine(record):
    assert " /" not in ALL_SCALES[record][2].commands


@pytest.mark.parametrize("record", ALL_SCALES)
def test_words_that_count_the_other_runs_count_those_that_are_not_recorded(record):
    _, _, found, words = ALL_SCALES[record]
    for other, of_all in re.findall(r"other (\d+) of (\d+) runs", "\n".join([*words.short, words.more])):
        assert f"{int(of_all) - int(other)} of {of_all} runs" in found.runs


@pytest.mark.parametrize("record", sorted({*ALL_SCALES} - {*RECORDS}))
def test_a_record_beside_is_of_the_scale_that_its_folder_names(record):
    scale = record.rpartition("/")[2]
    assert f"--scale {scale} " in ALL_SCALES[record][2].commands
    assert json.loads((TABLES / record / "tables.json").read_text())["scale"] == scale


@pytest.mark.parametrize("name", RECORDS)
def test_the_page_of_a_study_is_what_its_record_says(name):
    page = docs_page.page(study_named(name))
    assert page == (ROOT / "docs" / "studies" / f"{name}.md").read_text(encoding="utf-8"), (
        "run python -m experiments.studies.docs_page"
    )


def test_the_page_of_all_studies_has_a_line_for_each():
    text = (ROOT / "docs" / "studies.md").read_text(encoding="utf-8")
    assert text == docs_page.indexed(text, [study_named(name) for name in OWN if name in RECORDS]), (
        "run python -m experiments.studies.docs_page"
    )
    assert {file.stem for file in (ROOT / "docs" / "studies").glob("*.md")} == set(RECORDS)
    assert set(RECORDS) <= set(OWN)


@pytest.mark.parametrize("name", where_changed(name for name in RECORDS if (TABLES / name / "runs.csv").exists()))
def test_what_is_recorded_of_a_study_is_what_the_tables_of_its_runs_give(name):
    for folder in (folder for folder in folders_of(TABLES / name) if (folder / "runs.csv").exists()):
        assert report_of(folder).found.text() == Found.read(folder).text(), folder


# All of them -----------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("name", list(STUDIES))
def test_the_smoke_scale_runs_to_a_page_without_a_verdict(name, tmp_path):
    study = study_named(name)
    if not study.runs("smoke"):
        pytest.skip(study.left_out())  # the folder is named by CTRNN_DATA
    assert run(STUDIES[name], "smoke", tmp_path, "typed", workers=1)
    found = report_of(tmp_path)
    assert len(found.results.records) == len(study.runs("smoke"))
    page = (tmp_path / "index.html").read_text()
    assert "Nothing was trained to decide this." in page
    assert "eproduced" not in found.markdown(str).replace(
        "\n".join(f"- {words}" for words in study.resolutions), ""
    )  # which may say what counts as that
    assert "This is from" not in page


# Imports all claims; where one has changed: python -m experiments.studies.listing
def test_what_the_list_says_of_studies_without_importing_them_is_what_they_say(monkeypatch):
    monkeypatch.delenv(DATA, raising=False)
    assert json.loads(LISTED.read_text(encoding="utf-8")) == {name: listing(name) for name in OWN}


def test_a_study_whose_data_are_here_is_asked_for_its_runs(monkeypatch, tmp_path):
    (tmp_path / "mnist").mkdir()
    monkeypatch.setenv(DATA, str(tmp_path))
    assert "0 runs" not in listed("tallec-fig6")
    assert "Left out: mnist/" not in listed("tallec-fig6")
    monkeypatch.delenv(DATA)
    assert "Left out: mnist/" in listed("tallec-fig6")
