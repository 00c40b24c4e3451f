"""What other programs read of a study is what its trainings found: tables with pandas, models with safetensors."""

import csv
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from safetensors.numpy import load_file

import ctrnn
from experiments.runs.evaluation import evaluate
from experiments.runs.folder import load
from experiments.studies.folder import configuration_of, keep, kept, opened, place_of, records_in
from experiments.studies.registry import study_named
from experiments.studies.report import report_of
from experiments.studies.tables import export, read_tables, restore, write_tables
from experiments.usage import UsageError

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """Two of the runs of a study, carried out."""
    folder, study = tmp_path_factory.mktemp("study"), study_named("tallec-fig3")
    runs = study.runs("smoke")
    opened(folder, study.name, "smoke", runs, {"command": "typed"})
    for run in runs[:2]:
        keep(folder, run, study.carry_out(run, place_of(folder, run.key)), {"machine": 'a "small", one'})
    return folder, runs[:2]


def table(file):
    with file.open(newline="", encoding="utf-8") as opened_file:
        return list(csv.DictReader(opened_file))


def test_tables_and_models_are_those_of_the_trainings(done, tmp_path):
    folder, runs = done
    told = export(folder, tmp_path)
    assert told == f"{tmp_path}: 2 of 4 runs in runs.csv, 8 rows in rows.csv, 2 models in models/"
    lines, curves = table(tmp_path / "runs.csv"), table(tmp_path / "rows.csv")
    for run, line in zip(runs, lines, strict=True):
        record = json.loads((place_of(folder, run.key) / "rows.json").read_text())
        assert (line["key"], line["task"], int(line["T"]), line["start"]) == (run.key, "copy", 12, run.point["start"])
        assert (float(line["loss"]), line["machine"], line["diverged"]) == (record["measures"]["loss"], 'a "small", one', "")
        evaluations = table(place_of(folder, run.key) / "metrics.csv")
        found = [(int(row["step"]), float(row["loss"])) for row in curves if row["key"] == run.key]
        assert found == [(int(row["step"]), float(row["evaluation_loss"])) for row in evaluations if row["evaluation_loss"]]
        file, (trained, configuration) = tmp_path / "models" / f"{run.key}.safetensors", load(place_of(folder, run.key))
        for name, weight in load_file(file).items():
            assert (weight == trained.state_dict()[name].numpy()).all()
        again = evaluate(ctrnn.load(file), configuration.task, "test", 50, run.point["seed"], 8)
        # Sums of single precision, perhaps in another order.
        assert again["loss"] == pytest.approx(record["measures"]["loss"], rel=1e-5)


@pytest.mark.parametrize("hidden", [("config.json",), ("checkpoint.pt", "previous.pt")])  # the last: diverged at once
def test_a_run_without_a_model_has_its_rows_in_the_tables(done, tmp_path, hidden):
    folder, runs = done
    export(folder, tmp_path)
    kept = {file: file.read_bytes() for name in hidden if (file := place_of(folder, runs[0].key) / name).exists()}
    for file in kept:
        file.unlink()
    try:
        assert "2 of 4 runs" in (told := export(folder, tmp_path))
        assert told.endswith("1 models in models/")
    finally:
        for file, held in kept.items():
            file.write_bytes(held)


@pytest.mark.slow
def test_modules_of_torch_have_their_rows_and_no_file(tmp_path, monkeypatch):
    (tmp_path / "tinyshakespeare").mkdir()
    (tmp_path / "tinyshakespeare" / "input.txt").write_text("to be or not to be " * 50)
    monkeypatch.setenv("CTRNN_DATA", str(tmp_path))
    folder, study = tmp_path / "study", study_named("tallec-fig7")
    runs = study.runs("smoke")
    opened(folder, study.name, "smoke", runs, {"command": "typed"})
    for run in [each for each in runs if each.point["model"] != "rhn"][:3]:
        keep(folder, run, study.carry_out(run, place_of(folder, run.key)), {"machine": "one"})
    told = export(folder, tmp_path / "out")
    assert told.endswith("6 rows in rows.csv, 1 models in models/; 2 are modules of torch, which no file names")
    assert [file.stem for file in (tmp_path / "out" / "models").iterdir()] == ["lstm-standard-0"]


