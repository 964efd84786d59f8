// The way of the samples as a picture: storage, workers, ranks, and what goes between them.

// Where a stage of the verdict is in the picture.
const STAGES = {
  storage: "storage", augment: "augment", nobody: "augment", link: "link", device: "ranks", trainer: "ranks", host: "ranks",
};

// The sum of those that are known; null where none is.
function sum(values) {
  const known = values.filter(isKnown);
  return known.length === 0 ? null : known.reduce((all, one) => all + one, 0);
}

const flowRate = (value) => (isKnown(value) ? `${number(value)} samples/s` : "");

function flowPicture(report, width) {
  const { storage, augment, receiver } = report.tiers;
  const slow = STAGES[report.summary.verdict.stage] || null;
  const isTrainer = report.summary.verdict.stage === "trainer";
  const waits = sum(report.storage.map((node) => node.reads_waiting)) || 0;
  const reads = sum(report.storage.map((node) => node.reads_in_flight));
  const hits = report.storage.length === 1 ? sum(report.storage[0].caches.map((cache) => cache.hit_share)) : null;
  const boxes = [
    { id: "storage", title: plural(storage.nodes, "storage node") || "storage",
      lines: report.storage.length === 0 ? [] : [
        isKnown(reads) ? `${plural(reads, "read")} under way, ${count(waits)} waiting` : "",
        hits === null ? "" : `${percent(hits)} from caches`] },
    { id: "augment", title: plural(augment.workers, "worker"),
      lines: [`${plural(augment.threads, "thread")}${isKnown(augment.queue_parts) ? ` · ${plural(augment.queue_parts, "part")} queued` : ""}`],
      share: augment.busy_share, shareText: "busy" },
    { id: "ranks", title: plural(receiver.ranks, "rank"),
      lines: [isKnown(receiver.ready_batches) ? `${plural(receiver.ready_batches, "batch", "batches")} ready of ${plural(receiver.slots, "slot")}` : ""],
      share: report.summary.wait_share, shareText: "waiting" },
  ];
  const linkBytes = sum(report.links.map((link) => link.bytes_per_s));
  const links = report.links.filter((link) => link.bytes_per_s > 0).map((link) => link.link).join(", ");
  const arrows = [
    { id: "read", lines: [flowRate(storage.samples_per_s), isKnown(storage.bytes_per_s) ? rate(storage.bytes_per_s) : ""] },
    { id: "link", lines: [flowRate(receiver.samples_per_s),
      isKnown(linkBytes) ? rate(linkBytes) + (links ? ` · ${links}` : "") : ""] },
  ];
  const tag = isTrainer ? "sets the pace" : "bottleneck";
  const gap = gapOf(arrows, width);
  const size = (width - 2 - gap * (boxes.length - 1)) / boxes.length;
  const isNarrow = width < 700 || boxes.some((part) => widest(part.lines, part.title || part.id) > size - 28);
  const picture = isNarrow ? tall(boxes, arrows, slow, tag, width) : wide(boxes, arrows, slow, tag, width, gap, size);
  // A trainer that is the slower side is as it should be.
  if (isTrainer) picture.classList.add("calm");
  return picture;
}

// === Widths of text, in pixels ===

const ruler = document.createElement("canvas").getContext("2d");

function widest(lines, strong) {
  const family = getComputedStyle(document.body).fontFamily;
  const width = (font, text) => {
    ruler.font = `${font} ${family}`;
    return ruler.measureText(text || "").width;
  };
  return Math.max(width("620 13px", strong), ...lines.map((line) => width("12px", line)));
}

// The space between two boxes: as wide as what is written over and under an arrow.
function gapOf(arrows, width) {
  const needed = arrows.map(({ lines: [strong, ...rest] }) => widest(rest, strong));
  return Math.max(Math.min(210, width * 0.17), ...needed.map((text) => text + 24));
}

