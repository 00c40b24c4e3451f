"""Optuna through the callbacks of a run, as docs/training.md has it: `pip install ".[search]"`."""

import pages
import pytest
import torch

optuna = pytest.importorskip("optuna", reason="pip install '.[search]'")
pytestmark = pytest.mark.slow


def test_the_search_on_the_page_prunes_goes_on_and_finds_a_model_that_remembers(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    torch.set_default_dtype(torch.float32)
    blocks = pages.code_of("training.md", "\n## From Python\n")
    namespace = {"__name__": "__main__"}
    for code in (blocks[0][1], *(code for kind, code in blocks if kind == "py")):
        exec(code, namespace)
    study = namespace["study"]
    pruned = [trial for trial in study.trials if trial.state is optuna.trial.TrialState.PRUNED]
    assert len(study.trials) == 12
    assert 0 < len(pruned) < 10
    assert study.best_value < 1.0 < max(trial.value for trial in study.trials if trial not in pruned)  # a guess loses 2.2
    again = optuna.load_study(study_name="recall", storage=namespace["study"]._storage)
    again.optimize(namespace["tried"], n_trials=1)
    assert len(again.trials) == 13
