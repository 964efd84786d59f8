// Asks for reports and shows them.

const ASK_EVERY_MS = 1000;
const ASK_LIMIT_MS = 5000;
// A report that is older than this is said to be old.
const OLD_AFTER_MS = 5000;

const state = { report: null, newAt: 0, failure: "", isLocked: false };
const plots = {};

async function ask() {
  try {
    const answer = await fetch("/report.json", { signal: AbortSignal.timeout(ASK_LIMIT_MS) });
    if (answer.status === 401) return askForToken();
    if (!answer.ok) throw new Error((await answer.text()).trim());
    const report = await answer.json();
    if (!state.report || state.report.at_unix_ms !== report.at_unix_ms) state.newAt = performance.now();
    state.report = report;
    state.failure = "";
    show(report);
  } catch (error) {
    state.failure = error instanceof TypeError || error.name === "TimeoutError" ? "The monitor does not answer" : `The monitor answers: ${error.message}`;
  }
  showAge();
}

async function rounds() {
  for (;;) {
    if (!state.isLocked && !document.hidden) await ask();
    showAge();
    await new Promise((resolve) => setTimeout(resolve, ASK_EVERY_MS));
  }
}

// How old is what is shown.
function showAge() {
  const live = byId("live");
  const old = performance.now() - state.newAt;
  const isOld = state.report !== null && old > OLD_AFTER_MS;
  const isGone = state.failure !== "" && (state.report === null || isOld);
  const isStale = !state.isLocked && (isOld || isGone);
  live.className = `live ${isStale ? "off" : state.report && !state.isLocked ? "on" : ""}`;
  live.textContent = state.isLocked ? "locked" : isStale ? "stale" : state.report ? "live" : "connecting";
  byId("stale").hidden = !isStale;
  document.body.classList.toggle("stale", isStale);
  if (!isStale) return;
  const age = state.report ? ` These values are ${ago(old / 1000)} old.` : "";
  byId("stale").textContent = `${state.failure || "The monitor makes no new reports"}.${age}`;
}

function show(report) {
  byId("main").hidden = false;
  byId("job").textContent = report.job ? `${report.job}` : "";
  document.title = report.job ? `${report.job} · Headwater` : "Headwater";
  showVerdict(report);
  byId("troubles").replaceChildren(...report.troubles.map((trouble) => el("li", {}, trouble)));
  showFlow(report);
  plots.rate.show(linePlot(report.history, "Samples a second over time"));
  showRange(report.history);
  const bands = bandPlot(report.history, "Share of the ranks' time waited, by cause, over time");
  plots.wait.show(bands);
  showLegend(report, bands.causes);
  showTables(report);
  offerRanks(report.ranks);
}

function showVerdict({ summary }) {
  const { stage, text, remedy } = summary.verdict;
  const kind = { trainer: "ok", nobody: "dead", none: "" }[stage];
  byId("verdict").className = `card verdict ${kind === undefined ? "held" : kind}`;
  byId("verdict-text").textContent = text || "Nothing is known yet.";
  byId("verdict-remedy").textContent = remedy;
  byId("verdict-remedy").hidden = !remedy;
  const figure = (name, value) => el("div", {}, el("dt", {}, name), el("dd", {}, value));
  byId("figures").replaceChildren(
    figure("samples/s", number(summary.samples_per_s)),
    figure("batches/s", number(summary.batches_per_s)),
    figure("waiting", percent(summary.wait_share)));
}

// What the throughput was, over the time of the plot.
function showRange({ samples_per_s: list }) {
  const known = list.filter(isKnown);
  const mean = known.reduce((all, one) => all + one, 0) / known.length;
  const figures = known.length === 0 ? [] : [["now", list[list.length - 1]], ["mean", mean], ["min", Math.min(...known)], ["max", Math.max(...known)]];
  byId("range").replaceChildren(...figures.map(([name, value]) => el("li", {}, name, el("b", {}, number(value)))));
}

function showFlow(report) {
  const place = byId("flow");
  if (place.clientWidth > 0) place.replaceChildren(flowPicture(report, place.clientWidth));
}

function showLegend(report, causes) {
  const now = new Map(report.wait_by_cause.map((each) => [each.cause, each.share_of_time]));
  // What no cause explains.
  now.set("other", Math.max(0, (report.summary.wait_share || 0) - [...now.values()].reduce((sum, share) => sum + share, 0)));
  const all = [...new Set([...causes, ...[...now].filter(([, share]) => share > 0.01).map(([cause]) => cause)])];
  all.sort((a, b) => causeOrder(a) - causeOrder(b));
  byId("legend").replaceChildren(...all.map((cause) =>
    el("li", { title: CAUSES[cause] ? CAUSES[cause][1] : cause }, swatch(cause), causeName(cause), el("b", {}, percent(now.get(cause) ?? 0)))));
}

// === The token ===

function askForToken() {
  state.isLocked = true;
  byId("login").hidden = false;
  byId("main").hidden = true;
  byId("token").focus();
  showAge();
}

async function giveToken(event) {
  event.preventDefault();
  const refused = byId("refused");
  refused.textContent = "";
  try {
    const headers = { Authorization: `Bearer ${byId("token").value.trim()}` };
    const answer = await fetch("/session", { headers });
    if (!answer.ok) {
      refused.textContent = "This is not the job's token.";
      return;
    }
  } catch {
    refused.textContent = "The monitor does not answer, or the token has characters that no token has.";
    return;
  }
  byId("token").value = "";
  byId("login").hidden = true;
  state.isLocked = false;
  ask();
}

// === Light and dark ===

const dark = matchMedia("(prefers-color-scheme: dark)");

function kept() {
  try {
    return localStorage.getItem("headwater-theme");
  } catch {
    return null;
  }
}

function theme() {
  const chosen = kept() || (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = chosen;
  byId("theme").textContent = chosen === "dark" ? "Light" : "Dark";
}

function switchTheme() {
  const chosen = document.documentElement.dataset.theme === "dark" ? "light" : "dark";
  try {
    localStorage.setItem("headwater-theme", chosen);
  } catch {
    // Without a memory the switch lasts until the page is closed.
  }
  theme();
  if (kept() === null) document.documentElement.dataset.theme = chosen;
}

theme();
dark.addEventListener("change", theme);
byId("theme").addEventListener("click", switchTheme);
byId("login").addEventListener("submit", giveToken);
byId("batch-show").addEventListener("click", showBatch);
plots.rate = new Plot(byId("plot-rate"));
plots.wait = new Plot(byId("plot-wait"));
new ResizeObserver(() => state.report && showFlow(state.report)).observe(byId("flow"));
document.addEventListener("visibilitychange", () => !document.hidden && !state.isLocked && ask());
rounds();
