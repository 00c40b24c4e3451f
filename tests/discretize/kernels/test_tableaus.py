"""The program of a tableau is written without being recorded: it is the recorded one, for any width, and compiled."""

import shutil
from operator import add, mul
from types import SimpleNamespace

import pytest
import torch
from conformance import agree, kernels_for_all, solve
from on_gpu import ON_GPU
from torch.testing import assert_close

import ctrnn
from discretize import EmbeddedRungeKutta, integrate
from discretize.errors import Failure
from discretize.kernels.cpp import methods, solves, solving
from discretize.kernels.cpp.attempts import attempt_written
from discretize.kernels.cpp.programs import SOURCES, sources_digest
from discretize.kernels.record.attempt import AttemptModule, calls_of
from discretize.kernels.record.program import program_of
from discretize.kernels.record.stored import Agreement
from discretize.kernels.record.tableau import tableau_of
from discretize.kernels.record.values import ancestors
from discretize.solvers.adaptive import ADAPTIVE_METHODS
from discretize.solvers.pairs import EXPLICIT_PAIRS
from discretize.solvers.rodas import Rodas5P

TWICE = {"dtype": torch.float64}
COARSE = {"rtol": 1e-3, "atol": 1e-3}
TS = torch.tensor([0.0, 0.4, 1.1, 1.5], **TWICE)


class Fehlberg2(EmbeddedRungeKutta):
    """The pair fehlberg2 of torchdiffeq."""

    order = 2
    a = ((1 / 2,), (1 / 256, 255 / 256))
    b = (1 / 512, 255 / 256, 1 / 512)
    e = (-1 / 512, 0, 1 / 512)


class RandomPair(EmbeddedRungeKutta):
    """Rows of any size, some of whose numbers are 0, weights that add up to 1, and an error whose weights add up to 0."""

    order = 1

    def __init__(self, seed: int, stages: int, last_is_next: bool) -> None:
        dice = torch.Generator().manual_seed(seed)
        a = torch.rand(stages, stages, generator=dice, **TWICE).tril(-1)
        a[2::2, 1:2] = 0
        a = a / a.sum(1, keepdim=True).clamp(min=1)
        b, other = (torch.rand(stages, generator=dice, **TWICE) + 0.1 for _ in range(2))
        if last_is_next:
            a[-1] = torch.cat([b[:-1] / b[:-1].sum(), torch.zeros(1, **TWICE)])
            b = a[-1]
        self.a = [row[:i].tolist() for i, row in enumerate(a) if i]
        self.b, self.e = (b / b.sum()).tolist(), (b / b.sum() - other / other.sum()).tolist()
        super().__init__()


PAIRS = EXPLICIT_PAIRS | {"fehlberg2": Fehlberg2()}
PAIRS |= {f"random {n}": RandomPair(n, n, last) for n, last in [(2, False), (3, True), (4, False), (7, True), (9, False)]}


def numbers(values, given):
    """What values are in numbers: each operation by torch's own."""
    found = {}
    for value in ancestors(values):
        of = [found[part] for part in value.of]
        match value.operation:
            case "number":
                found[value] = torch.tensor(value.settings, **TWICE)
            case "h" | "dt" | "cotangent" | "slope" | "drift":
                found[value] = given[" ".join(map(str, (value.operation, *value.settings)))]
            case "slice":
                found[value] = of[0][value.settings[0] :][: value.width]
            case "cat":
                found[value] = torch.cat(of)
            case "spread":
                found[value] = of[0].expand(value.width)
            case "factored":  # J a diagonal matrix, as in the attempt on numbers
                found[value] = of[0] + of[1] * given["jacobian"]
            case "jacobian_solve":
                found[value] = of[1] / of[0]
            case "jacobian_outer":
                found[value] = of[0] * of[1]
            case "weighted_sum":
                found[value] = sum(map(mul, value.settings, of))
            case operation:
                found[value] = {"add": add, "mul": mul}[operation](*of)
    return [found[value] for value in values]


