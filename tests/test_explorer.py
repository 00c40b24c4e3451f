"""The explorer of docs/explorer: its mathematics against discretize, its state and the Python it shows, its page in a browser.

What needs no page runs in Node.js, or in the browser where there is none; numbers of a page are read by their elements.
"""

import json
import math
import re
import shutil
import subprocess
from itertools import pairwise
from pathlib import Path
from urllib.parse import urlencode

import matplotlib
import pytest
import torch
from pages import Reader
from torch.testing import assert_close

import ctrnn
import discretize
from experiments.breakdown.chart import THETA, ChartUnit, fates, stepped

EXPLORER = Path(__file__).resolve().parents[1] / "docs" / "explorer"
BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
NODE = shutil.which("node")
needs_browser = pytest.mark.skipif(BROWSER is None, reason="no chromium, chromium-browser or google-chrome on this machine")
needs_javascript = pytest.mark.skipif(NODE is None and BROWSER is None, reason="neither node nor a browser on this machine")
QUIET = "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking"
QUIET += " --disable-component-update --disable-sync --enable-logging=stderr --v=0 --virtual-time-budget=30000 --dump-dom"
STEPS = ["Euler", "Midpoint", "Heun", "RungeKutta4", "ExponentialEuler", "ETD2", "FrozenBackwardEuler", "BackwardEuler"]
STEPS += ["Trapezoid"]
SETTINGS = 200


def shown(url, folder):
    """The page once its scripts have run, after nothing was said in the console."""
    command = [BROWSER, *QUIET.split(), f"--user-data-dir={folder / 'profile'}", url]
    found = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert not [line for line in found.stderr.splitlines() if "CONSOLE" in line]
    return Reader(found.stdout)


def element(page, name):
    """The element of that id."""
    (found,) = [each for each in page.elements if each.attrs.get("id") == name]
    return found


def evaluated(expression, folder, **given):
    """What an expression of JavaScript gives that reads maps.js, state.js and the given values; nan is None."""
    constants = "".join(f"const {name} = {json.dumps(value)};" for name, value in given.items())
    if NODE is not None:
        sources = [(EXPLORER / name).read_text(encoding="utf-8") for name in ("maps.js", "state.js")]
        script = folder / "evaluate.js"
        script.write_text("\n".join([*sources, constants, f"console.log(JSON.stringify({expression}));"]), encoding="utf-8")
        return json.loads(subprocess.run([NODE, str(script)], capture_output=True, text=True, timeout=120, check=True).stdout)
    page = folder / "evaluate.html"
    loaded = "".join(f'<script src="{(EXPLORER / name).as_uri()}"></script>' for name in ("maps.js", "state.js"))
    page.write_text(
        f'<!doctype html><html><body>{loaded}<pre id="out"></pre>'
        f'<script>{constants} document.getElementById("out").textContent = JSON.stringify({expression});</script></body></html>',
        encoding="utf-8",
    )
    return json.loads(element(shown(page.as_uri(), folder), "out").text)


class TwoUnits(ctrnn.VectorField):
    """tanh(W h + b) - h, its input [W, b]."""

    def __init__(self):
        super().__init__(6, 2)

    def flow(self, projected, h):
        W, b = projected[..., :4].unflatten(-1, (2, 2)), projected[..., 4:]
        return torch.tanh((W * h.unsqueeze(-2)).sum(-1) + b) - h

    def leak(self, projected, h):
        return torch.ones_like(h)


def logarithmic(low, high, *sizes):
    return torch.exp(math.log(low) + math.log(high / low) * torch.rand(*sizes))


def one_unit():
    """(field, inputs, states, steps, the field in JavaScript): settings all over the chart."""
    w, h = 32 * torch.rand(SETTINGS, 1) - 30, 3 * torch.rand(SETTINGS, 1) - 1.5
    dt = logarithmic(0.1, 10, SETTINGS, 1)
    return ChartUnit(), torch.cat([w, torch.full_like(w, THETA)], -1), h, dt, "maps.oneUnit(x[0])"


def two_units():
    W, b, h = 2 * torch.randn(SETTINGS, 4), torch.randn(SETTINGS, 2), 3 * torch.rand(SETTINGS, 2) - 1.5
    dt = logarithmic(0.05, 3, SETTINGS, 1)
    return TwoUnits(), torch.cat([W, b], -1), h, dt, "maps.twoUnits([[x[0], x[1]], [x[2], x[3]]], [x[4], x[5]])"


