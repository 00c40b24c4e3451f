/* The mathematics of the explorer: pure functions of numbers, without the page.

   field      F_i(h) = tanh(sum_j W_ij (h_j - c_j) + b_i) - h_i, time in units of tau; its leak is 1
   step map   (field, h, dt) -> h, the formulas of discretize/steps/, in the same order of operations
   solve      dh/dt = f(t, h) by Dormand and Prince's method with steps of its own
   fate       what the iteration of a step map comes to, as experiments/breakdown/chart.py decides it
   clock      c(t), increasing: straight lines between points

   States are arrays, of one or two units. */
"use strict";

const maps = (() => {
  const THETA = 0.8; // the state at which the unit of the chart turns

  const oneUnit = (w) => ({ W: [[w]], c: [THETA], b: [0] });
  const twoUnits = (W, b) => ({ W, c: [0, 0], b });

  function pull(field, h, i) {
    let sum = field.b[i];
    for (let j = 0; j < h.length; j++) sum += field.W[i][j] * (h[j] - field.c[j]);
    return Math.tanh(sum);
  }

  function flow(field, h) {
    const out = new Array(h.length);
    for (let i = 0; i < h.length; i++) out[i] = pull(field, h, i) - h[i];
    return out;
  }

  function jacobian(field, h) {
    return h.map((_, i) => {
      const sech2 = 1 - pull(field, h, i) ** 2;
      return h.map((_, j) => sech2 * field.W[i][j] - (i === j ? 1 : 0));
    });
  }

  function plus(h, a, v) {
    const out = new Array(h.length);
    for (let i = 0; i < h.length; i++) out[i] = h[i] + a * v[i];
    return out;
  }

  const largest = (v) => v.reduce((most, x) => (Math.abs(x) <= most ? most : Math.abs(x)), 0); // nan stays

  // --- the functions of exponential integrators: phi_k(z) = sum_n z^n / (n + k)! -----------------------------------------

  function phi(k, z) {
    if (z > -2 && z < 5) {
      let factorial = 1;
      for (let n = 2; n <= k; n++) factorial *= n;
      let term = 1 / factorial, sum = 0;
      for (let n = 1; n < 60; n++) {
        sum += term;
        term *= z / (n + k);
      }
      return sum;
    }
    const first = Math.expm1(z) / z;
    return k === 1 ? first : (first - 1) / z;
  }

  let kept = { dt: NaN };
  function phis(dt) {
    if (kept.dt !== dt) kept = { dt, one: phi(1, -dt), two: phi(2, -dt) };
    return kept;
  }

  // --- the equation of an implicit step, u = a + tau F(u), as discretize/steps/algebra/newton.py solves it --------------

  const ROUNDING = 64 * 2 ** -52;

  const determinant = (A) => (A.length === 1 ? A[0][0] : A[0][0] * A[1][1] - A[0][1] * A[1][0]);

  function solved(A, r) {
    if (r.length === 1) return [r[0] / A[0][0]];
    const det = determinant(A);
    return [(A[1][1] * r[0] - A[0][1] * r[1]) / det, (A[0][0] * r[1] - A[1][0] * r[0]) / det];
  }

  function equation(field, a, tau) {
    return {
      a,
      residual: (u) => plus(plus(a, tau, flow(field, u)), -1, u),
      matrix: (u, friction = 0) =>
        jacobian(field, u).map((row, i) => row.map((x, j) => (i === j ? 1 + friction : 0) - tau * x)),
    };
  }

  /** Damped Newton iterations from u; null where they do not end. */
  function newton({ residual, matrix }, u) {
    let off = residual(u), share = 1;
    for (let k = 0; k < 25; k++) {
      const A = matrix(u), correction = solved(A, off), size = largest(correction);
      const last = size * size <= 1e-3 * ROUNDING * (1 + largest(u)) ** 2;
      share = last ? 1 : Math.min(1, 2 * share);
      let moved = u, there = off;
      for (let halved = 0; halved < 10; halved++) {
        moved = plus(u, share, correction);
        there = residual(moved);
        if (last || largest(solved(A, there)) <= (1 - share / 4) * size) break;
        share /= 2;
      }
      u = moved;
      off = there;
      if (last) return u;
      if (!(share > 2 ** -10)) return null;
    }
    return null;
  }

  function linearlyImplicit({ residual }, tau, u) {
    for (let k = 0; k < 3; k++) u = plus(u, 1 / (1 + tau), residual(u));
    return u;
  }

  /** Near a stationary point of du/ds = a + tau F(u) - u, by steps of pseudo-time that are tried, and grow where they are taken. */
  function relaxed({ a, residual, matrix }, u, most) {
    const acts = (h) => matrix(h, -1).map((row) => row.map(Math.abs)); // |tau J|
    const times = (A, v) => A.map((row) => row.reduce((sum, x, j) => sum + x * v[j], 0));
    const inTermsOf = (size, v) => v.map((x, i) => (size[i] > 0 ? x / size[i] : 0));
    const larger = (v, w) => v.map((x, i) => Math.max(Math.abs(x), Math.abs(w[i])));
    let off = residual(u), reached = u.map(Math.abs), size = larger(reached, off);
    let step = 1 / (1 + largest(inTermsOf(size, times(acts(u), size))));
    for (let k = 0; k < most; k++) {
      const A = matrix(u, 1 / step), motion = solved(A, off), moved = plus(u, 1, motion), there = residual(moved);
      size = larger(reached, motion);
      const by = inTermsOf(size, motion), turn = largest(inTermsOf(size, plus(solved(A, there), -1, motion)));
      const along = inTermsOf(size, off).reduce((sum, x, i) => sum + x * by[i], 0);
      const safe = turn <= 0.9 * largest(by) && along >= 0;
      if (safe) [u, off] = [moved, there];
      reached = larger(reached, u);
      const terms = times(acts(u), u.map(Math.abs));
      const rests = u.map((x, i) =>
        (safe && Math.abs(motion[i]) <= 1e-6 * Math.min(1, step) * reached[i]) ||
        Math.abs(off[i]) <= ROUNDING * (Math.abs(a[i]) + Math.abs(x) + terms[i]));
      if (rests.every(Boolean)) break;
      step = safe ? Math.min(4, 2 * step) : step / 4;
    }
    return u;
  }

  function solveStep(field, a, tau, guess) {
    if (!a.every(Number.isFinite)) return a.map(() => NaN);
    const of = equation(field, a, tau);
    let u = null;
    if (determinant(of.matrix(guess)) < 0) u = newton(of, relaxed(of, guess, 40)); // else it would go past solutions
    u ??= newton(of, guess) ?? newton(of, linearlyImplicit(of, tau, guess)) ?? newton(of, relaxed(of, guess, 250));
    if (u === null) return a.map(() => NaN); // discretize raises a StepError
    const A = of.matrix(u);
    for (let k = 0; k < 2; k++) u = plus(u, 1, solved(A, of.residual(u)));
    return u;
  }

  // --- step maps -------------------------------------------------------------------------------------------------------

  const STEPS = {
    Euler: (f, h, dt) => plus(h, dt, flow(f, h)),
    Midpoint: (f, h, dt) => plus(h, dt, flow(f, plus(h, dt / 2, flow(f, h)))),
    Heun: (f, h, dt) => {
      const p = flow(f, h), q = flow(f, plus(h, dt, p));
      return plus(plus(h, dt / 2, p), dt / 2, q);
    },
    RungeKutta4: (f, h, dt) => {
      const p = flow(f, h), q = flow(f, plus(h, dt / 2, p)), r = flow(f, plus(h, dt / 2, q)), s = flow(f, plus(h, dt, r));
      return h.map((x, i) => x + (dt / 6) * (p[i] + 2 * q[i] + 2 * r[i] + s[i]));
    },
    ExponentialEuler: (f, h, dt) => plus(h, dt * phis(dt).one, flow(f, h)),
    ETD2: (f, h, dt) => {
      const { one, two } = phis(dt), slope = flow(f, h), moved = slope.map((x) => dt * one * x);
      const at = flow(f, plus(h, 1, moved));
      return h.map((x, i) => x + moved[i] + dt * two * (at[i] - slope[i] + moved[i]));
    },
    FrozenBackwardEuler: (f, h, dt) => plus(h, dt / (1 + dt), flow(f, h)),
    BackwardEuler: (f, h, dt) => solveStep(f, h, dt, h),
    Trapezoid: (f, h, dt) => solveStep(f, plus(h, dt / 2, flow(f, h)), dt / 2, h),
  };

  /** h0 and the states of so many steps after it. */
  function trajectory(name, field, h0, dt, count) {
    const hs = [h0];
    for (let k = 0; k < count; k++) hs.push(STEPS[name](field, hs[k], dt));
    return hs;
  }

  // --- the solved equation -----------------------------------------------------------------------------------------------

  const C = [0, 1 / 5, 3 / 10, 4 / 5, 8 / 9, 1];
  const A = [
    [],
    [1 / 5],
    [3 / 40, 9 / 40],
    [44 / 45, -56 / 15, 32 / 9],
    [19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729],
    [9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656],
  ];
  const B = [35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84];
  const E = [71 / 57600, 0, -71 / 16695, 71 / 1920, -17253 / 339200, 22 / 525, -1 / 40];

  /** States of dh/dt = f(t, h) at the times ts, h0 at the first; f may have corners at these times. */
  function solve(f, h0, ts, rtol = 1e-10, atol = 1e-12) {
    const hs = [h0];
    let h = h0, step = (ts[ts.length - 1] - ts[0]) / 100;
    for (let k = 1; k < ts.length; k++) {
      let t = ts[k - 1];
      for (let tries = 0; t < ts[k] && tries < 100000; tries++) {
        const left = ts[k] - t, dt = Math.min(step, left), slopes = [];
        for (let s = 0; s < 6; s++) slopes.push(f(t + C[s] * dt, combined(h, dt, A[s], slopes)));
        const next = combined(h, dt, B, slopes);
        slopes.push(f(t + dt, next));
        const off = combined(h.map(() => 0), dt, E, slopes);
        const error = largest(off.map((e, i) => (8 * e) / (atol + rtol * Math.max(Math.abs(h[i]), Math.abs(next[i])))));
        if (error <= 1 || dt < 1e-12) {
          t = dt === left ? ts[k] : t + dt;
          h = next;
        }
        if (!(error <= 1) || dt === step) step = dt * Math.min(5, Math.max(0.2, 0.9 * error ** -0.2 || 0.2));
      }
      hs.push(h);
    }
    return hs;
  }

  function combined(h, dt, weights, slopes) {
    return h.map((x, i) => x + dt * weights.reduce((sum, a, s) => (a === 0 ? sum : sum + a * slopes[s][i]), 0));
  }

  const solvedFlow = (field, h0, ts) => solve((t, h) => flow(field, h), h0, ts);

  // --- what an iteration comes to ------------------------------------------------------------------------------------------

  const FATES = ["rest", "rest, overshooting", "2-cycle", "longer cycle", "chaos", "divergence"];
  const [REST, OVERSHOOT, TWO, LONGER, CHAOS, DIVERGENCE] = FATES.keys();
  const START = 0.1, SETTLE = 400, LONGEST = 64, AVERAGED = 300, FAR = 1e3, NEAR = 1e-5, CHAOTIC = 0.01;

  function derivative(step, field, h, dt) {
    const e = 1e-6;
    return (step(field, [h + e], dt)[0] - step(field, [h - e], dt)[0]) / (2 * e);
  }

  function period(move, h, most, tolerance) {
    let moved = h;
    for (let k = 1; k <= most; k++) {
      moved = move(moved);
      if (Math.abs(moved - h) <= tolerance * (1 + Math.abs(h))) return k;
    }
    return 0;
  }

  /** What one unit comes to under a step map: an index into FATES; where it ends: a period and a state, or an exponent. */
  function fate(name, dt, w, start = START) {
    const step = STEPS[name], field = oneUnit(w), move = (h) => step(field, [h], dt)[0];
    const atRest = (h) => (derivative(step, field, h, dt) < -1e-3 ? OVERSHOOT : REST);
    let h = start;
    for (let k = 0; k < SETTLE; k++) {
      const next = move(h);
      if (Math.abs(next - h) < 1e-14) return { kind: atRest(next), period: 1, h: next };
      h = Math.abs(next) < FAR ? next : FAR;
    }
    if (!(Math.abs(h) < FAR)) return { kind: DIVERGENCE };
    const found = period(move, h, LONGEST, NEAR);
    if (found) return { kind: found === 1 ? atRest(h) : found === 2 ? TWO : LONGER, period: found, h };
    let sum = 0;
    for (let k = 0; k < AVERAGED; k++) {
      sum += Math.log(Math.abs(derivative(step, field, h, dt)) + 1e-300);
      h = move(h);
    }
    const exponent = sum / AVERAGED;
    if (Number.isNaN(exponent)) return { kind: DIVERGENCE };
    if (exponent > CHAOTIC) return { kind: CHAOS, exponent };
    const slow = period(move, h, 2, 1e-2);
    return { kind: slow === 1 ? atRest(h) : slow === 2 ? TWO : LONGER, period: slow, exponent, h };
  }

  // --- near a point of rest ---------------------------------------------------------------------------------------------

  /** A point where the field is 0, near h: where one very long backward Euler step ends; null where it does not. */
  function restNear(field, h) {
    const rest = STEPS.BackwardEuler(field, h, 1e9);
    return rest.every(Number.isFinite) ? rest : null;
  }

  /** The largest |eigenvalue| of a step map's derivative at h, and that of the solved equation over the same time. */
  function growth(name, field, h, dt) {
    const e = 1e-5, unit = (j, s) => h.map((x, i) => x + (i === j ? s * e : 0));
    const columns = h.map((_, j) => plus(STEPS[name](field, unit(j, 1), dt), -1, STEPS[name](field, unit(j, -1), dt)));
    const M = h.map((_, i) => columns.map((column) => column[i] / (2 * e)));
    const step = Math.max(...eigenvalues(M).map(([re, im]) => Math.hypot(re, im)));
    return { step, equation: Math.exp(dt * Math.max(...eigenvalues(jacobian(field, h)).map(([re]) => re))) };
  }

  function eigenvalues([[a, b], [c, d]]) {
    const middle = (a + d) / 2, inside = ((a - d) / 2) ** 2 + b * c, root = Math.sqrt(Math.abs(inside));
    return inside < 0 ? [[middle, root], [middle, -root]] : [[middle + root, 0], [middle - root, 0]];
  }

  // --- clocks and drawn inputs: straight lines between points ---------------------------------------------------------------

  function pieceOf(xs, x) {
    let k = 0;
    while (k < xs.length - 2 && x >= xs[k + 1]) k++;
    return k;
  }

  function along(xs, ys, x) {
    const k = pieceOf(xs, x);
    return ys[k] + ((x - xs[k]) / (xs[k + 1] - xs[k])) * (ys[k + 1] - ys[k]);
  }

  /** Times from the first to the last point: all corners of the clock and of the input on it, and `between` more in each piece. */
  function timesOf(ts, xs, cs, between) {
    const corners = [...ts, ...ts.map((s) => along(cs, ts, s))].sort((a, b) => a - b);
    const apart = corners.filter((t, k) => k === 0 || t - corners[k - 1] > 1e-9);
    return apart.flatMap((t, k) => {
      if (k === apart.length - 1) return [t];
      return Array.from({ length: between + 1 }, (_, j) => t + (j / (between + 1)) * (apart[k + 1] - t));
    });
  }

  /** One unit, dh/dt = tanh(wx x + wh h) - h, that reads x at the points ts: on its own clock, read at c(t); and played on c. */
  function warped({ wx, wh }, ts, xs, cs, between = 5) {
    const times = timesOf(ts, xs, cs, between), read = (t) => along(ts, xs, along(ts, cs, t));
    const own = times.map((t) => along(ts, cs, t)), right = (x, h) => Math.tanh(wx * x + wh * h) - h;
    const played = (speeds) =>
      piecewise(times, read, (k) => (speeds ? (own[k + 1] - own[k]) / (times[k + 1] - times[k]) : 1), right);
    return {
      times,
      input: times.map(read),
      own: piecewise(own, (s) => along(ts, xs, s), () => 1, right),
      withSpeed: played(true),
      withoutSpeed: played(false),
    };
  }

  /** h at the times, from 0; the input is straight between them, and the speed is constant. */
  function piecewise(times, x, speed, right) {
    const hs = [0];
    for (let k = 0; k + 1 < times.length; k++) {
      const [t, end] = [times[k], times[k + 1]], from = x(t), by = (x(end) - from) / (end - t), rate = speed(k);
      const f = (time, h) => [rate * right(from + by * (time - t), h[0])];
      hs.push(solve(f, [hs[k]], [t, end])[1][0]);
    }
    return hs;
  }

  return {
    THETA, START, FATES, STEPS, oneUnit, twoUnits, flow, jacobian, trajectory, solve, solvedFlow, fate, derivative, restNear, growth, along, warped,
  };
})();