LONG = ("dopri5", "dopri8", "random 7", "random 9")  # to record these takes half a second of processor time, or more


@pytest.mark.parametrize("name", [pytest.param(name, marks=[pytest.mark.slow] if name in LONG else []) for name in PAIRS])
def test_a_tableau_is_written_down_as_what_its_code_is_recorded_as(name):
    pair, state = PAIRS[name], 3
    calls = calls_of(pair, state, torch.float64)
    module = AttemptModule(pair, state, calls)
    recorded = program_of(module, {f"slope {k}": True for k in range(module.count)}, torch.float64, lambda values: values).written
    tableau = tableau_of(pair)
    written = tableau.values(state)
    assert (tableau.calls.slopes, tableau.calls.end, tableau.calls.scales) == (calls.slopes, calls.end, calls.scales)
    assert tableau.calls.nodes == pytest.approx(calls.nodes, rel=1e-15)
    dice = torch.Generator().manual_seed(1)
    widths = module.samples | {"cotangent": module.answer}
    given = {kind: torch.randn(width, generator=dice, **TWICE) for kind, width in widths.items()}
    assert set(written.gradients) == set(recorded.gradients)
    kinds = [*recorded.gradients]
    mine, theirs = (numbers([each.following, *(each.gradients[kind] for kind in kinds)], given) for each in (written, recorded))
    for one, other in zip(mine, theirs, strict=True):
        assert_close(one, other, rtol=1e-13, atol=1e-13)  # sums of 14 terms at most, in another order


def test_the_program_of_rodas5p_is_its_attempt_and_goes_back_as_torch_does():
    method, state = Rodas5P(), 3
    tableau = tableau_of(method)
    assert tableau.calls == calls_of(method, state, torch.float64)
    module, written = AttemptModule(method, state, tableau.calls), tableau.values(state)
    assert tableau_of(type("Own", (Rodas5P,), {})()) is None  # which may have an attempt of its own
    dice = torch.Generator().manual_seed(1)
    widths = module.samples | {"cotangent": module.answer}
    given = {kind: torch.randn(width, generator=dice, **TWICE) for kind, width in widths.items()}
    given["cotangent"][-state:] = 0  # nothing goes back from the error
    samples = {kind: given[kind].clone().requires_grad_() for kind in module.samples}
    answer = module(*(one[None] for one in samples.values()))[0]
    theirs = dict(zip(samples, torch.autograd.grad(answer, [*samples.values()], given["cotangent"]), strict=True))
    mine, *gradients = numbers([written.following, *written.gradients.values()], given)
    assert {*written.gradients} == {*module.samples} - {"dt"}
    assert_close(mine, answer, rtol=1e-12, atol=0)  # sums of 8 terms at most, in another order
    for kind, gradient in zip(written.gradients, gradients, strict=True):
        assert_close(gradient, theirs[kind], rtol=0, atol=1e-12 * float(theirs[kind].abs().max()))


@pytest.mark.slow
def test_a_class_that_descends_from_rodas5p_is_recorded_in_float32():
    method, state = type("Own", (Rodas5P,), {})(), 2  # which may have an attempt of its own, and call the other
    module = AttemptModule(method, state, calls_of(method, state, torch.float32))
    assert program_of(module, {}, torch.float32, lambda values: values).written.following.width == module.answer


@pytest.mark.parametrize("name", [*PAIRS, "rodas5p"])
def test_its_text_is_one_for_all_widths(name):
    tableau, others = tableau_of(ADAPTIVE_METHODS.get(name) or PAIRS[name]), [1] * (name == "rodas5p")
    texts = [attempt_written(tableau.values(width)) for width in (2, 7, 64)]
    assert [text.sizes for text in texts] == [[2, *others], [7, *others], [64, *others]]
    assert len({text.text for text in texts}) == 1


@pytest.mark.parametrize("name", ["dopri5", "tsit5", "dopri8"])
def test_sums_so_far_do_not_wait_in_memory(name):
    # A loop for each state, the error and each cotangent, from where slopes lie: a sum so far would be a buffer.
    assert "Rows" not in attempt_written(tableau_of(PAIRS[name]).values(2)).text


