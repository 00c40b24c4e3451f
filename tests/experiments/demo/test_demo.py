"""The page, its numbers, and what happens when a check fails."""

import copy
import json
import math
import re
from itertools import count, islice
from types import SimpleNamespace

import matplotlib
import numpy as np
import pages
import pytest
import torch
from scipy.integrate import solve_ivp

from ctrnn.storage.files import write_atomically
from derivations.argument import core
from experiments import __main__
from experiments.data.recording import Recording, load
from experiments.demo import clocks, proofs, recorded, run, steps, trained
from experiments.reports import report, svg
from experiments.reports.report import Section
from experiments.reports.svg import inline_svg
from experiments.reports.templates import scientific


def small_recording(folder, name="small & <b>.npy"):
    np.save(folder / name, np.random.default_rng(0).normal(size=(24, 2)).cumsum(0))
    return folder / name


def shorten_training(patch):
    """A few steps, which need only be better than to say all symbols alike."""
    patch.setattr(trained, "STEPS", 10)
    patch.setattr(trained, "LIMIT", math.log(trained.ALPHABET))


@pytest.fixture(autouse=True, scope="module")
def _small_models():
    """Fewer units and sequences, of which the page says the same."""
    with pytest.MonkeyPatch.context() as patch:
        for name, number in {"SEQUENCES": 10, "SYMBOLS": 6, "HIDDEN": 8, "BATCH": 8, "LENGTH": 24}.items():
            patch.setattr(trained, name, number)
        patch.setattr(clocks, "UNITS", 4)
        clocks.field_for.cache_clear()
        yield
    clocks.field_for.cache_clear()


@pytest.fixture(scope="module")
def briefly(_small_models):
    """Both models after a few steps."""
    with pytest.MonkeyPatch.context() as patch:
        shorten_training(patch)
        return {name: trained.train(name) for name in trained.MODELS}


@pytest.fixture(scope="module")
def played(tmp_path_factory, _small_models):
    """What sections compute from the small recording, computed once."""
    recording = load(small_recording(tmp_path_factory.mktemp("played")), 12.0)
    h = clocks.unwarped(recording)
    runs = {clock.name: clocks.run_clock(recording, clock, h) for clock in clocks.clocks_for(len(h))}
    section = recorded.section(recording, lambda line: None)
    return SimpleNamespace(recording=recording, h=h, runs=runs, stepped=steps.compare(recording), section=section)


@pytest.fixture(scope="module")
def made(tmp_path_factory, briefly, played):
    """One whole run, with some of the identities, on a small recording whose name is not safe in HTML."""
    folder = tmp_path_factory.mktemp("demo")
    said = []
    with pytest.MonkeyPatch.context() as patch:
        for module in (run, report):
            patch.setattr(module, "say", said.append)
        shorten_training(patch)
        patch.setattr(trained, "train", briefly.get)
        patch.setattr(clocks, "run_clock", lambda recording, clock, h: played.runs[clock.name])
        patch.setattr(steps, "compare", lambda recording: played.stepped)
        patch.setattr(steps, "EXCERPT", 8)
        patch.setattr(trained, "SAMPLES", (1, 4))
        # Of both papers and of ours; derivations tests them all, and the slow test here.
        patch.setattr(core, "CHAPTERS", ("gated", "power_decay"))
        some = list(islice(proofs.checked(), 10))
        # Every third figure: to draw is the most work of all, and the slow test draws them all.
        draw, asked = svg._draw, count()
        patch.setattr(svg, "_draw", lambda *of: "<svg></svg>" if next(asked) % 3 else draw(*of))
        patch.setattr(proofs, "checked", lambda: iter(some))
        words = ["demo", "--input", str(small_recording(folder)), "--rate", "12", "--out", str(folder / "out")]
        code = __main__.main(words)
    text = (folder / "out" / "index.html").read_text(encoding="utf-8")
    numbers = json.loads((folder / "out" / "numbers.json").read_text(encoding="utf-8"))
    return SimpleNamespace(code=code, said=said, text=text, page=pages.read(text), numbers=numbers, out=folder / "out")


