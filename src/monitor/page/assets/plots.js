// Plots over time: a line, and bands that lie on each other.

const PLOT = { height: 190, left: 44, right: 10, top: 8, bottom: 22 };

// Steps of an axis from 0 to something that holds `most`: 1, 2 or 5 of a power of ten.
function steps(most, wanted = 4) {
  const rough = Math.max(most, 1e-9) / wanted;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((times) => times * power).find((size) => size >= rough * 0.999);
  const last = Math.max(1, Math.ceil(most / step - 1e-9));
  return Array.from({ length: last + 1 }, (_, at) => at * step);
}

// Steps of time: how long ago, in seconds.
function timeSteps(span, width) {
  const wanted = Math.max(2, Math.floor(width / 90));
  const sizes = [5, 10, 15, 30, 60, 120, 300, 600, 1200, 1800, 3600];
  const step = sizes.find((size) => span / size <= wanted) || 7200;
  return Array.from({ length: Math.floor(span / step) + 1 }, (_, at) => at * step);
}

// A plot in `place`. `draw(area)` gives what is drawn, `values(at)` the rows of the tip: [text, value, cause].
class Plot {
  constructor(place) {
    this.place = place;
    this.at = null;
    this.tip = el("div", { class: "tip", hidden: "" });
    place.append(this.tip);
    place.tabIndex = 0;
    place.addEventListener("pointermove", (event) => this.point(event));
    place.addEventListener("pointerdown", (event) => this.point(event));
    place.addEventListener("pointerleave", () => this.leave());
    place.addEventListener("blur", () => this.leave());
    place.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.paint()).observe(place);
  }

  show(plot) {
    this.plot = plot;
    this.paint();
  }

  area() {
    const width = Math.max(200, this.place.clientWidth);
    const inner = { left: PLOT.left, right: width - PLOT.right, top: PLOT.top, bottom: PLOT.height - PLOT.bottom };
    const { length, top } = this.plot;
    const x = (at) => inner.right - ((length - 1 - at) / Math.max(1, this.plot.places - 1)) * (inner.right - inner.left);
    const y = (value) => inner.bottom - (value / top) * (inner.bottom - inner.top);
    return { ...inner, width, x, y };
  }

  paint() {
    const { plot } = this;
    if (!plot) return;
    const old = this.place.querySelector("svg, .empty");
    const fresh = plot.length > 0 ? this.picture() : el("p", { class: "empty" }, "Nothing was measured yet.");
    if (old) old.replaceWith(fresh);
    else this.place.prepend(fresh);
    this.mark();
  }

  picture() {
    const { plot } = this;
    const area = this.area();
    const picture = svg("svg", { width: area.width, height: PLOT.height, role: "img", "aria-label": plot.label });
    for (const step of plot.steps) {
      const y = area.y(step);
      picture.append(
        svg("line", { class: "grid", x1: area.left, x2: area.right, y1: y, y2: y }),
        svg("text", { class: "muted", x: area.left - 6, y: y + 4, "text-anchor": "end" }, plot.unit(step)));
    }
    const span = (plot.places - 1) * plot.every;
    for (const seconds of timeSteps(span, area.right - area.left)) {
      const x = area.right - (seconds / Math.max(span, 1e-9)) * (area.right - area.left);
      if (x < area.left - 1) continue;
      const anchor = seconds === 0 ? "end" : x < area.left + 14 ? "start" : "middle";
      const text = seconds === 0 ? "now" : `−${seconds % 60 === 0 ? `${seconds / 60} min` : `${seconds} s`}`;
      picture.append(
        svg("line", { class: "grid", x1: x, x2: x, y1: area.bottom, y2: area.bottom + 4 }),
        svg("text", { class: "muted", x, y: PLOT.height - 4, "text-anchor": anchor }, text));
    }
    picture.append(...plot.draw(area));
    this.cursor = svg("g", {});
    picture.append(this.cursor);
    return picture;
  }

  point(event) {
    if (!this.plot || this.plot.length === 0) return;
    const area = this.area();
    const step = (area.right - area.left) / Math.max(1, this.plot.places - 1);
    const back = Math.round((area.right - (event.clientX - this.place.getBoundingClientRect().left)) / step);
    this.back = Math.min(this.plot.length - 1, Math.max(0, back));
    this.mark();
  }

  key(event) {
    const move = { ArrowLeft: 1, ArrowRight: -1 }[event.key];
    if (!move || !this.plot || this.plot.length === 0) return;
    event.preventDefault();
    this.back = Math.min(this.plot.length - 1, Math.max(0, (this.back ?? -1) + move));
    this.mark();
  }

  leave() {
    this.back = undefined;
    this.mark();
  }

  // The values at the cursor.
  mark() {
    const { plot, tip } = this;
    tip.hidden = this.back === undefined || !plot || plot.length === 0;
    if (this.cursor) this.cursor.replaceChildren();
    if (tip.hidden) return;
    const at = Math.max(0, plot.length - 1 - this.back);
    const area = this.area();
    const x = area.x(at);
    this.cursor.append(svg("line", { class: "cursor", x1: x, x2: x, y1: area.top, y2: area.bottom }));
    const seconds = this.back * plot.every;
    const rows = plot.values(at).map(([text, value, cause]) =>
      el("tr", {}, el("td", {}, cause ? swatch(cause) : null, text), el("td", {}, value)));
    tip.replaceChildren(el("b", {}, seconds < 0.5 ? "now" : `${ago(seconds)} ago`), el("table", {}, el("tbody", {}, rows)));
    tip.style.left = x > area.width / 2 ? "auto" : `${x + 10}px`;
    tip.style.right = x > area.width / 2 ? `${area.width - x + 10}px` : "auto";
  }
}

