/* The state of the page, its address, and the lines of Python that make its pictures. */
"use strict";

const state = (() => {
  const POINTS = 21, LAST = 20; // a drawn input and a drawn clock: a point at each whole time
  const TIMES = Array.from({ length: POINTS }, (_, k) => k);
  const LEAST = 0.02; // what a clock goes on by from point to point, so that it increases

  const PRESETS = {
    two: {
      rotation: { W: [0.9, -2, 2, 0.9], b: [0, 0], dt2: 0.2, start: [0.5, 0] },
      switch: { W: [0.8, -1.6, -1.6, 0.8], b: [0, 0], dt2: 0.5, start: [0.2, 0.3] },
      "two memories": { W: [1.8, 0, 0, 1.8], b: [0, 0], dt2: 1, start: [0.1, -0.2] },
      "negative feedback": { W: [-6, 0, 0, -6], b: [0.5, -0.5], dt2: 0.5, start: [0.9, -0.3] },
    },
    input: {
      sine: { x: TIMES.map((t) => round(0.9 * Math.sin((2 * Math.PI * t) / 8), 2)) },
      pulses: { x: TIMES.map((t) => ([2, 3, 9, 10, 15, 16].includes(t) ? 1 : -0.4)) },
    },
    clock: {
      even: { c: TIMES },
      "slow, then fast": { c: increasing(TIMES.map((t) => LAST * (t / LAST) ** 2 * 0.9 + 0.1 * t)) },
      "stop and go": { c: increasing(TIMES.map((t) => t - 1.5 * Math.sin((2 * Math.PI * t) / 10))) },
    },
  };
  const DEFAULTS = {
    step: "Euler", dt: 0.6, w: -14, h0: 0.1,
    step2: "Euler", ...PRESETS.two.rotation,
    ...PRESETS.input.pulses, ...PRESETS.clock["slow, then fast"], wx: 2, wh: 0.5,
  };
  const RANGES = { dt: [0.1, 10], w: [-30, 2], h0: [-1, 1], dt2: [0.05, 3], wx: [-5, 5], wh: [-5, 5] };
  const LISTS = { W: [-9, 9], b: [-3, 3], start: [-1.25, 1.25], x: [-1, 1], c: [0, LAST] };

  function round(x, digits) {
    return Number(x.toFixed(digits)) + 0; // -0 is 0
  }

  function kept(x, [low, high]) {
    return Math.min(high, Math.max(low, x));
  }

  const significant = (x) => Number(x.toPrecision(3));

  /** A clock that begins at 0, ends at the last time and increases. */
  function increasing(cs) {
    const out = cs.map((c, k) => kept(c, [LEAST * k, LAST - LEAST * (LAST - k)]));
    out[0] = 0;
    out[LAST] = LAST;
    for (let k = 1; k < LAST; k++) out[k] = Math.max(out[k], out[k - 1] + LEAST);
    return out.map((c) => round(c, 2));
  }

  /** A clock whose point k was moved: the others make way. */
  function moved(cs, k, value) {
    const out = cs.slice();
    out[k] = round(kept(value, [LEAST * k, LAST - LEAST * (LAST - k)]), 2);
    for (let j = k - 1; j >= 0; j--) out[j] = Math.min(out[j], round(out[j + 1] - LEAST, 2));
    return increasing(out);
  }

  /** What a link says, the rest as it is by default; what does not fit is left out. */
  function parse(hash) {
    const found = structuredClone(DEFAULTS), given = new URLSearchParams(hash.replace(/^#/, ""));
    for (const [key, text] of given) {
      if (key === "step" || key === "step2") found[key] = text in maps.STEPS ? text : found[key];
      if (key in RANGES && text.trim() !== "" && Number.isFinite(Number(text))) found[key] = kept(Number(text), RANGES[key]);
      if (!(key in LISTS)) continue;
      const numbers = text.split(",").map(Number);
      if (numbers.length !== DEFAULTS[key].length || !numbers.every(Number.isFinite)) continue;
      found[key] = numbers.map((x) => kept(x, LISTS[key]));
    }
    found.c = increasing(found.c);
    return found;
  }

  /** A link to this state: only what differs from the default. */
  function link(now) {
    const parts = Object.entries(DEFAULTS).map(([key, value]) =>
      String(now[key]) === String(value) ? "" : `${key}=${now[key]}`);
    return `#${parts.filter(Boolean).join("&")}`;
  }

  // --- Python ------------------------------------------------------------------------------------------------------------

  const tensor = (rows) => `torch.tensor(${JSON.stringify(rows).replace(/,/g, ", ")}, dtype=torch.float64)`;
  const IMPORTS = "import torch\n\nimport ctrnn\nimport discretize\n";
  const steps = (dt) => Math.max(10, Math.min(80, Math.round(30 / dt)));
  const steps2 = (dt) => Math.round(40 / dt);

  function python({ step, dt, w, h0, step2, W, b, dt2, start, x, c, wx, wh }) {
    return {
      one: `${IMPORTS}

class Unit(ctrnn.VectorField):
    def flow(self, projected, h):
        return torch.tanh(${w} * (h - ${maps.THETA})) - h

    def leak(self, projected, h):  # for the exponential and the frozen steps
        return torch.ones_like(h)


field, h0 = Unit(0, 1), ${tensor([[h0]])}
ts = ${dt} * torch.arange(${steps(dt) + 1}, dtype=torch.float64)
stepped = discretize.integrate(field, None, h0, ts, method=discretize.${step}())
solved = discretize.integrate(field, None, h0, ts, rtol=1e-10, atol=1e-12)
discretize.plot({"stepped": stepped, "solved": solved}).savefig("unit.png")
`,
      two: `${IMPORTS}
field = ctrnn.plain(0, 2, dtype=torch.float64)  # dh/dt = tanh(Wh h + b) - h
with torch.no_grad():
    field.candidate.weight_h.copy_(${tensor([W.slice(0, 2), W.slice(2)])})
    field.candidate.bias.copy_(${tensor(b)})

h0 = ${tensor([start])}
ts = ${dt2} * torch.arange(${steps2(dt2) + 1}, dtype=torch.float64)
stepped = discretize.integrate(field, None, h0, ts, method=discretize.${step2}())
solved = discretize.integrate(field, None, h0, ts, rtol=1e-10, atol=1e-12)
discretize.plot({"stepped": stepped, "solved": solved}, "plane").savefig("plane.png")
`,
      clock: `${IMPORTS}
field = ctrnn.plain(1, 1, dtype=torch.float64)  # dh/dt = tanh(Wx x + Wh h + b) - h
with torch.no_grad():
    field.candidate.weight_x.fill_(${wx})
    field.candidate.weight_h.fill_(${wh})
    field.candidate.bias.zero_()

ts = torch.arange(${POINTS}, dtype=torch.float64)
x = ctrnn.LinearPath(${tensor(x)}[:, None, None], ts)
clock = ctrnn.PiecewiseWarp(ts, ${tensor(c)})
times = torch.linspace(0, ${LAST}, ${20 * LAST + 1}, dtype=torch.float64)
h0, tolerances = field.initial_state(1), {"rtol": 1e-10, "atol": 1e-12}
own = discretize.integrate(field, x, h0, clock(times), **tolerances)
played = ctrnn.WarpedPath(x, clock)
warped = discretize.integrate(field, played, h0, times, speed=clock.speed, **tolerances)
without = discretize.integrate(field, played, h0, times, **tolerances)
print(f"with c'(t): {(warped.hs - own.hs).abs().max():.1e}, without: {(without.hs - own.hs).abs().max():.2f}")
`,
    };
  }

  return {
    DEFAULTS, PRESETS, RANGES, LISTS, TIMES, LAST, round, significant, kept, moved, increasing, parse, link, python, steps, steps2,
  };
})();