@needs_javascript
@pytest.mark.parametrize("settings", [one_unit, two_units])
def test_one_step_is_that_of_discretize_to_rounding(settings, tmp_path):
    field, x, h, dt, theirs = settings()
    found = evaluated(
        f"Object.fromEntries(steps.map((name) => [name, xs.map((x, k) => maps.STEPS[name]({theirs}, hs[k], dts[k]))]))",
        tmp_path,
        steps=STEPS,
        xs=x.tolist(),
        hs=h.tolist(),
        dts=dt[:, 0].tolist(),
    )
    assert list(found) == STEPS
    for name in STEPS:
        expected = getattr(discretize, name)()(field, x, h, dt)
        off = (torch.tensor(found[name]) - expected).abs() / expected.abs().clamp(min=1)
        assert off.max() <= 1e-13, f"{name}: off by {off.max():.1e} at {x[off.amax(-1).argmax()].tolist()}"


@needs_javascript
@pytest.mark.slow
def test_trajectories_that_forget_their_start_are_those_of_discretize(tmp_path):
    field, x, h, dt, theirs = one_unit()
    count, point = 100, torch.arange(SETTINGS, dtype=torch.float64)
    found = evaluated(
        f"steps.map((name) => xs.map((x, k) => maps.trajectory(name, {theirs}, hs[k], dts[k], {count})))",
        tmp_path,
        steps=STEPS,
        xs=x.tolist(),
        hs=h.tolist(),
        dts=dt[:, 0].tolist(),
    )
    for name, theirs in zip(STEPS, found, strict=True):
        step, hs = getattr(discretize, name)(), [h]
        for _ in range(count):
            # What has left stays where it is, and is not compared: an implicit step refuses what is not a number.
            hs.append(torch.where(hs[-1].abs() < 1e6, step(field, x, hs[-1], dt), hs[-1]))
        run = discretize.lyapunov(stepped(step, dt[:, 0], x[:, 0]), h, point, intervals=count, transient=0)
        forgets = (run.exponents[:, 0] < 0) & (hs[-1].abs() < 10)[:, 0]
        assert forgets.sum() >= SETTINGS / 5
        kept = torch.tensor([t for t, keep in zip(theirs, forgets, strict=True) if keep]).transpose(0, 1)
        assert_close(kept, torch.stack(hs)[:, forgets], rtol=0, atol=1e-10, msg=lambda text, name=name: f"{name}: {text}")


@needs_javascript
@pytest.mark.slow
def test_the_chart_shows_what_the_chart_of_ctrnn_breakdown_shows(tmp_path):
    g_dt = torch.logspace(-1, 1, 13).repeat(12)
    w = torch.linspace(-29.5, 1.5, 12).repeat_interleave(13)
    found = evaluated(
        "steps.map((name) => dts.map((dt, k) => maps.FATES[maps.fate(name, dt, ws[k]).kind]))",
        tmp_path,
        steps=STEPS,
        dts=g_dt.tolist(),
        ws=w.tolist(),
    )
    names = ["rest", "2-cycle", "longer cycle", "chaos", "divergence"]
    seen = set()
    for name, kinds in zip(STEPS, found, strict=True):
        ours = [names[k] for k in fates(getattr(discretize, name)(), g_dt, w)[0]]
        agrees = [kind.split(",")[0] == our for kind, our in zip(kinds, ours, strict=True)]
        # Beside a bifurcation a rounding decides: a run of chaos is short.
        assert sum(agrees) >= 0.98 * len(agrees), name
        seen |= set(kinds)
    assert seen == {*names, "rest, overshooting"}


@needs_javascript
@pytest.mark.slow
def test_solved_lines_are_the_equation_to_the_tolerance_of_their_solver(tmp_path):
    for field, x, h, _, theirs in (one_unit(), two_units()):
        ts = torch.linspace(0, 30, 61)
        found = evaluated(
            f"xs.map((x, k) => maps.solvedFlow({theirs}, hs[k], ts))", tmp_path, xs=x.tolist(), hs=h.tolist(), ts=ts.tolist()
        )
        exact = discretize.integrate(field, ctrnn.HeldPath(x[None], torch.tensor([0.0, 30.0])), h, ts, rtol=1e-12, atol=1e-14)
        # 1e-10 is the tolerance of a step; a saddle, which two units have, drives what is left of it apart.
        off = (torch.tensor(found).transpose(0, 1) - exact.hs).abs().amax((0, 2))
        assert off.median() <= 1e-10
        assert off.max() <= (1e-9 if h.shape[-1] == 1 else 1e-7)