function swatch(cause) {
  const square = svg("svg", { class: "swatch", width: 11, height: 11, "aria-hidden": "true" });
  const box = svg("rect", { width: 11, height: 11, rx: 2 });
  box.style.fill = causeColour(cause);
  square.append(box);
  if (HATCHED.has(cause)) {
    square.append(svg("path", { class: "hatch", d: "M-1 7 L7 -1 M1 13 L13 1" }));
  }
  return square;
}

// Runs of numbers that are known, as [first, last].
function runs(list) {
  const found = [];
  list.forEach((value, at) => {
    if (!isKnown(value)) return;
    const last = found[found.length - 1];
    if (last && last[1] === at - 1) last[1] = at;
    else found.push([at, at]);
  });
  return found;
}

function linePlot(history, label) {
  const list = history.samples_per_s;
  const most = Math.max(1, ...list.filter(isKnown)) * 1.05;
  const marks = steps(most);
  return {
    label, length: list.length, places: Math.max(list.length, 60), every: history.every_s, steps: marks,
    top: marks[marks.length - 1], unit: number,
    values: (at) => [["samples/s", number(list[at])], ["waiting", percent(history.wait_share[at])]],
    draw: (area) => runs(list).flatMap(([first, last]) => {
      const points = [];
      for (let at = first; at <= last; at += 1) points.push(`${area.x(at).toFixed(1)} ${area.y(list[at]).toFixed(1)}`);
      const under = `M${area.x(first)} ${area.y(0)} L${points.join(" L")} L${area.x(last)} ${area.y(0)} Z`;
      return [svg("path", { class: "under", d: under }), svg("path", { class: "line", d: `M${points.join(" L")}` })];
    }),
  };
}

// Waiting by cause; what no cause explains is a cause of its own.
function bandPlot(history, label) {
  const length = history.wait_share.length;
  const told = history.wait_by_cause;
  const known = (cause, at) => Math.max(0, (told[cause] || [])[at] || 0);
  const all = (at) => Object.keys(told).reduce((sum, cause) => sum + known(cause, at), 0);
  const rest = history.wait_share.map((share, at) => Math.max(0, (share || 0) - all(at)));
  // Figures of one moment come from several metrics: a small difference is none.
  const value = (cause, at) => (cause === "other" ? (rest[at] > 0.01 ? rest[at] : 0) : known(cause, at));
  const causes = [...Object.keys(told), "other"].sort((a, b) => causeOrder(a) - causeOrder(b));
  const sums = Array.from({ length }, (_, at) => causes.reduce((sum, cause) => sum + value(cause, at), 0));
  const marks = steps(Math.min(1, Math.max(0.04, ...sums) * 1.02) * 100);
  const present = causes.filter((cause) => sums.some((_, at) => value(cause, at) > 0));
  return {
    label, length, places: Math.max(length, 60), every: history.every_s, steps: marks,
    top: marks[marks.length - 1], unit: (step) => String(Number(step.toPrecision(3))), causes: present,
    values: (at) => [
      ...present.filter((cause) => value(cause, at) >= 0.0005).reverse()
        .map((cause) => [causeName(cause), percent(value(cause, at)), cause]),
      ["waiting", percent(history.wait_share[at])]],
    draw: (area) => {
      const floor = new Array(length).fill(0);
      const hatch = svg("pattern", { id: "hatch", width: 6, height: 6, patternUnits: "userSpaceOnUse", patternTransform: "rotate(45)" },
        svg("line", { class: "hatch", x1: 0, y1: 0, x2: 0, y2: 6 }));
      const bands = present.flatMap((cause) => {
        const under = floor.map((share, at) => `${area.x(at).toFixed(1)} ${area.y(share * 100).toFixed(1)}`);
        floor.forEach((share, at) => { floor[at] = share + value(cause, at); });
        const over = floor.map((share, at) => `${area.x(at).toFixed(1)} ${area.y(share * 100).toFixed(1)}`);
        const d = `M${under.join(" L")} L${over.reverse().join(" L")} Z`;
        const band = svg("path", { class: "band", d });
        band.style.fill = causeColour(cause);
        return HATCHED.has(cause) ? [band, svg("path", { d, fill: "url(#hatch)" })] : [band];
      });
      return [svg("defs", {}, hatch), ...bands];
    },
  };
}
