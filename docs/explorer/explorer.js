/* The page: draws the figures of one state, and changes the state as a reader drags, draws and types. */
"use strict";

(() => {
  const byId = (id) => document.getElementById(id);
  const { minus, ticksOf } = figures;
  const { PRESETS, RANGES, LISTS, TIMES, LAST } = state;
  const NAMES = {
    Euler: "Euler", Midpoint: "Midpoint", Heun: "Heun", RungeKutta4: "Runge-Kutta 4", ExponentialEuler: "Exponential Euler",
    ETD2: "ETD2", FrozenBackwardEuler: "Frozen backward Euler", BackwardEuler: "Backward Euler", Trapezoid: "Trapezoid",
  };
  const FORMULAS = {
    Euler: "h + dt F(h)",
    Midpoint: "h + dt F(h + dt/2 F(h))",
    Heun: "h + dt/2 (F(h) + F(h + dt F(h)))",
    RungeKutta4: "h + dt/6 (p + 2 q + 2 r + s), p = F(h), q = F(h + dt/2 p), r = F(h + dt/2 q), s = F(h + dt r)",
    ExponentialEuler: "h + (1 − e^−dt) F(h)",
    ETD2: "a + (F(a) − F(h) + a − h) (dt − 1 + e^−dt)/dt, a = h + (1 − e^−dt) F(h)",
    FrozenBackwardEuler: "h + dt F(h)/(1 + dt)",
    BackwardEuler: "h + dt F(h′)",
    Trapezoid: "h + dt/2 (F(h) + F(h′))",
  };
  const PLANE = LISTS.start, W_RANGE = RANGES.w, DT_RANGE = RANGES.dt;
  let now = state.parse(location.hash);

  // --- figures -----------------------------------------------------------------------------------------------------------

  const dtAxis = () => ({ range: DT_RANGE, ticks: [0.1, 0.2, 0.5, 1, 2, 5, 10], label: "g dt", log: true });
  const time = () => ({ range: [0, LAST], ticks: [0, 5, 10, 15, 20], label: "t" });
  const axis = (range, label) => ({ range, ticks: ticksOf(range), label });

  const chart = figures.plot(byId("chart"), {
    x: dtAxis(), y: { range: W_RANGE, ticks: [-30, -20, -10, 0], label: "w" }, layers: ["cells", "marks", "point"],
  });
  const cobweb = figures.plot(byId("cobweb"), { x: axis([-1, 1], "h"), y: axis([-1, 1], "h′"), layers: ["all"] });
  const states = figures.plot(byId("states"), { x: axis([0, 30], "t/τ"), y: axis([-1, 1], "h"), layers: ["all"] });
  const plane = figures.plot(byId("plane"), {
    height: 330, x: axis(PLANE, "h₁"), y: axis(PLANE, "h₂"), layers: ["nullclines", "all"],
  });
  const states2 = figures.plot(byId("states2"), { height: 330, x: axis([0, 40], "t/τ"), y: axis(PLANE, "h₁"), layers: ["all"] });
  const input = figures.plot(byId("input"), { height: 210, x: time(), y: { range: [-1.1, 1.1], ticks: [-1, 0, 1], label: "x" }, layers: ["all"] });
  const clock = figures.plot(byId("clock"), { height: 210, x: time(), y: { ...time(), label: "c" }, layers: ["all"] });
  const played = figures.plot(byId("played"), { height: 210, x: time(), y: { range: [-1.1, 1.1], ticks: [-1, 0, 1], label: "x" }, layers: ["all"] });
  const warped = figures.plot(byId("warped"), { height: 210, x: time(), y: { range: [-1.1, 1.1], ticks: [-1, 0, 1], label: "h" }, layers: ["all"] });

  const ring = (figure, x, y, r) =>
    ["halo", "point"].map((name) => `<circle class="${name}" cx="${figure.X(x)}" cy="${figure.Y(y)}" r="${r}"/>`).join("");
  const upright = (figure, x) =>
    ["halo thin", "mark"].map((name) => `<path class="${name}" d="M${figure.X(x)} ${figure.box.top}V${figure.box.bottom}"/>`).join("");

  // --- the nine charts ---------------------------------------------------------------------------------------------------

  const small = {};
  byId("nine").innerHTML = Object.keys(maps.STEPS).map((name) =>
    `<label><input type="radio" name="step" value="${name}"><span>${NAMES[name]}</span><svg id="small-${name}" role="img"></svg></label>`).join("");
  for (const name of Object.keys(maps.STEPS)) {
    small[name] = figures.plot(byId(`small-${name}`), {
      width: 118, height: 108, left: 26, bottom: 18, top: 4, right: 6,
      x: { range: DT_RANGE, ticks: [0.1, 1, 10], log: true }, y: { range: W_RANGE, ticks: [-30, 0] },
      layers: ["cells", "point"],
    });
  }
  byId("key").innerHTML = maps.FATES.map((fate, k) => `<li><svg viewBox="0 0 14 14" aria-hidden="true"><rect class="fate-${k}" width="14" height="14"/></svg>${fate}</li>`).join("");
  byId("step2").innerHTML = Object.entries(NAMES).map(([name, text]) => `<option value="${name}">${text}</option>`).join("");

  // Each chart is computed row by row, a few milliseconds a frame, so that the page answers meanwhile.
  const COARSE = [33, 40], FINE = [99, 120], computed = {};
  const chartOf = (name, [rows, columns]) => (computed[`${name} ${rows}`] ??= { name, rows, columns, kinds: [] });
  const isDone = (each) => each.kinds.length === each.rows;

  function computeRow(each) {
    const w = W_RANGE[0] + ((each.kinds.length + 0.5) / each.rows) * (W_RANGE[1] - W_RANGE[0]), row = [];
    for (let k = 0; k < each.columns; k++) row.push(maps.fate(each.name, 0.1 * 100 ** ((k + 0.5) / each.columns), w).kind);
    each.kinds.push(row);
  }

  function nextChart() {
    const all = [now.step, ...Object.keys(maps.STEPS)].map((name) => chartOf(name, COARSE));
    return [...all, chartOf(now.step, FINE)].find((each) => !isDone(each));
  }

  function drawCells() {
    const fine = chartOf(now.step, FINE), coarse = chartOf(now.step, COARSE), best = isDone(fine) ? fine : coarse;
    chart.fill("cells", isDone(best) ? figures.cells(chart, best.kinds) : "");
  }

  function drawSmall({ name, kinds }) {
    const share = (k) => Math.round((100 * kinds.flat().filter((kind) => kind === k).length) / kinds.flat().length);
    small[name].fill("cells", figures.cells(small[name], kinds));
    small[name].svg.setAttribute("aria-label", maps.FATES.map((fate, k) => share(k) && `${fate} ${share(k)} %`).filter(Boolean).join("; "));
  }

  let computing = false;
  function compute() {
    computing = true;
    const end = performance.now() + 10;
    let each = nextChart();
    while (each && performance.now() < end) {
      computeRow(each);
      if (isDone(each)) {
        if (each.rows === COARSE[0]) drawSmall(each);
        if (each.name === now.step) drawCells();
        each = nextChart();
      }
    }
    computing = Boolean(each);
    if (each) requestAnimationFrame(compute);
    else document.body.dataset.charts = "done";
  }

  // --- one unit ----------------------------------------------------------------------------------------------------------

  const spread = (end, count) => Array.from({ length: count + 1 }, (_, k) => (k / count) * end);

  /** A range that holds most of the values, in steps of a half, no wider than from -4 to 4. */
  function rangeOf(values) {
    const inside = values.filter((v) => Math.abs(v) <= 4);
    return [Math.floor(2 * Math.min(-0.9, ...inside)) / 2, Math.ceil(2 * Math.max(0.9, ...inside)) / 2];
  }

  function drawOne() {
    const { step, dt, w, h0 } = now, field = maps.oneUnit(w), count = state.steps(dt);
    const hs = maps.trajectory(step, field, [h0], dt, count).map(([h]) => h), end = dt * count;
    const ts = spread(end, 240), solved = maps.solvedFlow(field, [h0], ts).map(([h]) => h);
    const range = rangeOf([...hs, ...solved]);

    chart.fill("marks", upright(chart, 1));
    chart.fill("point", ring(chart, dt, w, 6));
    for (const each of Object.values(small)) each.fill("point", ring(each, dt, w, 3.5));
    chart.svg.setAttribute("aria-valuenow", dt);

    cobweb.rescale("x", range, ticksOf(range));
    cobweb.rescale("y", range, ticksOf(range));
    const grid = spread(1, 300).map((s) => range[0] + s * (range[1] - range[0]));
    const web = hs.slice(0, -1).flatMap((h, k) => [[h, hs[k + 1]], [hs[k + 1], hs[k + 1]]]);
    cobweb.fill("all", cobweb.line([[range[0], range[0]], [range[1], range[1]]], "diagonal") +
      cobweb.line(grid.map((h) => [h, maps.STEPS[step](field, [h], dt)[0]]), "map") +
      cobweb.line([[h0, range[0]], ...web], "web"));
    cobweb.over.innerHTML = cobweb.dots([[h0, range[0]]], "start", 4);

    states.rescale("x", [0, end], ticksOf([0, end]));
    states.rescale("y", range, ticksOf(range));
    const stepped = hs.map((h, k) => [k * dt, h]);
    states.fill("all", states.line(stepped, "joined") + states.line(ts.map((t, k) => [t, solved[k]]), "solved") +
      states.dots(stepped, "stepped"));
    sayOne(field);
  }

  /** Write what is to be seen; a screen reader is told once it no longer changes, and nothing as the page opens. */
  const heard = new Map();
  let opened = false, telling = 0;
  function say(part, html) {
    byId(`said-${part}`).innerHTML = html;
    if (!opened) return;
    heard.set(part, html.replace("<sup>", " to the power of ").replace(/<[^>]*>/g, ""));
    clearTimeout(telling);
    telling = setTimeout(() => {
      byId("told").textContent = [...heard.values()].join(" ");
      heard.clear();
    }, 700);
  }

  function sayOne(field) {
    const { step, dt, w, h0 } = now, found = maps.fate(step, dt, w, h0), kind = maps.FATES[found.kind];
    const rest = maps.solve((t, h) => maps.flow(field, h), [h0], [0, 200], 1e-8, 1e-10)[1][0];
    const elsewhere = kind.startsWith("rest") && Math.abs(found.h - rest) > 1e-3;
    const said = elsewhere ? `comes to rest, but at <i>h</i> = ${minus(found.h.toFixed(3))}` : {
      rest: "comes to rest as the equation does, from one side",
      "rest, overshooting": "comes to rest as the equation does, but steps over the point of rest each time",
      "2-cycle": "ends up jumping between two states",
      "longer cycle": found.period ? `ends up going round ${found.period} states` : "ends up in a long cycle",
      chaos: `is chaotic: a small difference grows by a factor of ${Math.exp(found.exponent).toFixed(2)} a step`,
      divergence: "leaves every bound",
    }[kind];
    say("one", `At <i>g</i> d<i>t</i> = ${dt}, <i>w</i> = ${minus(w)} the step map ${NAMES[step]} ${said}. The equation rests at <i>h</i> = ${minus(rest.toFixed(3))}.`);
    chart.svg.setAttribute("aria-valuetext", `g dt ${dt}, w ${w}: ${kind}`);
    cobweb.svg.setAttribute("aria-label", `Cobweb of ${NAMES[step]} from h = ${h0}: ${kind}`);
    states.svg.setAttribute("aria-label", `States over time: ${NAMES[step]} as dots, ${kind}; the equation as a line, which rests at ${rest.toFixed(3)}`);
    document.querySelectorAll(".step-name").forEach((each) => (each.textContent = NAMES[step]));
  }

  // --- two units ---------------------------------------------------------------------------------------------------------

  /** The first unit over the last quarter. */
  function ending(hs) {
    const last = hs.slice(Math.floor(0.75 * hs.length)).map(([h]) => h);
    if (!last.every(Number.isFinite)) return "without a state";
    return `from ${minus(Math.min(...last).toFixed(2))} to ${minus(Math.max(...last).toFixed(2))}`;
  }

  function drawTwo() {
    const { step2, dt2, start, W, b } = now, field = maps.twoUnits([W.slice(0, 2), W.slice(2)], b), count = state.steps2(dt2);
    const hs = maps.trajectory(step2, field, start, dt2, count), end = dt2 * count, ts = spread(end, 600);
    const solved = maps.solvedFlow(field, start, ts);
    const segments = [0, 1].map((i) =>
      figures.zeros((a, c) => maps.flow(field, [a, c])[i], PLANE).map(([p, q]) => plane.line([p, q], i ? "nullcline second" : "nullcline")).join(""));
    plane.fill("nullclines", segments.join(""));
    plane.fill("all", plane.line(hs, "joined") + plane.line(solved, "solved") + plane.dots(hs, "stepped") +
      plane.dots([start], "start", 5));
    const stepped = hs.map(([h], k) => [k * dt2, h]);
    states2.rescale("x", [0, end], ticksOf([0, end]));
    states2.fill("all", states2.line(stepped, "joined") + states2.line(ts.map((t, k) => [t, solved[k][0]]), "solved") +
      states2.dots(stepped, "stepped"));
    const rest = maps.restNear(field, solved[solved.length - 1]) ?? maps.restNear(field, [0, 0]);
    say("two", hs[count].some(Number.isNaN) ? `${NAMES[step2]} finds no state after a step here: take shorter steps.`
      : rest ? nearRest(step2, field, rest, dt2) : "No point of rest was found near where the equation is in the end.");
    plane.svg.setAttribute("aria-valuetext", `h1 ${start[0]}, h2 ${start[1]}`);
    plane.svg.setAttribute("aria-valuenow", start[0]);
    states2.svg.setAttribute("aria-label", `First unit over time: ${NAMES[step2]} as dots, in the end ${ending(hs)}; the equation as a line, in the end ${ending(solved)}`);
  }

  function nearRest(step, field, rest, dt) {
    const g = maps.growth(step, field, rest, dt), place = rest.map((v) => minus(v.toFixed(2)).replace("−0.00", "0.00")).join(", ");
    const size = (factor) => (factor < 1e4 ? factor.toFixed(3) : factor.toExponential(1));
    const does = (factor) => `${factor < 1 ? "shrinks" : "grows"} to ${size(factor)} of itself`;
    return `Near the point of rest (${place}) a small difference ${does(g.equation)} under the equation in the time d<i>t</i>` +
      (Number.isFinite(g.step) ? `; in a step of ${NAMES[step]} it ${does(g.step)}.` : ".");
  }

  // --- a clock -----------------------------------------------------------------------------------------------------------

  const selected = { x: 0, c: LAST / 2 }; // both ends of a clock stay where they are

  function drawClock() {
    const { x, c, wx, wh } = now, found = maps.warped({ wx, wh }, TIMES, x, c), pairs = (hs) => found.times.map((t, k) => [t, hs[k]]);
    for (const [figure, key] of [[input, "x"], [clock, "c"]]) {
      const points = TIMES.map((t) => [t, now[key][t]]), at = points[selected[key]];
      const even = key === "c" ? figure.line([[0, 0], [LAST, LAST]], "clock-even") : "";
      figure.fill("all", even + figure.line(points, "solved") + figure.dots(points, "stepped") +
        `<circle class="chosen" cx="${figure.X(at[0])}" cy="${figure.Y(at[1])}" r="6"/>`);
      figure.svg.setAttribute("aria-valuenow", at[1]);
      figure.svg.setAttribute("aria-valuetext", `${key}(${at[0]}) = ${at[1]}`);
    }
    played.fill("all", played.line(pairs(found.input), "solved"));
    warped.fill("all", warped.line(pairs(found.own), "solved") + warped.line(pairs(found.withoutSpeed), "without") +
      warped.dots(pairs(found.withSpeed).filter((_, k) => k % 4 === 0), "stepped"));
    const apart = (hs) => Math.max(...hs.map((h, k) => Math.abs(h - found.own[k])));
    const least = apart(found.withSpeed), power = least > 0 ? Math.ceil(Math.log10(least)) : -16;
    say("clock", least === 0 ? "An even clock changes nothing: <i>c</i>′(<i>t</i>) = 1." : `Multiplied by <i>c</i>′(<i>t</i>) the states differ from <i>h</i>(<i>c</i>(<i>t</i>)) by less than 10<sup>${minus(power)}</sup>, the error of the solver; not multiplied, by up to ${apart(found.withoutSpeed).toFixed(2)}.`);
    warped.svg.setAttribute("aria-label", `States on the clock: with its speed on the line, without it up to ${apart(found.withoutSpeed).toFixed(2)} away`);
  }

  // --- words and code ------------------------------------------------------------------------------------------------------

  const italic = (text) => text
    .replace(/\be\^−?([\d.]+|dt)/g, (_, power) => `e<sup>−${power}</sup>`)
    .replace(/(?<![\w<&/])(dt|[a-zA-Z])(?!\w)/g, (letter) => (letter === "dt" ? "d<i>t</i>" : `<i>${letter}</i>`));

  function write() {
    const { step, dt, w } = now, numbers = FORMULAS[step].replace(/dt\/(\d)/g, (_, n) => state.significant(dt / n)).replace(/\bdt\b/g, dt);
    byId("equations").innerHTML = `d<i>h</i>/d<i>t</i> = <i>F</i>(<i>h</i>) = tanh(${minus(w)} (<i>h</i> − ${maps.THETA})) − <i>h</i>, with time in <i>τ</i> = 1/<i>g</i><br>` +
      `${NAMES[step]}: <i>h</i>′ = ${italic(numbers).replace(/<i>e<\/i><sup>/g, "e<sup>")}`;
    for (const [key, lines] of Object.entries(state.python(now))) byId(`code-${key}`).textContent = lines;
  }

  function showControls() {
    for (const each of document.querySelectorAll("input[type=range]")) {
      const value = now[each.dataset.key];
      each.value = "log" in each.dataset ? Math.log10(value) : value;
      each.setAttribute("aria-valuetext", value);
      byId(`out-${each.dataset.key}`).textContent = minus(value);
    }
    for (const each of document.querySelectorAll("[data-list]")) {
      if (each !== document.activeElement) each.value = now[each.dataset.list][each.dataset.at];
    }
    for (const each of document.querySelectorAll("#nine input")) each.checked = each.value === now.step;
    byId("step2").value = now.step2;
    for (const each of document.querySelectorAll("button[data-value], button[data-preset]")) {
      each.setAttribute("aria-pressed", Object.entries(valuesOf(each)).every(([key, value]) => String(now[key]) === String(value)));
    }
  }

  // --- changes -------------------------------------------------------------------------------------------------------------

  const PARTS = [[drawOne, ["step", "dt", "w", "h0"]], [drawTwo, ["step2", "dt2", "W", "b", "start"]], [drawClock, ["x", "c", "wx", "wh"]]];
  const changed = new Set();
  let drawing = false, saving = 0;

  /** Take on new values; all that depends on them is drawn once before the next frame. */
  function set(values) {
    Object.assign(now, values);
    Object.keys(values).forEach((key) => changed.add(key));
    if (!drawing) requestAnimationFrame(draw);
    drawing = true;
  }

  function draw() {
    drawing = false;
    for (const [part, keys] of PARTS) if (keys.some((key) => changed.has(key))) part();
    if (changed.has("step")) {
      drawCells();
      if (!computing) requestAnimationFrame(compute);
    }
    changed.clear();
    opened = true;
    showControls();
    write();
    clearTimeout(saving);
    saving = setTimeout(save, 150); // browsers limit how often an address may change
  }

  function save() {
    const link = state.link(now);
    if ((location.hash || "#") !== link) history.replaceState(null, "", link);
  }

  const { significant, round, kept } = state;
  const snapped = { dt: significant, dt2: significant, w: (v) => round(v, 1), h0: (v) => round(v, 2), wx: (v) => round(v, 1), wh: (v) => round(v, 1) };
  const bounded = (key, value) => kept(snapped[key](value), RANGES[key]);

  const WAYS = {
    ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1],
    Home: [-Infinity, 0], End: [Infinity, 0], PageUp: [0, 10], PageDown: [0, -10],
  };

  /** Pointer and keys of a figure. at(values, first) on a press and a drag; by(dx, dy) on a key, in steps of one.

      A finger counts once it is lifted or has moved across, so that a swipe that scrolls the page changes nothing. */
  function control({ svg, under }, at, by) {
    let pressed = null; // until it counts
    const apply = (event) => {
      if (!svg.hasPointerCapture(event.pointerId)) return;
      if (pressed) svg.focus({ preventScroll: true });
      at(under(event), Boolean(pressed));
      pressed = null;
    };
    const scrolls = (event) => pressed?.pointerType === "touch" && svg !== document.activeElement &&
      Math.abs(event.clientX - pressed.clientX) <= Math.abs(event.clientY - pressed.clientY);
    svg.addEventListener("pointerdown", (event) => {
      if (event.button) return;
      event.preventDefault();
      svg.setPointerCapture(event.pointerId);
      pressed = event;
      if (event.pointerType !== "touch") apply(event);
    });
    svg.addEventListener("pointermove", (event) => scrolls(event) || apply(event));
    svg.addEventListener("pointerup", (event) => pressed && apply(event));
    svg.addEventListener("keydown", (event) => {
      const way = WAYS[event.key];
      if (!way || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      const far = event.shiftKey ? 5 : 1;
      by(way[0] * far, way[1] * far);
    });
  }

  control(chart,
    ([dt, w]) => set({ dt: bounded("dt", dt), w: bounded("w", w) }),
    (dx, dy) => set({ dt: bounded("dt", now.dt * 1.02 ** dx), w: bounded("w", now.w + 0.2 * dy) }));

  const startAt = (h) => set({ start: h.map((v) => round(kept(v, PLANE), 2)) });
  control(plane, startAt, (dx, dy) => startAt([now.start[0] + 0.02 * dx, now.start[1] + 0.02 * dy]));

  /** A figure to draw in: a drag passes all points between two events. */
  function drawn(figure, key, move) {
    let last = null;
    control(figure,
      ([t, value], first) => {
        const k = Math.round(t), from = first || !last ? { k, value } : last;
        let values = now[key];
        const way = Math.sign(k - from.k) || 1;
        for (let j = from.k; ; j += way) {
          values = move(values, j, k === from.k ? value : from.value + ((j - from.k) / (k - from.k)) * (value - from.value));
          if (j === k) break;
        }
        last = { k, value };
        selected[key] = k;
        set({ [key]: values });
      },
      (dx, dy) => {
        selected[key] = kept(selected[key] + dx, [0, LAST]);
        const unit = key === "x" ? 0.05 : 0.1;
        set({ [key]: dy ? move(now[key], selected[key], now[key][selected[key]] + unit * dy) : now[key] });
      });
  }

  drawn(input, "x", (xs, k, value) => xs.map((x, j) => (j === k ? round(kept(value, LISTS.x), 2) : x)));
  drawn(clock, "c", state.moved);

  document.addEventListener("input", ({ target }) => {
    const { key, list, at } = target.dataset, value = Number(target.value);
    if (target.type === "range") set({ [key]: bounded(key, "log" in target.dataset ? 10 ** value : value) });
    if (target.type === "radio") set({ step: target.value });
    if (key === "step2") set({ step2: target.value });
    if (list && target.value !== "") set({ [list]: now[list].map((v, k) => (k === Number(at) ? kept(value, LISTS[list]) : v)) });
  });
  document.addEventListener("focusout", showControls);

  /** What a button of choices sets. */
  const valuesOf = ({ dataset, textContent }) =>
    dataset.value ? { [dataset.key]: Number(dataset.value) } : PRESETS[dataset.preset][textContent];

  async function copy(button) {
    const text = byId(`code-${button.dataset.copy}`).textContent;
    try {
      await navigator.clipboard.writeText(text);
    } catch { // where a page may not write: select the lines instead
      getSelection().selectAllChildren(byId(`code-${button.dataset.copy}`));
      if (!document.execCommand("copy")) return;
    }
    byId("told").textContent = button.textContent = "Copied";
    setTimeout(() => (button.textContent = "Copy"), 1500);
  }

  document.addEventListener("click", ({ target }) => {
    const button = target.closest("button");
    if (!button) return;
    if (button.dataset.copy) copy(button);
    if (button.dataset.value || button.dataset.preset) set(structuredClone(valuesOf(button)));
    if (button.id === "reset") set(structuredClone(state.DEFAULTS));
  });
  for (const [part, presets] of Object.entries(PRESETS)) {
    byId(`presets-${part}`).innerHTML = Object.keys(presets).map((name) => `<button type="button" data-preset="${part}">${name}</button>`).join(" ");
  }

  addEventListener("hashchange", () => set(state.parse(location.hash)));
  set(now);
})();