@needs_javascript
@pytest.mark.slow
@torch.no_grad()
def test_states_on_a_clock_are_those_of_a_warped_solve(tmp_path):
    ts, xs = torch.arange(21.0), torch.randn(21)
    cs = torch.cat([torch.zeros(1), torch.rand(20).square().add(0.01).cumsum(0)])  # speeds from 0.03 to 3
    cs *= 20 / cs[-1]
    found = evaluated("maps.warped({wx: 2, wh: -3}, ts, xs, cs)", tmp_path, ts=ts.tolist(), xs=xs.tolist(), cs=cs.tolist())
    field = ctrnn.plain(1, 1)
    for weight, value in ((field.candidate.weight_x, 2.0), (field.candidate.weight_h, -3.0), (field.candidate.bias, 0.0)):
        weight.fill_(value)
    clock, x = ctrnn.PiecewiseWarp(ts, cs), ctrnn.LinearPath(xs[:, None, None], ts)
    played, times, h0 = ctrnn.WarpedPath(x, clock), torch.tensor(found["times"]), torch.zeros(1, 1)
    for name, path, at, speed in (
        ("own", x, clock(times), None),
        ("withSpeed", played, times, clock.speed),
        ("withoutSpeed", played, times, None),
    ):
        exact = discretize.integrate(field, path, h0, at, speed=speed, rtol=1e-11, atol=1e-13).hs[:, 0, 0]
        assert_close(torch.tensor(found[name]), exact, rtol=0, atol=1e-9, msg=lambda text, name=name: f"{name}: {text}")
    assert_close(found["withSpeed"], found["own"], rtol=0, atol=1e-9)
    assert (torch.tensor(found["withoutSpeed"]) - torch.tensor(found["own"])).abs().max() > 0.1


# --- the page ---------------------------------------------------------------------------------------------------------------


LINK = {
    "step": "Trapezoid",
    "dt": "4.2",
    "w": "-21.5",
    "h0": "-0.35",
    "step2": "ETD2",
    "dt2": "0.7",
    "W": "1.1,-2.3,0.4,-0.6",
    "b": "0.2,-0.1",
    "start": "0.7,-0.9",
    "wx": "-1.5",
    "wh": "0.7",
}


LABELABLE = {"button", "input", "meter", "output", "progress", "select", "textarea"}


def value(page, key):
    """The number that is shown beside a slider."""
    return float(element(page, f"out-{key}").text.replace("−", "-"))


def test_the_page_is_small_and_loads_nothing_from_elsewhere():
    assert sum(path.stat().st_size for path in EXPLORER.iterdir()) < 100_000
    page = Reader((EXPLORER / "index.html").read_text(encoding="utf-8"))
    loaded = [e.attrs[key] for e in page.elements for key in ("src", "href") if key in e.attrs]
    assert all(name == "data:," or (EXPLORER / name).is_file() for name in loaded)
    for path in EXPLORER.iterdir():
        text = path.read_text(encoding="utf-8").replace("http://www.w3.org/2000/svg", "")
        # Modules are not loaded from a file.
        assert not re.search(r"https?:|\bfetch\(|XMLHttpRequest|@import|url\((?!#)|type=\"module\"", text), path.name


def test_everything_that_can_be_operated_or_seen_has_a_name():
    page = Reader((EXPLORER / "index.html").read_text(encoding="utf-8"))
    ids = {e.attrs["id"]: e for e in page.elements if "id" in e.attrs}
    labelled = {id(child) for label in page.all("label") for child in label.children}
    for element in page.elements:
        if element.tag in ("svg", "input", "select", "button", "section"):
            named = element.attrs.get("aria-label") or ids.get(element.attrs.get("aria-labelledby"), element).text.strip()
            assert named or id(element) in labelled, element
        if element.attrs.get("tabindex"):
            assert element.attrs["tabindex"] == "0"
    # A label names the first element in it that can be labelled; <output> is such an element.
    for label in page.all("label"):
        assert next(child.tag for child in label.children if child.tag in LABELABLE) in ("input", "select")
    for element in page.all("input"):
        assert {"min", "max"} <= set(element.attrs)


each_link = pytest.mark.parametrize("link", [{}, LINK], ids=["as it opens", "from a link"])


def stated(link, folder):
    """The state of a link, with its lines of Python."""
    return evaluated("{...state.parse(link), python: state.python(state.parse(link))}", folder, link=urlencode(link, safe=","))


@needs_javascript
def test_a_link_is_the_state_that_it_was_made_of(tmp_path):
    states = evaluated(
        "[state.parse(hash), state.parse(state.link(state.parse(hash)))]", tmp_path, hash=f"#{urlencode(LINK, safe=',')}"
    )
    assert states[0] == states[1]
    for key, text in LINK.items():
        wanted = text if key.startswith("step") else [float(v) for v in text.split(",")]
        assert states[0][key] == (wanted[0] if key not in ("W", "b", "start") and not isinstance(wanted, str) else wanted), key
    assert evaluated("[state.link(state.DEFAULTS), state.link({...state.DEFAULTS, w: -3})]", tmp_path) == ["#", "#w=-3"]