function box(part, slow, tag, x, y, width, height) {
  const isSlow = part.id === slow;
  const drawn = svg("g", {},
    svg("rect", { class: isSlow ? "box slow" : "box", x, y, width, height, rx: 7 }),
    svg("text", { class: "strong", x: x + 14, y: y + 25 }, part.title || part.id),
    part.lines.filter(Boolean).map((line, at) => svg("text", { class: "muted", x: x + 14, y: y + 44 + 17 * at }, line)));
  if (isKnown(part.share)) {
    const rail = width - 28;
    const filled = rail * Math.min(1, Math.max(0, part.share));
    drawn.append(
      svg("text", { x: x + 14, y: y + height - 20 }, `${percent(part.share)} ${part.shareText}`),
      svg("rect", { class: "rail", x: x + 14, y: y + height - 13, width: rail, height: 5, rx: 2.5 }),
      svg("rect", { class: "fill", x: x + 14, y: y + height - 13, width: filled, height: 5, rx: 2.5 }));
  }
  if (isSlow) drawn.append(...label(tag, x + width - 10, y));
  return drawn;
}

// A small tag whose right end is at `right`, on a line.
function label(text, right, y) {
  const width = text.length * 6.1 + 16;
  return [
    svg("rect", { class: "slow-tag", x: right - width, y: y - 9, width, height: 18, rx: 9 }),
    svg("text", { class: "tag", x: right - width / 2, y: y + 4, "text-anchor": "middle" }, text)];
}

function wide(boxes, arrows, slow, tag, width, gap, size) {
  const height = 104;
  const picture = svg("svg", { width, height: height + 12, role: "img", "aria-label": describe(boxes, arrows, slow, tag) });
  boxes.forEach((part, at) => picture.append(box(part, slow, tag, 1 + at * (size + gap), 10, size, height)));
  arrows.forEach((arrow, at) => {
    const from = 1 + (at + 1) * size + at * gap + 8;
    const to = from + gap - 16;
    const middle = (from + to) / 2;
    const isSlow = arrow.id === slow;
    const mark = isSlow ? " slow" : "";
    picture.append(
      svg("line", { class: `arrow${mark}`, x1: from, x2: to - 6, y1: 62, y2: 62 }),
      svg("path", { class: `head${mark}`, d: `M${to} 62 l-9 -5 v10 z` }),
      svg("text", { class: "strong", x: middle, y: 52, "text-anchor": "middle" }, arrow.lines[0]),
      svg("text", { class: "muted", x: middle, y: 81, "text-anchor": "middle" }, arrow.lines[1]));
    if (isSlow) picture.append(...label(tag, middle + 40, 24));
  });
  return picture;
}

function tall(boxes, arrows, slow, tag, width) {
  const gap = 52;
  const heights = boxes.map((part) => 38 + 17 * part.lines.filter(Boolean).length + (isKnown(part.share) ? 34 : 0));
  const tops = heights.map((_, at) => 10 + heights.slice(0, at).reduce((all, one) => all + one + gap, 0));
  const all = tops[tops.length - 1] + heights[heights.length - 1] + 2;
  const picture = svg("svg", { width, height: all, role: "img", "aria-label": describe(boxes, arrows, slow, tag) });
  boxes.forEach((part, at) => picture.append(box(part, slow, tag, 1, tops[at], width - 2, heights[at])));
  arrows.forEach((arrow, at) => {
    const top = tops[at] + heights[at] + 4;
    const bottom = top + gap - 8;
    const isSlow = arrow.id === slow;
    const mark = isSlow ? " slow" : "";
    picture.append(
      svg("line", { class: `arrow${mark}`, x1: 26, x2: 26, y1: top, y2: bottom - 6 }),
      svg("path", { class: `head${mark}`, d: `M26 ${bottom} l-5 -9 h10 z` }),
      svg("text", { class: "strong", x: 42, y: top + 18 }, arrow.lines[0]),
      svg("text", { class: "muted", x: 42, y: top + 35 }, arrow.lines[1]));
    if (isSlow) picture.append(...label(tag, width - 12, top + gap / 2 - 4));
  });
  return picture;
}

// The picture for those who hear it.
function describe(boxes, arrows, slow, tag) {
  const said = boxes.map((part) => `${part.title || part.id}${part.id === slow ? ` (${tag})` : ""}`);
  return said.map((text, at) => (arrows[at] ? `${text}, ${arrows[at].lines.filter(Boolean).join(", ")} to` : text)).join(" ");
}
