"use strict";
const content = JSON.parse(document.getElementById("content").textContent);
const slider = document.getElementById("slider");
const play = document.getElementById("play");
const where = document.getElementById("where");
const FRAME_MS = 70;
const SVG = "http://www.w3.org/2000/svg";

// ---- small helpers -------------------------------------------------------------------------------

function unpack(packed) {
  const bytes = Uint8Array.from(atob(packed.data), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  const values = new Float64Array(bytes.length / 2);
  // One scale, or one for each coordinate of a point.
  const scale = [packed.scale].flat(), offset = [packed.offset || 0].flat();
  for (let i = 0; i < values.length; i++)
    values[i] = view.getInt16(2 * i, true) * scale[i % scale.length] + offset[i % offset.length];
  return values;
}

function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

function drawn(tag, attributes, text) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

function short(value) {
  if (!Number.isFinite(value)) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e5)) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

function ticks(low, high, n) {
  const raw = (high - low) / n || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const steps = [0.5, 1, 2, 5, 10].map((k) => k * power);
  const first = steps.findIndex((s) => s >= raw);
  const multiples = (step) => {
    const found = [];
    for (let t = Math.ceil(low / step) * step; t <= high + 1e-9 * step; t += step) found.push(t);
    return found.map((t) => (Math.abs(t) < 1e-9 * step ? 0 : t));
  };
  // One number alone is no scale.
  const found = multiples(steps[first]);
  return found.length > 2 ? found : multiples(steps[first - 1]);
}

// A chart with axes as wide as its holder, so that text has one size; `x` and `y` turn values into places.
function chart(holder, { height, xs, ys, xLabel, yLabel, title }) {
  const width = Math.max(holder.clientWidth, 200);
  const left = 52, right = 10, top = 8, bottom = 38;
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": title });
  holder.replaceChildren(svg);
  const x = (v) => left + ((v - xs[0]) / (xs[1] - xs[0] || 1)) * (width - left - right);
  const y = (v) => height - bottom - ((v - ys[0]) / (ys[1] - ys[0] || 1)) * (height - top - bottom);
  for (const t of ticks(xs[0], xs[1], 5)) {
    svg.append(drawn("line", { class: "axis", x1: x(t), x2: x(t), y1: y(ys[0]), y2: y(ys[0]) + 4 }));
    svg.append(drawn("text", { x: x(t), y: y(ys[0]) + 17, "text-anchor": "middle" }, short(t)));
  }
  for (const t of ticks(ys[0], ys[1], 4)) {
    svg.append(drawn("line", { class: "axis", x1: left, x2: width - right, y1: y(t), y2: y(t) }));
    svg.append(drawn("text", { x: left - 5, y: y(t) + 4, "text-anchor": "end" }, short(t)));
  }
  const middle = (height - bottom + top) / 2;
  svg.append(drawn("text", { x: (width + left) / 2, y: height - 4, "text-anchor": "middle" }, xLabel));
  svg.append(drawn("text", { x: 12, y: middle, "text-anchor": "middle", transform: `rotate(-90 12 ${middle})` },
    yLabel));
  const clip = `clip-${++nClips}`;
  const box = drawn("clipPath", { id: clip });
  box.append(drawn("rect", { x: left, y: 0, width: width - left - right, height: height - bottom }));
  const inside = drawn("g", { "clip-path": `url(#${clip})` });
  svg.append(box, inside);
  return { inside, x, y, top, base: height - bottom };
}
let nClips = 0;

function path(xs, ys) {
  let text = "";
  for (let i = 0; i < xs.length; i++) text += `${i ? "L" : "M"}${xs[i].toFixed(1)} ${ys[i].toFixed(1)}`;
  return text;
}

const colour = (k) => `var(--c${k % 6})`;
// Six colours, each whole, then dashed: more than a line's colour tells them apart.
const dashes = (k) => ["none", "7 4", "2 3"][Math.floor(k / 6) % 3];

// Large enough for almost all steps: single tall ones would flatten the others.
function usual(peaks) {
  const sorted = Float64Array.from(peaks).sort();
  return sorted[Math.floor(0.9 * (sorted.length - 1))] * 1.2 || 1;
}

