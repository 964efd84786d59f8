// Tables of ranks, workers, storage nodes, links, caches, weights.

// A table: `columns` are [head, cell(row), class]; the first is the row's head.
function table(rows, columns, empty) {
  if (rows.length === 0) return el("p", { class: "empty" }, empty);
  const shown = columns.filter(([, cell]) => rows.some((row) => !isBlank(cell(row))));
  const head = shown.map(([text, , kind]) => el("th", { scope: "col", class: kind || null }, text));
  const line = (row) => el("tr", { class: row.up === false ? "down" : null }, shown.map(([, cell, kind], at) => {
    const found = cell(row);
    const blank = isBlank(found) ? NOT_KNOWN : found;
    return at === 0 ? el("th", { scope: "row" }, blank) : el("td", { class: kind || null }, blank);
  }));
  return el("table", {}, el("thead", {}, el("tr", {}, head)), el("tbody", {}, rows.map(line)));
}

const isBlank = (cell) => cell === null || cell === undefined || cell === NOT_KNOWN || cell === "";

// Name and address of a process; both where they differ.
function who(row) {
  const address = row.name !== row.address && row.address ? el("span", { class: "address mono" }, row.address) : null;
  const name = el("span", {}, row.name || row.address);
  return el("span", {}, name, address, row.up === false ? el("span", { class: "down-tag" }, " no answer") : null);
}

// A number that ought to be 0.
const fault = (value) => (value > 0 ? el("span", { class: "alarm" }, count(value)) : isKnown(value) ? "0" : NOT_KNOWN);

// A bar of the share of time waited, by cause.
function waitBar(row) {
  if (!isKnown(row.wait_share)) return NOT_KNOWN;
  const width = 64;
  const bar = svg("svg", { width, height: 8, "aria-hidden": "true" }, svg("rect", { class: "rail", width, height: 8, rx: 2 }));
  let x = 0;
  const told = Object.values(row.wait_by_cause).reduce((sum, share) => sum + share, 0);
  const all = { ...row.wait_by_cause, other: Math.max(0, row.wait_share - told) };
  const causes = Object.entries(all).sort(([a], [b]) => causeOrder(a) - causeOrder(b));
  for (const [cause, share] of causes) {
    const part = svg("rect", { x, width: Math.max(0, Math.min(width - x, share * width)), height: 8 });
    part.style.fill = causeColour(cause);
    bar.append(part);
    x += share * width;
  }
  const most = causes.filter(([, share]) => share >= 0.005).sort(([, a], [, b]) => b - a);
  const title = most.map(([cause, share]) => `${causeName(cause)} ${percent(share)}`).join(", ");
  return el("span", { title: title || "no wait" }, `${percent(row.wait_share)} `, bar);
}

function topCause(row) {
  const [most] = Object.entries(row.wait_by_cause).sort(([, a], [, b]) => b - a);
  return most && most[1] >= 0.005 ? el("span", {}, swatch(most[0]), causeName(most[0])) : NOT_KNOWN;
}

const place = (row) => (isKnown(row.epoch) && isKnown(row.step) ? `${count(row.epoch)} / ${count(row.step)}` : NOT_KNOWN);
const of = (some, all) => (isKnown(some) ? `${count(some)}${isKnown(all) ? ` of ${count(all)}` : ""}` : NOT_KNOWN);
const linksOf = (row) => Object.entries(row.bytes_per_s_by_link).filter(([, each]) => each > 0)
  .map(([link, each]) => `${link} ${rate(each)}`).join(", ");

const RANKS = [
  ["rank", who],
  ["samples/s", (row) => number(row.samples_per_s)],
  ["waiting", waitBar],
  ["main cause", topCause, "left"],
  ["ready", (row) => of(row.ready_batches, row.slots)],
  ["workers", (row) => count(row.workers)],
  ["epoch / step", place],
  ["links", linksOf],
  ["bad samples", (row) => fault(row.bad_samples)],
  ["hedges", (row) => count(row.hedges)],
  ["duplicates", (row) => count(row.duplicates)],
  ["shared parts", (row) => count(row.parts_shared)],
];
const WORKERS = [
  ["worker", who],
  ["backend", (row) => row.backend, "left"],
  ["threads", (row) => count(row.threads)],
  ["busy", (row) => percent(row.busy_share)],
  ["samples/s", (row) => number(row.samples_per_s)],
  ["queued parts", (row) => count(row.queue_parts)],
  ["ranks", (row) => count(row.sessions)],
  ["read", (row) => ms(row.part_ms.read)],
  ["render", (row) => ms(row.part_ms.render)],
  ["decode (in render)", (row) => ms(row.part_ms.decode)],
  ["deliver", (row) => ms(row.part_ms.deliver)],
  ["parts kept to share", (row) => (row.share_parts > 0 ? `${plural(row.share_parts, "part")}, ${bytes(row.share_bytes)}` : NOT_KNOWN)],
  ["shared parts", (row) => count(row.parts_shared)],
  ["bad samples", (row) => fault(row.bad_samples)],
];
const STORAGE = [
  ["node", who],
  ["samples/s", (row) => number(row.samples_per_s)],
  ["read", (row) => rate(row.bytes_per_s)],
  ["reads under way", (row) => count(row.reads_in_flight)],
  ["reads waiting", (row) => count(row.reads_waiting)],
  ["from distant sources", (row) => rate(row.source_bytes_per_s)],
];
const LINKS = [
  ["link", (row) => row.link],
  ["rate", (row) => rate(row.bytes_per_s)],
  ["parts/s", (row) => number(row.parts_per_s)],
  ["dropped", (row) => fault(row.dropped)],
];
const CACHES = [
  ["level", (row) => el("span", {}, row.level, row.only ? null : el("span", { class: "address" }, row.node))],
  ["filled", (row) => (isKnown(row.bytes) ? `${bytes(row.bytes)}${isKnown(row.limit) ? ` of ${bytes(row.limit)}` : ""}` : NOT_KNOWN)],
  ["hits", (row) => percent(row.hit_share)],
];

// The weights in force: equal ones of all ranks once.
function weightRows(ranks) {
  const sets = new Map();
  for (const rank of ranks.filter((each) => Object.keys(each.weights).length > 0)) {
    const key = JSON.stringify(Object.entries(rank.weights).sort());
    sets.set(key, [...(sets.get(key) || []), rank]);
  }
  return [...sets.values()].flatMap((same) => Object.entries(same[0].weights).map(([dataset, weight]) => ({
    dataset, weight, whose: sets.size > 1 ? same.map((rank) => rank.name).join(", ") : "",
  })));
}
const WEIGHTS = [
  ["dataset", (row) => row.dataset],
  ["share", (row) => percent(row.weight)],
  ["ranks", (row) => row.whose],
];

function showTables(report) {
  const caches = report.storage.flatMap((node) =>
    node.caches.map((cache) => ({ ...cache, node: node.name, only: report.storage.length === 1 })));
  const tables = {
    ranks: [report.ranks, RANKS, "No rank is known: is telemetry.metrics_listen set where it trains?"],
    workers: [report.workers, WORKERS, "No worker is known."],
    storage: [report.storage, STORAGE, "No storage node is known."],
    links: [report.links, LINKS, "No part has come over a link yet."],
    caches: [caches, CACHES, "No cache is in use."],
    weights: [weightRows(report.ranks), WEIGHTS, "No rank reports its weights."],
  };
  for (const [id, [rows, columns, empty]] of Object.entries(tables)) {
    const place = byId(id);
    const { scrollLeft } = place;
    place.replaceChildren(table(rows, columns, empty));
    place.scrollLeft = scrollLeft;
  }
}