@pytest.fixture
def main_on(tmp_path, monkeypatch, played):
    """The exit code of a demo of these sections alone, and of the recording; its figures are left out, as others look at them."""

    def main(*sections):
        first = ("The recording", lambda recording, say: played.section)
        monkeypatch.setattr(run, "SECTIONS", [first, *(("A section", section) for section in sections)])
        monkeypatch.setattr(report, "inline_svg", lambda *given: "<svg></svg>")
        return __main__.main(["demo", "--input", str(small_recording(tmp_path)), "--rate", "12", "--out", str(tmp_path / "out")])

    return main


# The first to ask for the page, which takes seconds to make.
def test_the_page_goes_from_the_theorem_through_training_to_the_many_proofs(made):
    keys = ["theorem", "recording", "clocks", "trained", "steps", "breakdown", "equations"]
    assert [section.attrs["id"] for section in made.page.all("section")] == keys
    # The list of verdicts is in this order too; the recording has none.
    linked = [link.attrs["href"] for link in made.page.all("a") if link.attrs.get("href", "").startswith("#")]
    assert linked == [f"#{key}" for key in keys if key != "recording"]


def test_a_step_of_the_theorem_that_is_not_proved_fails(main_on, monkeypatch):
    undecided = SimpleNamespace(verdict="undecided", evidence="", holds=None, seconds=0.0)
    monkeypatch.setattr(core, "CHAPTERS", ("gated",))
    monkeypatch.setattr(proofs.derivations, "check_all", lambda identities: ((each, undecided) for each in identities))
    assert main_on(proofs.theorem) == 1


def test_a_run_that_passes_ends_with_0_and_the_path_of_a_page_that_loads_nothing(made):
    assert made.code == 0
    assert made.said[-1] == str(made.out / "index.html")
    assert sorted(file.name for file in made.out.iterdir()) == ["index.html", "numbers.json"]
    assert made.numbers["failures"] == []


def test_every_section_has_its_figures_and_every_table_a_caption(made):
    drawn = {section.attrs["id"]: section.text for section in made.page.all("section")}
    assert len(made.page.all("svg")) == 9
    assert all(table.children[0].tag == "caption" and table.children[0].text for table in made.page.all("table"))
    assert all(drawn.values())


def test_the_name_of_the_file_is_escaped_and_nothing_twice(made):
    name = "small &amp; &lt;b&gt;.npy"
    assert name in made.text
    assert "small & <b>" not in made.text
    assert not re.search(r"&amp;(?:gt|lt|amp|#x27|#39|#34|quot);", made.text.replace(name, ""))


def cells_of(made, section):
    """The cells of the rows of a section's tables."""
    (where,) = [each for each in made.page.all("section") if each.attrs["id"] == section]
    rows = [row for row in made.page.all("tr") if row.text in where.text]
    return [[cell.text for cell in row.children] for row in rows]


def in_print(value):
    """A number as a reader of the page sees it."""
    return pages.Reader(f"<p>{scientific(value)}</p>").elements[0].text


def test_page_terminal_and_numbers_say_the_same_of_the_clocks(made):
    assert len(made.numbers["clocks"]["clocks"]) == 4
    for told in made.numbers["clocks"]["clocks"]:
        line = next(line for line in made.said if line.strip().startswith(told["name"]))
        assert f"{told['largest_deviation']:.1e}" in line
        assert f"{told['largest_deviation_without_speed']:.2g}" in line
        (cells,) = [cells for cells in cells_of(made, "clocks") if cells[0].startswith(told["name"])]
        shown = " ".join(cells)
        assert in_print(told["largest_deviation"]) in shown
        assert in_print(told["largest_deviation_without_speed"]) in shown


def test_the_states_by_another_solver_are_told_and_are_not_the_same_to_the_bit(made):
    apart = made.numbers["clocks"]["torchdiffeq_apart"]
    assert 0 < apart < clocks.allowed_deviation()
    assert f"the unwarped states by torchdiffeq:dopri8: {apart:.1e} apart" in "\n".join(made.said)
    assert scientific(apart) in made.text


def test_page_terminal_and_numbers_say_the_same_of_the_steps(made):
    rows = {cells[0]: cells for cells in cells_of(made, "steps")}
    for told in made.numbers["steps"]["runs"]:
        assert any(f"{told['largest_deviation']:.3g}" in line.split() for line in made.said)
        assert in_print(told["largest_deviation"]) in rows[str(told["n"])]
        assert in_print(told["rms_deviation"]) in rows[str(told["n"])]