// ---- an episode ----------------------------------------------------------------------------------

function episode(run) {
  const [nSteps, nActions, nPoints] = run.density.shape;
  const density = unpack(run.density), gradient = unpack(run.gradient);
  const grid = Array.from({ length: nPoints }, (_, i) => run.x[0] + (i / (nPoints - 1)) * (run.x[1] - run.x[0]));
  const at = (values, t, a) => values.subarray((t * nActions + a) * nPoints, (t * nActions + a + 1) * nPoints);
  const peaks = (values) => Array.from({ length: nSteps }, (_, t) => {
    let peak = 0;
    for (let a = 0; a < nActions; a++) for (const v of at(values, t, a)) peak = Math.max(peak, Math.abs(v));
    return peak;
  });
  const topDensity = usual(peaks(density)), topGradient = usual(peaks(gradient));

  const card = element("section", { class: "run", "data-kind": "episode" });
  card.append(element("h2", {}, `${run.env_id}: ${run.name}`));
  card.append(element("p", { class: "note" },
    `${run.note}; ${run.over ? "the whole episode" : "cut off after"}: ${run.length} steps, reward ${short(run.total)}. ${run.run}`));
  const panels = element("div", { class: "panels" });
  card.append(panels);

  const image = element("img", { class: "frame", alt: "" });
  panels.append(element("figure", {}, element("h3", {}, "Frame"), image));

  const table = element("tbody");
  const head = element("thead");
  head.innerHTML = "<tr><th scope='col'>Action</th><th scope='col'>Mean</th><th scope='col'>CVaR 10&nbsp;%</th></tr>";
  const rows = run.actions.map((name, a) => {
    const swatch = element("span", { class: "swatch", style: `background: ${colour(a)}` });
    const label = element("span", {}, name);
    const row = element("tr", {}, element("td", {}, swatch, label), element("td"), element("td"));
    table.append(row);
    return { row, label, name };
  });
  const caption = element("p", { class: "note", "data-role": "summary" });
  panels.append(element("figure", {}, element("h3", {}, "Predicted return"),
    element("table", {}, head, table), caption));

  const holders = {};
  const sure = Math.min(run.sure_until, nSteps);
  const unsure = sure < nSteps ? " Dashed: the episode was cut off later, and more would have followed." : "";
  for (const [role, title, text] of [
    ["density", "Return density", "Dotted: mean. Triangle: CVaR 10 %."],
    ["gradient", "Gradient field", "The slope of the density: the drift of the dynamics."],
    ["over", "Predicted and realized return", "Blue: predicted mean with its 5–95 % band. Orange: the discounted return that " +
      "was realized." + (run.needed ? " Dashed green: the return still needed to reach the policy's level." : "") + unsure],
  ]) {
    holders[role] = element("div");
    panels.append(element("figure", role === "over" ? { class: "wide" } : {}, element("h3", {}, title),
      holders[role], element("figcaption", {}, text)));
  }

  let lines = [], over, cursor;

  function drawReturns() {
    const left = chart(holders.density, { height: 230, xs: run.x, ys: [0, topDensity], xLabel: "return",
      yLabel: "density", title: "Return density of every action" });
    const right = chart(holders.gradient, { height: 230, xs: run.x, ys: [-topGradient, topGradient],
      xLabel: "return", yLabel: "slope", title: "Gradient field of every action" });
    lines = [];
    for (const [plot, role] of [[left, "density"], [right, "gradient"]]) for (let a = 0; a < nActions; a++) {
      const line = drawn("path", { fill: "none", style: `stroke: ${colour(a)}; stroke-dasharray: ${dashes(a)}`,
        "data-role": role, "data-action": a });
      line.append(drawn("title", {}, run.actions[a]));
      const mean = drawn("line", { style: `stroke: ${colour(a)}`, "stroke-dasharray": "2 3", y1: plot.top, y2: plot.base });
      const tail = drawn("path", { style: `fill: ${colour(a)}` });
      plot.inside.append(line);
      if (role === "density") plot.inside.append(mean, tail);
      lines.push({ plot, role, a, line, mean, tail });
    }
  }

  // What rounding leaves of a return of 0 is shown as 0.
  const tiny = 1e-9 * Math.max(...[...run.low, ...run.high].map(Math.abs));
  const figure = (value) => short(value !== null && Math.abs(value) < tiny ? 0 : value);

  function drawOver() {
    const all = [...run.low, ...run.high, ...run.followed, ...(run.needed || [])];
    const span = [Math.min(...all), Math.max(...all)];
    const room = 0.05 * (span[1] - span[0] || 1);
    over = chart(holders.over, { height: 230, xs: [0, Math.max(nSteps - 1, 1)], ys: [span[0] - room, span[1] + room],
      xLabel: "step", yLabel: "return", title: "Predicted and realized return over the episode" });
    const steps = Array.from({ length: nSteps }, (_, t) => over.x(t));
    const high = run.high.map(over.y), low = run.low.map(over.y), really = run.followed.map(over.y);
    const stroke = (d, ink, more) => over.inside.append(
      drawn("path", { fill: "none", style: `stroke: var(${ink})`, "stroke-width": 2, d, ...more }));
    over.inside.append(drawn("path", { style: "fill: var(--band)",
      d: path([...steps, ...steps.slice().reverse()], [...high, ...low.slice().reverse()]) + "Z" }));
    stroke(path(steps, run.expected.map(over.y)), "--accent", {});
    stroke(path(steps.slice(0, sure), really.slice(0, sure)), "--c1", {});
    if (run.needed) stroke(path(steps, run.needed.map(over.y)), "--c2", { "stroke-dasharray": "6 4", "data-role": "needed" });
    const from = Math.max(sure - 1, 0);
    if (sure < nSteps) stroke(path(steps.slice(from), really.slice(from)), "--c1", { "stroke-dasharray": "3 4" });
    cursor = drawn("line", { style: "stroke: var(--ink)", y1: over.top, y2: over.base, "data-role": "cursor" });
    over.inside.append(cursor);
  }

  return {
    card, nSteps,
    draw() {
      drawReturns();
      drawOver();
    },
    show(step) {
      const t = Math.min(step, nSteps - 1), chosen = run.action[t];
      image.src = run.frames[run.frame[t]];
      image.alt = `${run.env_id} at step ${t}`;
      card.dataset.step = t;
      rows.forEach(({ row, label, name }, a) => {
        const here = !run.only_policy && a === chosen;
        row.className = here ? "chosen" : "";
        label.textContent = here ? `${name} (chosen)` : name;
        row.children[1].textContent = figure(run.mean[t][a]);
        row.children[2].textContent = figure(run.cvar[t][a]);
      });
      caption.textContent = `Reward ${short(run.reward[t])}. Predicted ${figure(run.expected[t])}, realized ` +
        `${short(run.followed[t])}${t < sure ? "" : " until it was cut off"}.` +
        (run.needed ? ` Still needed: ${short(run.needed[t])}.` : "");
      for (const { plot, role, a, line, mean, tail } of lines) {
        const values = at(role === "density" ? density : gradient, t, a);
        line.setAttribute("d", path(grid.map(plot.x), Array.from(values, plot.y)));
        line.setAttribute("stroke-width", a === chosen || run.only_policy ? 3 : 1.5);
        if (role !== "density") continue;
        const place = plot.x(run.mean[t][a]), worst = plot.x(run.cvar[t][a]);
        mean.setAttribute("x1", place);
        mean.setAttribute("x2", place);
        tail.setAttribute("visibility", run.cvar[t][a] === null ? "hidden" : "visible");
        tail.setAttribute("d", `M${worst} ${plot.base - 9}l-6 9h12z`);
      }
      cursor.setAttribute("x1", over.x(t));
      cursor.setAttribute("x2", over.x(t));
    },
  };
}