@needs_javascript
def test_what_makes_no_sense_in_a_link_is_as_by_default(tmp_path):
    link = "step=Leapfrog&dt=1e9&w=&h0=x&W=1,2&b=1,x&dt2=NaN&<script>"
    found, default = evaluated("[state.parse(link), state.DEFAULTS]", tmp_path, link=link)
    assert found == default | {"dt": 10}  # the largest that there is


@needs_javascript
def test_a_clock_that_is_moved_at_a_point_increases_from_0_to_the_end(tmp_path):
    moves = [[k, value] for k in (1, 9, 19) for value in (-5, 0, 7.5, 20, 100)]
    found = evaluated("moves.map(([k, value]) => state.moved(state.TIMES, k, value))", tmp_path, moves=moves)
    for (k, value), cs in zip(moves, found, strict=True):
        assert (cs[0], cs[-1], len(cs)) == (0, 20, 21)
        assert all(b - a > 0.0199 for a, b in pairwise(cs)), (k, value)
        assert cs[k] == pytest.approx(min(max(value, 0.02 * k), 20 - 0.02 * (20 - k)), abs=0.006)
        aside = [c for c, t in zip(cs, range(21), strict=True) if (t < k) == (t <= cs[k]) and abs(t - cs[k]) > 1 and t != k]
        assert all(c == round(c) for c in aside)  # only those in its way make way


@needs_javascript
@pytest.mark.slow
@each_link
def test_the_python_of_a_state_makes_its_pictures(link, tmp_path, monkeypatch):
    now = stated(link, tmp_path)
    monkeypatch.chdir(tmp_path)
    matplotlib.use("agg")
    torch.set_default_dtype(torch.float32)  # as in a process of its own; `_same_start` puts it back
    made = {}
    for part in ("one", "two", "clock"):
        made[part] = {"__name__": "__main__"}
        exec(compile(now["python"][part], f"the explorer's lines, {part}", "exec"), made[part])
    assert (tmp_path / "unit.png").exists()
    assert (tmp_path / "plane.png").exists()
    assert (made["clock"]["warped"].hs - made["clock"]["own"].hs).abs().max() < 1e-8
    found = evaluated(
        "[maps.trajectory(now.step, maps.oneUnit(now.w), [now.h0], now.dt, 10), "
        "maps.trajectory(now.step2, maps.twoUnits([now.W.slice(0, 2), now.W.slice(2)], now.b), now.start, now.dt2, 10)]",
        tmp_path,
        now=now,
    )
    for part, hs in zip(("one", "two"), found, strict=True):
        assert_close(made[part]["stepped"].hs[:11, 0].detach(), torch.tensor(hs, dtype=torch.float64), rtol=0, atol=1e-9)


@needs_browser
@pytest.mark.slow
@each_link
def test_the_page_opens_and_shows_its_state(link, tmp_path):
    page, now = shown(f"{(EXPLORER / 'index.html').as_uri()}#{urlencode(link, safe=',')}", tmp_path), stated(link, tmp_path)
    (body,) = page.all("body")
    assert body.attrs["data-charts"] == "done"
    assert element(page, "told").text == ""  # what the page opens with is not announced
    for key in ("dt", "w", "h0", "dt2", "wx", "wh"):
        assert value(page, key) == now[key]
    for part, lines in now["python"].items():
        assert element(page, f"code-{part}").text == lines
    for each in page.elements:
        words = " ".join(["" if each.tag in ("script", "style") else each.text, *filter(None, each.attrs.values())])
        assert not {"nan", "undefined"} & set(words.lower().replace(",", " ").split()), each.tag


@needs_browser
@pytest.mark.slow
@pytest.mark.parametrize(
    ("link", "said"),
    [
        # The equation goes round a point of rest and never comes near it.
        ("W=9,9,-9,9&dt2=0.05&start=1.2,1.2&step2=Heun", "Near the point of rest (0.00, 0.00) a small difference grows to 1.492"),
        ("W=0.9,-2,2,0.9&step2=Euler", "shrinks to 0.980 of itself under the equation in the time dt; in a step of Euler it"),
    ],
)
def test_what_is_said_of_two_units_is_of_their_point_of_rest(link, said, tmp_path):
    page = shown(f"{(EXPLORER / 'index.html').as_uri()}#{link}", tmp_path)
    assert said in element(page, "said-two").text