def test_page_terminal_and_numbers_say_the_same_of_the_trained_models(made):
    numbers, said = made.numbers["trained"], "\n".join(made.said)
    for name, words in trained.MODELS.items():
        assert f"{words:<16}loss {numbers['loss'][name]:.3g}" in said
        assert scientific(numbers["loss"][name]) in made.text
        for shares in (numbers["clock_given"][name]["accuracy"], numbers["clock_not_given"][name]):
            assert "".join(f"{share:>6.2f}" for share in shares) in said
    euler, exact = (numbers["clock_given"][name] for name in ("euler", "exact"))
    columns = [euler["accuracy"], exact["accuracy"], euler["largest_gate"], *numbers["clock_not_given"].values()]
    rows = [[str(n), *(f"{column[k]:.2f}" for column in columns)] for k, n in enumerate(numbers["samples_a_symbol"])]
    assert [cells for cells in cells_of(made, "trained") if cells[0].isdigit()] == rows


def test_page_terminal_and_numbers_say_the_same_of_the_proofs(made):
    identities, argument = made.numbers["equations"]["identities"], made.numbers["theorem"]
    said = "\n".join(made.said)
    assert f"{len(identities)} of {len(identities) + 1} hold; 1 does not hold as printed, and holds as corrected" in said
    listed = [line for line in made.said if line.startswith(("  Tallec", "  Ohno", "  this project"))]
    assert [(step["label"], step["holds"]) for step in argument] == [("eq. 6", True), ("eq. 7", True), ("eq. 8", True)]
    assert len(listed) == len(argument)  # of the others those that fail, and here none does
    shown = [cells[0] for cells in cells_of(made, "equations")]
    assert all(any(identity["label"] in first for first in shown) for identity in identities)


@pytest.mark.parametrize(
    ("words", "html"),
    [
        ("h_t = o tanh(c_t)", "h<sub>t</sub> = o tanh(c<sub>t</sub>)"),
        ("(1 + r |h0|^r s)^(-(r+1)/r), r > 0", "(1 + r |h₀|<sup>r</sup> s)<sup>−(r+1)/r</sup>, r &gt; 0"),
        ("h' = -alpha h <b>", "h′ = −α h &lt;b&gt;"),
        ("The GRU's rate, r -> 0, s >= 0", "The GRU&#39;s rate, r → 0, s ≥ 0"),
    ],
)
def test_formulas_are_set_as_in_print_and_escaped(words, html):
    assert proofs.typeset(words) == html


def test_warped_states_land_on_an_independent_solution(played):
    # By SciPy, from the formula: nothing of the path, the warp, the field's flow or the solver is shared.
    recording, field = played.recording, clocks.field_for(2)
    W = {name: value.detach().numpy() for name, value in field.named_parameters()}
    samples = np.arange(len(recording.xs))

    def f(s, h):
        x = np.array([np.interp(s, samples, channel) for channel in recording.xs.T])
        a = W["candidate.weight_x"] @ x + W["candidate.weight_h"] @ h + W["candidate.bias"]
        b = W["rate.weight_x"] @ x + W["rate.weight_h"] @ h + W["rate.bias"]
        return (np.tanh(a) - h) / (1 + np.exp(-b))

    expected = [np.zeros(clocks.UNITS)]
    for s in samples[:-1]:
        solved = solve_ivp(f, (s, s + 1), expected[-1], rtol=1e-11, atol=1e-12, method="DOP853")
        expected.append(solved.y[:, -1])
    np.testing.assert_allclose(played.h, expected, rtol=0, atol=clocks.allowed_deviation())
    for name, ran in played.runs.items():
        assert np.abs(ran.with_speed - expected).max() < clocks.allowed_deviation(), name
        assert ran.largest_without > 0.05, name
        np.testing.assert_allclose(ran.largest, np.abs(ran.with_speed - played.h).max())


def test_four_clocks_show_every_sample_and_variable_repeats_last_1_to_5_units():
    for clock in clocks.clocks_for(50):
        shown = torch.arange(50, dtype=torch.float64)
        torch.testing.assert_close(clock.warp(clock.warp.inverse(shown)), shown, rtol=0, atol=1e-10)
    lasts = clocks.clocks_for(200)[2].warp.knots.diff()
    assert sorted(lasts.unique().tolist()) == [1, 2, 3, 4, 5]