// ---- a generative model --------------------------------------------------------------------------

function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function scatter(canvas, points, window_, ink, size) {
  const context = canvas.getContext("2d");
  const [[x0, x1], [y0, y1]] = window_;
  context.fillStyle = ink;
  for (let i = 0; i + 1 < points.length; i += 2) {
    const px = ((points[i] - x0) / (x1 - x0)) * canvas.width;
    const py = canvas.height - ((points[i + 1] - y0) / (y1 - y0)) * canvas.height;
    context.fillRect(px - size / 2, py - size / 2, size, size);
  }
}

function bounds(...sets) {
  const found = [[Infinity, -Infinity], [Infinity, -Infinity]];
  for (const set of sets) for (let i = 0; i < set.length; i++) {
    const axis = found[i % 2];
    axis[0] = Math.min(axis[0], set[i]);
    axis[1] = Math.max(axis[1], set[i]);
  }
  return found.map(([a, b]) => [a - 0.05 * (b - a || 1), b + 0.05 * (b - a || 1)]);
}

function generative(run) {
  const card = element("section", { class: "run", "data-kind": "samples" });
  const [first, second] = run.columns;
  card.append(element("h2", {}, `${run.name}: ${first} and ${second}`));
  const lacking = run.data ? "" : "The data are not here: give the table with --data to see them here. ";
  card.append(element("p", { class: "note" }, lacking + run.run));
  const panels = element("div", { class: "panels" });
  card.append(panels);
  const samples = unpack(run.samples), data = run.data ? unpack(run.data) : null;
  const window_ = data ? bounds(samples, data) : bounds(samples);
  const still = [];
  for (const [title, points, ink] of [["Data", data, "--c0"], ["Samples", samples, "--c1"]]) {
    if (!points) continue;
    const canvas = element("canvas", { width: 480, height: 480, role: "img", "aria-label": title });
    const range = window_.map(([a, b]) => `${short(a)} to ${short(b)}`);
    panels.append(element("figure", {}, element("h3", {}, title), canvas,
      element("figcaption", {}, `Across: ${first}, ${range[0]}. Up: ${second}, ${range[1]}.`)));
    still.push({ canvas, points, ink });
  }
  const paths = unpack(run.paths), [nFrames, nPaths] = run.paths.shape;
  const moving = element("canvas", { width: 480, height: 480, role: "img", "aria-label": "The dynamics",
    "data-role": "dynamics" });
  const caption = element("figcaption", { "data-role": "summary" });
  panels.append(element("figure", {}, element("h3", {}, "The dynamics"), moving, caption));
  const fields = run.fields && {
    n: run.fields.n, scalar: unpack(run.fields.scalar), gradient: unpack(run.fields.gradient),
    follows: run.fields.follows_noise,
  };

  function drawFields(context, t) {
    const n = fields.n, k = fields.follows ? t : 0, cell = moving.width / (n - 1);
    const s = fields.scalar.subarray(k * n * n, (k + 1) * n * n);
    const g = fields.gradient.subarray(2 * k * n * n, 2 * (k + 1) * n * n);
    // One pixel a grid point, then enlarged smoothly.
    const small = document.createElement("canvas");
    small.width = small.height = n;
    const pixels = small.getContext("2d").createImageData(n, n);
    const ink = css("--c0").match(/[0-9a-f]{2}/gi).map((part) => parseInt(part, 16));
    for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
      const alpha = Math.round(190 * Math.max(0, s[i * n + j]));
      pixels.data.set([...ink, alpha], 4 * ((n - 1 - i) * n + j));
    }
    small.getContext("2d").putImageData(pixels, 0, 0);
    context.drawImage(small, -cell / 2, -cell / 2, moving.width + cell, moving.height + cell);
    context.globalAlpha = 0.8;
    context.strokeStyle = css("--soft");
    context.lineWidth = 1.2;
    for (let i = 1; i < n; i += 2) for (let j = 1; j < n; j += 2) {
      const u = g[2 * (i * n + j)], v = g[2 * (i * n + j) + 1], norm = Math.hypot(u, v);
      if (norm < 1e-4) continue;
      const length = cell * (0.4 + 1.1 * Math.sqrt(norm)), x = j * cell, y = moving.height - i * cell;
      const dx = (u / norm) * length, dy = (-v / norm) * length;
      context.beginPath();
      context.moveTo(x - dx / 2, y - dy / 2);
      context.lineTo(x + dx / 2, y + dy / 2);
      // Both barbs of the head.
      context.moveTo(x + dx / 2 - 0.35 * (dx + dy * 0.7), y + dy / 2 - 0.35 * (dy - dx * 0.7));
      context.lineTo(x + dx / 2, y + dy / 2);
      context.lineTo(x + dx / 2 - 0.35 * (dx - dy * 0.7), y + dy / 2 - 0.35 * (dy + dx * 0.7));
      context.stroke();
    }
    context.globalAlpha = 1;
  }

  function drawStill() {
    for (const { canvas, points, ink } of still) {
      canvas.getContext("2d").clearRect(0, 0, canvas.width, canvas.height);
      scatter(canvas, points, window_, css(ink), 3);
    }
  }

  return {
    card, nSteps: nFrames,
    draw: drawStill,
    show(step) {
      const t = Math.min(step, nFrames - 1), context = moving.getContext("2d");
      card.dataset.step = t;
      context.clearRect(0, 0, moving.width, moving.height);
      if (fields) drawFields(context, t);
      scatter(moving, paths.subarray(2 * t * nPaths, 2 * (t + 1) * nPaths), run.window, css("--c1"), 4);
      const noise = run.levels ? ` Noise ${short(run.levels[t])} standard deviations.` : "";
      caption.textContent = `${nPaths} paths in the model's coordinates, moment ${t} of ${nFrames - 1}.${noise}` +
        (fields ? " Shade: scalar field; arrows: gradient field." : "");
    },
  };
}