@pytest.mark.slow  # nine commands
def test_four_shards_in_bash_copied_together_are_the_local_run(tmp_path):
    command = f"{sys.executable} -m experiments study run unwarped --scale smoke --workers 1"
    script = (
        f"set -e; for i in 1 2 3 4; do {command} --shard $i/4 --out $0/shard-$i; done; {command} --out $0/local; "
        "mkdir $0/all; for i in 1 2 3 4; do cp -r $0/shard-$i/. $0/all; done; "
        f"for which in all local; do {sys.executable} -m experiments study plot $0/$which; "
        f"{sys.executable} -m experiments study export $0/$which --out $0/$which-tables; done"
    )
    subprocess.run(["bash", "-c", script, str(tmp_path)], cwd=ROOT, check=True, capture_output=True)
    assert (tmp_path / "all" / "table.md").read_bytes() == (tmp_path / "local" / "table.md").read_bytes()
    tables = [table(tmp_path / f"{which}-tables" / "runs.csv") for which in ("all", "local")]
    for rows in tables:
        for row in rows:
            del row["seconds"], row["processor seconds"], row["date"]
    assert tables[0] == tables[1]
    ours, theirs = (sorted((tmp_path / f"{which}-tables" / "models").iterdir()) for which in ("all", "local"))
    assert [file.read_bytes() for file in ours] == [file.read_bytes() for file in theirs]


def test_tables_are_read_again_and_a_folder_goes_on_from_them(done, tmp_path):
    folder, runs = done
    export(folder, tmp_path / "tables")
    asked, records = records_in(folder)
    again, found = read_tables(tmp_path / "tables")
    assert again["runs"] == asked["runs"]
    for before, after in zip(records, found, strict=True):
        assert {**after, "rows": [dict(row) for row in after["rows"]]} == dict(before)
    words = restore(tmp_path / "tables", tmp_path / "restored")
    assert words.endswith("2 of 4 runs of tallec-fig3, smoke")
    assert all(kept(tmp_path / "restored", run.key, configuration_of(run)) is not None for run in runs)
    assert [one["measures"] for one in records_in(tmp_path / "restored")[1]] == [one["measures"] for one in records]


def test_tables_of_data_are_read_without_the_data_and_go_on_with_them(tmp_path, monkeypatch):
    """The verdict needs none; the folder is that of `--data DIR`, wherever it is restored."""
    tables = ROOT / "docs" / "tables" / "word-ablation"
    monkeypatch.delenv("CTRNN_DATA", raising=False)
    monkeypatch.chdir(tmp_path)
    assert study_named("word-ablation").runs("small") == []
    assert report_of(tables).found.text() == (tables / "report.json").read_text(encoding="utf-8")
    told = restore(tables, tmp_path / "restored")
    assert told.endswith(f"9 of 9 runs of word-ablation, small; to go on, put its data into {tmp_path / 'data'}, or restore it "
                         "with --data DIR")  # fmt: skip
    assert study_named("word-ablation").runs("small") == []  # what was presumed is forgotten
    (tmp_path / "data" / "wikitext2").mkdir(parents=True)
    monkeypatch.setenv("CTRNN_DATA", str(tmp_path / "data"))
    runs = study_named("word-ablation").runs("small")
    assert all(kept(tmp_path / "restored", run.key, configuration_of(run)) is not None for run in runs)
    opened(tmp_path / "restored", "word-ablation", "small", runs, {"command": "again"})
    assert restore(tables, tmp_path / "again").endswith("9 of 9 runs of word-ablation, small")


def test_words_that_look_like_numbers_stay_words_and_lists_and_truth_values_come_back(done, tmp_path):
    asked, records = records_in(done[0])
    rows = [{"held": "0.5", "series": [0.123456, 2.0], "left": None, "size": 0.123456, "late": True, "seen": [True, False]}]
    write_tables(tmp_path, asked, [{**records[0], "rows": rows}], digits=3)
    _, (found,) = read_tables(tmp_path)
    assert found["rows"] == [{"held": "0.5", "series": [0.123, 2.0], "size": 0.123, "late": 1, "seen": [1, 0]}]


def test_a_folder_without_tables_is_refused(tmp_path):
    with pytest.raises(UsageError, match="no tables of a study"):
        read_tables(tmp_path)
    (tmp_path / "tables.json").write_text('{"study": "unwarped", "scale": "smoke", "commands": []}')
    (tmp_path / "runs.csv").write_text('"key","seconds"\n"gone",1.0\n')
    (tmp_path / "rows.csv").write_text('"key"\n')
    with pytest.raises(UsageError, match="'gone', which the study has no more"):
        read_tables(tmp_path)


def test_tables_in_the_folder_of_the_study_leave_its_records_alone(done, tmp_path):
    folder, _ = done
    here = tmp_path / "study"
    shutil.copytree(folder, here)
    export(here, here)
    assert records_in(here) == records_in(folder)
    (here / "rows.csv").write_text("old")
    assert report_of(here).results.records == records_in(folder)[1]
    write_tables(tmp_path, *records_in(folder), digits=1)
    restore(tmp_path, here)
    assert records_in(here) == records_in(folder)  # with all their digits