def along(x):
    return ctrnn.LinearPath(x, TS), None


def check(method, width, batch=9, dtype=torch.float64):
    dice = torch.Generator().manual_seed(0)
    field = ctrnn.gated(2, width, generator=dice).to(dtype)
    x = torch.randn(len(TS), batch, 2, generator=dice, dtype=dtype).requires_grad_()
    h0 = torch.randn(batch, width, generator=dice, dtype=dtype).requires_grad_()
    double = dtype == torch.float64  # in float32 another rounding may make another step of one that is just accepted
    how = {"method": method, "counted": double, **COARSE}
    agree("compiled", solve(field, along, x, h0, **how), 1e-12 if double else 1e-2)


rows_of_any_width = pytest.mark.skipif(ON_GPU, reason="rows are for CPUs")


@rows_of_any_width
@pytest.mark.parametrize("width", [1, 2, 5])
def test_rows_of_few_units_take_the_steps_of_torch(width, monkeypatch):
    # Fields too long to be written number by number, that is in lanes, lie in rows.
    monkeypatch.setattr(solves, "MOST_UNITS_IN_LANES", 0)
    check("bosh3", width)


@rows_of_any_width
@pytest.mark.parametrize("name", ["fehlberg2", "random 4"])
def test_a_pair_of_any_numbers_takes_the_steps_of_torch(name):
    check(PAIRS[name], 7)


@rows_of_any_width
@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("batch", [1, 8, 70])
@pytest.mark.parametrize("name", PAIRS)
def test_every_pair_takes_the_steps_of_torch_in_any_batch(name, batch, dtype):
    check(PAIRS[name], 8, batch, dtype)


@rows_of_any_width
def test_a_method_that_disagrees_with_torch_is_compared_once_and_others_go_on(monkeypatch):
    asked, compare = list[str](), solves.disagreement

    def differs(kernel, module, dtype, needs, method, written):
        asked.append(method.name)
        return "it is wrong" if method.name == "bosh3" else compare(kernel, module, dtype, needs, method, written)

    monkeypatch.setattr(solves, "disagreement", differs)
    field, x = ctrnn.gated(2, 7, generator=torch.Generator().manual_seed(5)).double(), torch.ones(4, 3, 2, **TWICE)
    engines = []
    with kernels_for_all("compiled"):
        for name in ("bosh3", "tsit5", "bosh3", "tsit5"):
            stats = integrate(field, along(x)[0], torch.zeros(3, 7, **TWICE), TS, method=name, **COARSE).stats
            engines.append((stats["engine"], stats["engine_why"]))
    assert asked == ["bosh3", "tsit5"]
    assert engines == 2 * [("steps", "it is wrong"), ("compiled", None)]


@rows_of_any_width
def test_a_pair_whose_nodes_are_wrong_is_found_out_at_its_first_use(monkeypatch):
    numbers = methods._numbers
    monkeypatch.setattr(methods, "_numbers", lambda nodes: numbers([node / 2 for node in nodes]))
    field, x = ctrnn.gated(2, 7).double(), torch.ones(4, 3, 2, **TWICE)
    with kernels_for_all("compiled"), torch.no_grad():
        stats = integrate(field, along(x)[0], torch.zeros(3, 7, **TWICE), TS, method=RandomPair(43, 3, True), **COARSE).stats
    assert stats["engine"] == "steps"
    assert "differs from torch by" in stats["engine_why"]


@rows_of_any_width
def test_a_pair_that_is_new_under_inference_mode_is_compared_with_torch_and_goes_back_later():
    pair, field, x = RandomPair(41, 3, True), ctrnn.gated(2, 7).double(), torch.ones(4, 3, 2, **TWICE)
    engines = []
    with kernels_for_all("compiled"):
        for mode in (torch.inference_mode, torch.no_grad, torch.enable_grad):
            with mode():
                solved = integrate(field, along(x)[0], torch.zeros(3, 7, **TWICE), TS, method=pair, **COARSE)
            engines.append((solved.stats["engine"], solved.stats["engine_why"]))
    assert engines == 3 * [("compiled", None)]
    solved.hs.sum().backward()
    assert all(weight.grad is not None for weight in field.candidate.parameters())