// ---- an image model ------------------------------------------------------------------------------

function pictures(run) {
  const card = element("section", { class: "run", "data-kind": "images" });
  card.append(element("h2", {}, `${run.name}: ${run.n_images} images in the making`));
  card.append(element("p", { class: "note" }, run.run));
  const image = element("img", { class: "frame", alt: "" });
  const caption = element("figcaption", { "data-role": "summary" });
  card.append(element("div", { class: "panels" }, element("figure", {}, image, caption)));
  return {
    card, nSteps: run.n_steps,
    draw() {},
    show(step) {
      const t = Math.min(step, run.n_steps - 1);
      card.dataset.step = t;
      image.src = run.frames[run.frame[t]];
      image.alt = `${run.n_images} images at moment ${t}`;
      const noise = run.levels ? ` Noise ${short(run.levels[t])} standard deviations.` : "";
      caption.textContent = `Codes on their way from noise, decoded; moment ${t} of ${run.n_steps - 1}.${noise}`;
    },
  };
}

// ---- all of them ---------------------------------------------------------------------------------

const makers = { episode, samples: generative, images: pictures };
const shown = content.runs.map((run) => makers[run.kind](run));
document.getElementById("runs").append(...shown.map((s) => s.card));
const last = Math.max(...shown.map((s) => s.nSteps)) - 1;
slider.max = last;