def test_euler_steps_come_to_the_solution_as_one_over_n(played):
    _, runs, gate = played.stepped
    assert 0 < gate < 1
    assert steps.observed_orders(runs)[-1] == pytest.approx(1, abs=0.1)


@torch.no_grad()
def test_stepped_states_are_euler_steps_with_the_gate_divided_by_n(played):
    _, runs, _ = played.stepped
    field = clocks.field_for(2)
    for n, states in ((ran.n, ran.states) for ran in runs):
        h = torch.zeros(1, clocks.UNITS, dtype=torch.float64)
        for x in torch.from_numpy(played.recording.xs):
            for _ in range(n):
                g = field.rate(x[None], h) / n
                h = g * field.candidate(x[None], h) + (1 - g) * h
        np.testing.assert_allclose(states[-1], h[0].numpy(), rtol=0, atol=1e-12)


def test_both_models_start_from_the_same_weights_and_are_moved_by_training(briefly):
    start = {name: trained.untrained(name).state_dict() for name in trained.MODELS}
    for name, weights in start["euler"].items():
        assert torch.equal(weights, start["exact"][name])
        ends = [briefly[integrator].model.state_dict()[name] for integrator in trained.MODELS]
        assert not torch.equal(*ends)
        assert not any(torch.equal(weights, end) for end in ends)


def test_the_largest_gate_is_that_of_the_states_from_which_steps_begin(briefly):
    # A gate that is 1/2 at the start and falls as the state rises to its constant candidate.
    model = copy.deepcopy(briefly["euler"].model)
    with torch.no_grad():
        for weights in model.field.parameters():
            weights.zero_()
        model.field.candidate.bias.fill_(2.0)
        model.field.rate.weight_h.copy_(-torch.eye(trained.HIDDEN))
    assert trained.clock_given(model, "euler", 8).gate == pytest.approx(trained.OWN_TIME / 8 / 2, rel=1e-12)


@pytest.mark.parametrize("n", [1, 3])
def test_the_share_recalled_is_of_the_ends_of_all_symbols_but_the_first(briefly, n):
    model, batch = briefly["euler"].model, trained.played(n)
    with torch.no_grad():
        right = model(batch.xs).argmax(-1) == batch.targets
    ends = [n * k - 1 for k in range(1, trained.SYMBOLS + 1)]
    expected = float(right[ends[1:]].double().mean())
    assert expected != float(right[ends].double().mean()), "the first symbol must make a difference"
    assert trained.clock_not_given(model, n) == pytest.approx(expected, abs=1e-12)
    lost = copy.deepcopy(model)
    with torch.no_grad():
        lost.read_out.bias[3] = math.nan  # the largest of scores, as of states that left all bounds
    assert trained.clock_not_given(lost, n) == 0


def test_a_share_below_all_is_never_told_as_all():
    assert [trained.at_least(share) for share in (1.0, 0.99999, 0.951)] == ["all", "at least 99.9 %", "at least 95.1 %"]