def test_a_stiff_method_is_compared_once_for_all_processes(monkeypatch, tmp_path):
    asked, why = list[object](), dict[object, str | None]()

    def differs(kernel, module, dtype, needs, method, written):
        asked.append(method)
        return why.get(method)

    monkeypatch.setenv("CTRNN_CACHE", str(tmp_path))
    monkeypatch.setattr(solves, "disagreement", differs)
    why["wrong"] = "it is wrong"
    stiff, explicit = SimpleNamespace(implicit=True), SimpleNamespace(implicit=False)

    def compared(kernel_key, method, method_key, needs=stiff):
        kernel, written = SimpleNamespace(key=kernel_key), SimpleNamespace(kernel=SimpleNamespace(key=method_key))
        return solves._compared(kernel, None, torch.float64, needs, method, written)

    for times in range(2):  # as in another process, which finds what the first has kept
        assert compared("field", "right", "a") is None
        assert compared("field", "wrong", "b") == "it is wrong"
        assert compared("another field", "right", "a") is None
        assert compared("field", "never kept", None) is None
        assert compared("field", "explicit", "c", explicit) is None
        again = ["wrong", "never kept", "explicit"]
        assert asked == (["right", "wrong", "right", "never kept", "explicit"] if not times else again)
        asked.clear()
    compared("field", "right", "edited")
    monkeypatch.setattr(solves, "sources_digest", lambda: "of another driver")
    compared("field", "right", "a")
    assert asked == ["right", "right"]


def test_an_agreement_hangs_on_every_file_that_a_kernel_is_compiled_from(tmp_path):
    folder = shutil.copytree(SOURCES, tmp_path / "source")
    digests = {sources_digest(folder)}
    for path in folder.iterdir():
        path.write_text(path.read_text() + "\n")
        digests.add(sources_digest(folder))
    assert len(digests) == 1 + len([*folder.iterdir()])
    assert sources_digest() in digests


class Rooted(ctrnn.VectorField):
    """A flow where units are above `least`, and none below it; nothing is learned."""

    def __init__(self, least):
        super().__init__(2, 3)
        self.least = least

    def flow(self, projected, h):
        return projected.sum(-1, keepdim=True) - (h - self.least).sqrt()


@pytest.mark.parametrize(("least", "kept"), [(-10.0, 1), (10.0, 0)])
def test_an_agreement_is_kept_of_what_was_compared(monkeypatch, least, kept):
    keep, times = Agreement.keep, []
    monkeypatch.setattr(Agreement, "keep", lambda agreement: times.append(keep(agreement)))
    with kernels_for_all("compiled"), torch.no_grad():
        field, x = Rooted(least), torch.ones(4, 3, 2, **TWICE)
        solved = integrate(field, along(x)[0], torch.full((3, 3), 100.0, **TWICE), TS, method="rodas5p", **COARSE)
    assert solved.stats["engine"] == "compiled"
    assert len(times) == kept


@rows_of_any_width
def test_a_kernel_that_stops_where_torch_goes_on_is_not_used(monkeypatch):
    stops = Failure("it was told to", "", 0.0, None, None)
    monkeypatch.setattr(solving.KernelRun, "failure", lambda _: stops)
    with kernels_for_all("compiled"), torch.no_grad():
        field, x = Rooted(-2.0), torch.ones(4, 3, 2, **TWICE)
        stats = integrate(field, along(x)[0], torch.zeros(3, 3, **TWICE), TS, method="tsit5", **COARSE).stats
    assert stats["engine"] == "steps"
    assert stats["engine_why"] == "its kernel stops on a few numbers, where the engine in torch goes on: it was told to"
