/* Figures in SVG: axes with ticks and labels, lines, dots, coloured cells. Colours are classes of explorer.css. */
"use strict";

const figures = (() => {
  const NAMESPACE = "http://www.w3.org/2000/svg";

  const rounded = (x) => Math.round(x * 100) / 100;
  const minus = (x) => String(x).replace("-", "−");

  /** Draw axes into an svg element and return its scales and a way to fill its layers.

      x, y: {range: [low, high], ticks: [...], label, log}; an italic label is a letter of an equation. */
  function plot(svg, { width = 340, height = 250, x, y, left = 46, bottom = 38, top = 10, right = 12, layers }) {
    svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    const box = { left, right: width - right, top, bottom: height - bottom };
    const group = (name) => {
      const g = document.createElementNS(NAMESPACE, "g");
      g.setAttribute("class", name);
      return svg.appendChild(g);
    };
    svg.replaceChildren();
    const clip = `${svg.id}-box`;
    const axes = group("axes");
    const inner = group("inner");
    const placed = Object.fromEntries(layers.map((name) => [name, inner.appendChild(group(name))]));
    inner.setAttribute("clip-path", `url(#${clip})`);
    const over = group("over");
    const part = (axis, value) => {
      const [low, high] = axis.range;
      return axis.log ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);
    };
    const whole = (axis, share) => {
      const [low, high] = axis.range;
      return axis.log ? low * (high / low) ** share : low + share * (high - low);
    };
    const kept = (v) => Math.min(1e4, Math.max(-1e4, v)); // far outside is outside
    const X = (value) => rounded(kept(box.left + part(x, value) * (box.right - box.left)));
    const Y = (value) => rounded(kept(box.bottom - part(y, value) * (box.bottom - box.top)));

    function drawAxes() {
      const ticks = [
        ...x.ticks.map((v) => `<path d="M${X(v)} ${box.bottom}v4"/><text x="${X(v)}" y="${box.bottom + 15}" text-anchor="middle">${minus(v)}</text>`),
        ...y.ticks.map((v) => `<path d="M${box.left} ${Y(v)}h-4"/><text x="${box.left - 7}" y="${Y(v) + 3.5}" text-anchor="end">${minus(v)}</text>`),
      ];
      const labels = [
        x.label && `<text class="label" x="${(box.left + box.right) / 2}" y="${height - 5}" text-anchor="middle">${x.label}</text>`,
        y.label && `<text class="label" transform="translate(12 ${(box.top + box.bottom) / 2}) rotate(-90)" text-anchor="middle">${y.label}</text>`,
      ];
      axes.innerHTML =
        `<clipPath id="${clip}"><rect x="${box.left}" y="${box.top}" width="${box.right - box.left}" height="${box.bottom - box.top}"/></clipPath>` +
        `<path d="M${box.left} ${box.top}V${box.bottom}H${box.right}"/>` + ticks.join("") + labels.filter(Boolean).join("");
    }
    drawAxes();

    return {
      svg, box, X, Y, over,
      fill: (name, content) => (placed[name].innerHTML = content),
      rescale: (axis, range, ticks) => {
        Object.assign(axis === "x" ? x : y, { range, ticks });
        drawAxes();
      },
      /** The values under a pointer, kept inside the axes. */
      under: (event) => {
        const at = svg.getBoundingClientRect(), scale = width / at.width, inside = (v) => Math.min(1, Math.max(0, v));
        return [
          whole(x, inside(((event.clientX - at.left) * scale - box.left) / (box.right - box.left))),
          whole(y, inside((box.bottom - (event.clientY - at.top) * scale) / (box.bottom - box.top))),
        ];
      },
      line: (points, name) => `<path class="${name}" d="${pathOf(points.map(([a, b]) => [X(a), Y(b)]))}"/>`,
      dots: (points, name, r = 2.2) =>
        points.filter((p) => p.every(Number.isFinite)).map(([a, b]) => `<circle class="${name}" cx="${X(a)}" cy="${Y(b)}" r="${r}"/>`).join(""),
    };
  }

  function pathOf(points) {
    let pen = "M", d = "";
    for (const [a, b] of points) {
      if (!Number.isFinite(a + b)) pen = "M";
      else {
        d += `${pen}${a} ${b}`;
        pen = "L";
      }
    }
    return d;
  }

  /** One path a colour, of the stretches of each row that have it: kinds[row][column], rows from below. */
  function cells({ box }, kinds) {
    const paths = {}, across = (share) => rounded(box.left + share * (box.right - box.left));
    const up = (share) => rounded(box.bottom - share * (box.bottom - box.top));
    kinds.forEach((row, k) => {
      const below = up(k / kinds.length), above = up((k + 1) / kinds.length); // the same numbers for both sides: no seams
      for (let start = 0, end; start < row.length; start = end) {
        for (end = start + 1; end < row.length && row[end] === row[start]; end++);
        const d = `M${across(start / row.length)} ${above}H${across(end / row.length)}V${below}H${across(start / row.length)}z`;
        paths[row[start]] = (paths[row[start]] ?? "") + d;
      }
    });
    return Object.entries(paths).map(([kind, d]) => `<path class="fate-${kind}" d="${d}"/>`).join("");
  }

  /** Where f(x, y) = 0, as segments: marching squares on n by n squares. */
  function zeros(f, [low, high], n = 72) {
    const at = (k) => low + (k / n) * (high - low), values = [];
    for (let i = 0; i <= n; i++) values.push(Array.from({ length: n + 1 }, (_, j) => f(at(i), at(j))));
    const segments = [];
    for (let i = 0; i < n; i++) {
      for (let j = 0; j < n; j++) {
        const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]], cut = [];
        corners.forEach(([a, b], k) => {
          const [c, d] = corners[(k + 1) % 4], p = values[a][b], q = values[c][d];
          if (p < 0 !== q < 0) cut.push([at(a + (p / (p - q)) * (c - a)), at(b + (p / (p - q)) * (d - b))]);
        });
        for (let k = 0; k + 1 < cut.length; k += 2) segments.push([cut[k], cut[k + 1]]);
      }
    }
    return segments;
  }

  /** Ticks at 1, 2 or 5 times a power of ten. */
  function ticksOf([low, high], most = 5) {
    const rough = (high - low) / most, power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= rough * 0.999);
    const first = Math.ceil(low / step - 1e-9);
    return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, k) => Number(((first + k) * step).toPrecision(12)));
  }

  return { plot, cells, zeros, ticksOf, minus, pathOf };
})();