function show() {
  const step = Number(slider.value);
  where.textContent = `step ${step} of ${last}`;
  slider.setAttribute("aria-valuetext", where.textContent);
  for (const part of shown) part.show(step);
}

let timer = null;
function stop() {
  clearInterval(timer);
  timer = null;
  play.textContent = "Play";
}
function toggle() {
  if (timer !== null) return stop();
  if (Number(slider.value) >= last) slider.value = 0;
  play.textContent = "Stop";
  timer = setInterval(() => {
    slider.value = Number(slider.value) + 1;
    show();
    if (Number(slider.value) >= last) stop();
  }, FRAME_MS);
}
function move(step) {
  slider.value = step;
  show();
}

slider.addEventListener("input", show);
play.addEventListener("click", toggle);
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const here = Number(slider.value);
  const moves = { ArrowLeft: here - 1, ArrowRight: here + 1, Home: 0, End: last };
  if (event.key === " " && document.activeElement !== play) toggle();
  else if (event.key in moves) move(moves[event.key]);
  else return;
  event.preventDefault();
});

function drawAll() {
  for (const part of shown) part.draw();
  show();
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
let known = 0;
new ResizeObserver(() => {
  // Charts change heights, which must not count as a change of width.
  if (document.body.clientWidth === known) return;
  known = document.body.clientWidth;
  drawAll();
}).observe(document.body);
drawAll();