OPERATED = """
const press = (id, key, options = {}) => document.getElementById(id).dispatchEvent(
  new KeyboardEvent("keydown", { key, bubbles: true, ...options }));
const choose = (selector, change) => {
  const element = document.querySelector(selector);
  change(element);
  element.dispatchEvent(new Event("input", { bubbles: true }));
};
press("chart", "ArrowUp", { shiftKey: true });
press("chart", "ArrowRight");
choose('input[value="Heun"]', (radio) => (radio.checked = true));
choose('[data-key="h0"]', (slider) => (slider.value = -0.5));
choose('[data-list="W"][data-at="1"]', (number) => (number.value = -1.7));
setTimeout(() => choose("#step2", (select) => (select.value = "Trapezoid")), 500);
press("plane", "ArrowLeft");
press("input", "ArrowRight");
press("input", "ArrowDown");
press("clock", "ArrowUp", { shiftKey: true });
press("plane", "PageUp");
document.querySelector('[data-key="dt"][data-value="0.2"]').click();

// A pointer that the browser knows: what it gives to the element that holds it.
const point = (id, type, options) => {
  const svg = document.getElementById(id), at = svg.getBoundingClientRect(), held = type !== "pointercancel";
  svg.setPointerCapture = () => {};
  svg.hasPointerCapture = () => held;
  const place = { clientX: at.left + at.width / 2, clientY: at.top + at.height * (type === "pointermove" ? 0.3 : 0.5) };
  svg.dispatchEvent(new PointerEvent(type, { bubbles: true, ...place, ...options }));
};
for (const type of ["pointerdown", "pointerup"]) point("chart", type, { button: 2, pointerType: "mouse" });
for (const type of ["pointerdown", "pointermove", "pointercancel"]) point("input", type, { pointerType: "touch" });
point("clock", "pointerdown", { pointerType: "touch" });
point("clock", "pointerup", { pointerType: "touch" });
setTimeout(() => (document.body.dataset.link = location.hash), 3000);
"""


@needs_browser
@pytest.mark.slow
def test_keys_and_controls_change_the_address(tmp_path):
    copied = tmp_path / "explorer"
    shutil.copytree(EXPLORER, copied)
    (copied / "operated.js").write_text(OPERATED, encoding="utf-8")
    index = copied / "index.html"
    index.write_text(
        index.read_text(encoding="utf-8").replace("</body>", '<script src="operated.js"></script></body>'), encoding="utf-8"
    )
    page = shown(index.as_uri(), tmp_path)
    (body,) = page.all("body")
    now = evaluated("state.parse(link)", tmp_path, link=body.attrs["data-link"])
    assert (now["step"], now["dt"], now["w"], now["h0"]) == ("Heun", 0.2, -13, -0.5)
    assert (now["step2"], now["W"], now["start"]) == ("Trapezoid", [0.9, -1.7, 2, 0.9], [0.48, 0.2])
    # A finger that scrolls the page, whose pointer is cancelled, draws nothing; one that is lifted sets a point.
    assert now["x"] == [-0.4, -0.45, 1, 1, *[-0.4] * 5, 1, 1, *[-0.4] * 4, 1, 1, *[-0.4] * 4]
    assert now["c"][9] != 4.55
    assert all(a < b for a, b in pairwise(now["c"]))
    # Which choice is taken, and what a screen reader hears of the charts and of what has changed.
    (pressed,) = [each for each in page.elements if each.attrs.get("aria-pressed") == "true"]
    assert (pressed.attrs["data-key"], float(pressed.attrs["data-value"])) == ("dt", 0.2)
    parts = [part.removesuffix(" %").rsplit(" ", 1) for part in element(page, "small-Euler").attrs["aria-label"].split("; ")]
    shares = {fate: int(share) for fate, share in parts}
    assert {"rest", "chaos"} <= set(shares)
    assert abs(sum(shares.values()) - 100) <= len(shares) / 2  # each to a whole per cent
    assert "in the end from" in element(page, "states2").attrs["aria-label"]
    assert "Trapezoid" in element(page, "told").text


@needs_browser
@pytest.mark.slow
def test_a_link_that_makes_no_sense_opens_the_page_as_it_is(tmp_path):
    link = "step=Leapfrog&dt=1e9&w=&h0=x&W=1,2&c=" + ",".join(["5"] * 21) + "&<script>"
    page = shown(f"{(EXPLORER / 'index.html').as_uri()}#{link}", tmp_path)
    assert (value(page, "dt"), value(page, "w")) == (10, -14)
    assert "discretize.Euler()" in element(page, "code-one").text