def by_hand(model, n):
    """Weights in float64, the field they make, and the samples of a test with the clock given."""
    W = {name: value.detach().double().numpy() for name, value in model.field.named_parameters()}

    def f(x, h):
        g = 1 / (1 + np.exp(-(W["rate.weight_x"] @ x + W["rate.weight_h"] @ h + W["rate.bias"])))
        return g * (np.tanh(W["candidate.weight_x"] @ x + W["candidate.weight_h"] @ h + W["candidate.bias"]) - h)

    xs = trained.played(n).xs.double().numpy()
    assert all((xs[k] == xs[k // n * n]).all() for k in range(len(xs)))  # each symbol n times
    return f, xs


@pytest.mark.parametrize("n", [1, 3, 8])
def test_a_discretized_model_given_its_clock_takes_steps_as_long_as_its_samples(briefly, n):
    f, xs = by_hand(briefly["euler"].model, n)
    h = np.zeros(trained.HIDDEN)
    for x in xs[:, 5]:
        h = h + trained.OWN_TIME / n * f(x, h)
    got = trained.clock_given(briefly["euler"].model, "euler", n)
    np.testing.assert_allclose(got.states[-1, 5], h, rtol=0, atol=1e-10)


@pytest.mark.parametrize("n", [1, 3, 8])
def test_a_solved_model_given_its_clock_is_the_solution_in_which_every_symbol_lasts_as_long_as_ever(briefly, n):
    f, xs = by_hand(briefly["exact"].model, 1)
    got = trained.clock_given(briefly["exact"].model, "exact", n)
    h = np.zeros(trained.HIDDEN)
    for k, x in enumerate(xs[:3, 5]):
        h = solve_ivp(lambda _, h: f(x, h), (0, trained.OWN_TIME), h, rtol=1e-10, atol=1e-12, method="DOP853").y[:, -1]  # noqa: B023
        np.testing.assert_allclose(got.states[k, 5], h, rtol=0, atol=clocks.allowed_deviation())


def test_a_model_that_did_not_learn_fails_and_so_do_states_that_depend_on_the_clock(
    tmp_path, main_on, monkeypatch, capsys, briefly
):
    monkeypatch.setattr(trained, "train", briefly.get)  # after 10 steps they have learned nothing yet
    monkeypatch.setattr(trained, "SAMPLES", (1, 3))
    monkeypatch.setattr(trained, "allowed_deviation", lambda: 1e-16)
    assert main_on(trained.section) == 1
    failures = json.loads((tmp_path / "out" / "numbers.json").read_text())["failures"]
    assert [failure.split(" ")[1] for failure in failures] == ["discretized", "ODE-integrated", "the"]
    assert "exact states move by" in capsys.readouterr().out


def test_a_deviation_above_the_limit_fails_and_still_writes_the_page(tmp_path, main_on, monkeypatch, capsys, played):
    monkeypatch.setattr(clocks, "unwarped", lambda recording, method="ours": played.h + 1e-9 * (method != "ours"))
    monkeypatch.setattr(clocks, "run_clock", lambda recording, clock, h: played.runs[clock.name])
    monkeypatch.setattr(clocks, "allowed_deviation", lambda: 1e-16)
    far = [name for name, run in played.runs.items() if run.largest > 1e-16]  # on others steps are the same to the bit
    assert "smooth random" in far
    assert main_on(clocks.section) == 1
    text = (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert f"{len(far) + 1} check(s) failed" in text
    assert all(f"On the clock &#39;{name}&#39; the states deviate" in text for name in far)
    assert "By torchdiffeq:dopri8 the states deviate by 1.0e-09" in text
    assert "FAILED" in capsys.readouterr().out
    assert len(json.loads((tmp_path / "out" / "numbers.json").read_text())["failures"]) == len(far) + 1


@pytest.mark.parametrize(
    ("verdict", "holds"), [("does not hold as printed", False), ("undecided", None)], ids=["refuted", "undecided"]
)
def test_an_identity_that_does_not_hold_fails_and_is_named_on_the_page(tmp_path, main_on, monkeypatch, verdict, holds):
    row = proofs.ProofRow("this project", "label <1>", "1 = 2.", (), verdict, "", holds, 0.0)
    monkeypatch.setattr(proofs, "checked", lambda: iter([row]))
    monkeypatch.setattr(proofs, "misprinted", lambda: iter([]))
    assert main_on(proofs.section) == 1
    assert "label &lt;1&gt;" in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(("verbose", "lines"), [(False, ["second"]), (True, ["first", "second", "third"])])
def test_the_terminal_has_the_proofs_that_fail_and_their_number_or_all_of_them(monkeypatch, verbose, lines):
    first, second = (proofs.ProofRow("this project", name, "", (), "", "", name == "first", 0.0) for name in ("first", "second"))
    monkeypatch.setattr(proofs, "checked", lambda: iter([first, second]))
    monkeypatch.setattr(
        proofs, "misprinted", lambda: iter([proofs.ProofRow("this project", "third", "", (), "", "", False, 0.0)])
    )
    said = []
    proofs.section(None, said.append, verbose=verbose)
    assert [line.split()[2] for line in said[:-1]] == lines
    assert said[-1].startswith("  1 of 3 hold")


def test_a_misprint_that_holds_fails(tmp_path, main_on, monkeypatch):
    row = proofs.ProofRow("this project", "label <1>", "1 = 2.", (), "holds", "", True, 0.0)
    monkeypatch.setattr(proofs, "checked", lambda: iter([]))
    monkeypatch.setattr(proofs, "misprinted", lambda: iter([row]))
    assert main_on(proofs.section) == 1
    (failure,) = json.loads((tmp_path / "out" / "numbers.json").read_text())["failures"]
    assert failure.startswith("this project, label <1> was expected not to hold as printed")


def test_a_slope_that_is_not_one_fails(main_on, monkeypatch, played):
    monkeypatch.setattr(steps, "compare", lambda recording: played.stepped)
    monkeypatch.setattr(steps, "slowed_exactly", lambda recording, exact: 0.0)
    assert main_on(steps.section) == 0
    monkeypatch.setattr(steps, "ORDER_LIMITS", (1.9, 2.1))
    assert main_on(steps.section) == 1


def test_a_full_disk_is_one_line(main_on, monkeypatch, capsys):
    def full(path, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("experiments.files.write_atomically", full)
    assert main_on() == 2
    error = capsys.readouterr().err
    assert "No space left on device" in error
    assert error.count("\n") == 1


def test_a_new_section_is_one_entry_in_a_list(tmp_path, main_on):
    def section(recording, say):
        say("something new")
        return Section("new", "Something new", "One sentence.", "<p>More.</p>", numbers={"answer": 42})

    assert main_on(section) == 0
    assert '<section id="new"' in (tmp_path / "out" / "index.html").read_text(encoding="utf-8")
    assert json.loads((tmp_path / "out" / "numbers.json").read_text())["new"] == {"answer": 42}


@pytest.mark.parametrize("stop", [KeyboardInterrupt, OSError("disk full")])
def test_an_interrupted_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch, stop):
    (tmp_path / "index.html").write_text("old")
    monkeypatch.setattr("ctrnn.storage.files.os.replace", lambda *_: (_ for _ in ()).throw(stop))
    with pytest.raises((KeyboardInterrupt, OSError)):
        write_atomically(tmp_path / "index.html", "new")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("index.html", "old")]


def test_a_long_and_partly_constant_recording_is_told_as_such(capsys):
    xs = np.random.default_rng(0).normal(size=(800, 12))
    names = tuple(str(k) for k in range(1, 13))
    section = recorded.section(Recording("long.npy", xs, 10.0, names, 5000, ("3", "4"), "your file", False), print)
    assert "Only the first 800 of the file’s 5,000 samples are used." in section.body
    assert "channels 3, 4 are constant" in section.body
    assert "the first 8 of 12 channels" in section.body
    assert "only the first 800 of its 5000 samples are used" in capsys.readouterr().out


def test_the_same_figure_is_the_same_text_and_leaves_no_trace_in_matplotlib():
    before = {**matplotlib.rcParams, "backend": None}
    xs = np.random.default_rng(0).normal(size=(30, 2))
    drawn = [inline_svg(recorded.drawn(xs, 10.0, ["a", "b"]), "key", "T", "D") for _ in range(2)]
    assert drawn[0] == drawn[1]
    assert {**matplotlib.rcParams, "backend": None} == before


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.758, "0.758"), (0.036, "0.0360"), (266.0, "266"), (0.0, "0.00"), (1e-8, "10<sup>−8</sup>"),
     (2.51e-9, "2.5 × 10<sup>−9</sup>"), (9.99e-10, "10<sup>−9</sup>")],
)  # fmt: skip
def test_numbers_are_set_as_in_print(value, text):
    assert re.sub(r"</?span[^>]*>", "", scientific(value)) == text


@pytest.mark.slow
def test_the_whole_demo_on_the_eeg(tmp_path):
    assert __main__.main(["demo", "--out", str(tmp_path)]) == 0
    numbers = json.loads((tmp_path / "numbers.json").read_text())
    assert numbers["recording"]["samples"] == 800
    assert max(told["largest_deviation"] for told in numbers["clocks"]["clocks"]) < 1e-7
    assert min(told["largest_deviation_without_speed"] for told in numbers["clocks"]["clocks"]) > 0.3
    assert min(numbers["trained"]["clock_given"]["exact"]["accuracy"]) > 0.98
    assert min(numbers["trained"]["clock_given"]["euler"]["accuracy"]) < 0.5
