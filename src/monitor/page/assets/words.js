// Words, numbers and the making of elements.

// Causes of waiting in the order of the way of a batch: what a legend says, and a sentence for a title.
const CAUSES = {
  read: ["read", "storage nodes read"],
  fetch: ["fetch", "a storage node waits for a distant source"],
  queue: ["queue", "a part waits for a lease, or at its worker for a thread"],
  decode: ["decode", "a worker decodes"],
  augment: ["augment", "a worker augments"],
  deliver: ["deliver", "a part is on its way from its worker"],
  device: ["device", "a batch is copied to the GPU"],
  nobody: ["nobody", "there is no worker"],
  retry: ["retry", "made again: a worker was lost, or storage was away"],
  held: ["held", "the trainer holds every slot"],
  pace: ["pace", "slower receivers hold this one up"],
  host: ["host", "the service of this host"],
  pending: ["pending", "a wait that goes on; its cause is not known yet"],
  other: ["unknown", "a wait whose cause the ranks do not report"],
};
// Every other one of neighbours is hatched, so that colours need not be told apart.
const HATCHED = new Set(["fetch", "augment", "device", "retry", "pace", "pending"]);
const NOT_KNOWN = "–";

const byId = (id) => document.getElementById(id);

function add(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) node.setAttribute(name, value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

// An element; names and texts of the report become text, never markup.
const el = (name, attributes = {}, ...children) => add(document.createElement(name), attributes, children);
const svg = (name, attributes = {}, ...children) =>
  add(document.createElementNS("http://www.w3.org/2000/svg", name), attributes, children);

const causeName = (cause) => (CAUSES[cause] ? CAUSES[cause][0] : cause);
const causeOrder = (cause) => {
  const at = Object.keys(CAUSES).indexOf(cause);
  return at < 0 ? 99 : at;
};
const causeColour = (cause) => `var(--c-${CAUSES[cause] ? cause : "other"})`;
const isKnown = (value) => typeof value === "number" && Number.isFinite(value);

// Two or three digits that count: 0.51, 5.12, 51.2, 512, 5,120, 51.2k, 5.12M.
function number(value) {
  if (!isKnown(value)) return NOT_KNOWN;
  const size = Math.abs(value);
  for (const [limit, unit] of [[1e9, "G"], [1e6, "M"], [1e4, "k"]]) {
    if (size >= limit) return digits(value / (unit === "k" ? 1e3 : limit)) + unit;
  }
  return size >= 1000 ? Math.round(value).toLocaleString("en-US") : digits(value);
}

function digits(value) {
  const size = Math.abs(value);
  if (size >= 100 || value === 0) return value.toFixed(0);
  return String(Number(size >= 10 ? value.toFixed(1) : value.toPrecision(size >= 1 ? 3 : 2)));
}

const count = (value) => (isKnown(value) ? value.toLocaleString("en-US") : NOT_KNOWN);
const percent = (share) => {
  if (!isKnown(share)) return NOT_KNOWN;
  return `${share >= 0.0005 && share < 0.0995 ? (share * 100).toFixed(1) : Math.round(share * 100)} %`;
};
const plural = (value, one, many = `${one}s`) => (isKnown(value) ? `${count(value)} ${value === 1 ? one : many}` : "");

function bytes(value) {
  if (!isKnown(value)) return NOT_KNOWN;
  const units = ["B", "kB", "MB", "GB", "TB", "PB"];
  let at = 0;
  for (; Math.abs(value) >= 999.5 && at < units.length - 1; at += 1) value /= 1000;
  return `${at === 0 ? Math.round(value) : digits(value)} ${units[at]}`;
}
const rate = (value) => (isKnown(value) ? `${bytes(value)}/s` : NOT_KNOWN);
const ms = (value) => (isKnown(value) ? `${digits(value)} ms` : NOT_KNOWN);

function ago(seconds) {
  if (seconds < 90) return `${Math.round(seconds)} s`;
  return seconds < 5400 ? `${Math.round(seconds / 60)} min` : `${Math.round(seconds / 3600)} h`;
}
