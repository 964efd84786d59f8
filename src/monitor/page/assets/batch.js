// The next batch of a rank: its samples' pictures, keys and draws.

function offerRanks(ranks) {
  const choice = byId("batch-rank");
  const offered = ranks.filter((rank) => rank.up);
  const known = [...choice.options].map((option) => option.value).join("\n");
  if (known !== offered.map((rank) => rank.address).join("\n")) {
    const before = choice.value;
    choice.replaceChildren(...offered.map((rank) => el("option", { value: rank.address }, rank.name || rank.address)));
    if (offered.some((rank) => rank.address === before)) choice.value = before;
  }
  choice.hidden = offered.length < 2;
  byId("batch-show").disabled = offered.length === 0 || isAsking;
}

let isAsking = false;

async function showBatch() {
  const note = byId("batch-note");
  const rank = byId("batch-rank").value;
  if (!rank || isAsking) return;
  isAsking = true;
  byId("batch-show").disabled = true;
  note.textContent = "The rank copies the next batch that its trainer takes …";
  try {
    const answer = await fetch(`/batch.json?rank=${rank}`);
    if (answer.status === 401 && answer.headers.has("www-authenticate")) return askForToken();
    if (!answer.ok) throw new Error(await answer.text());
    const batch = await answer.json();
    let picture = null;
    if (batch.sheet) {
      const png = await fetch(`/batch.png?rank=${rank}&id=${batch.id}`);
      if (!png.ok) throw new Error(await png.text());
      picture = await createImageBitmap(await png.blob());
    }
    note.textContent = batchNote(batch);
    byId("batch").replaceChildren(el("div", { class: "samples" }, batch.samples.map((sample, at) => sampleCard(batch, sample, at, picture))));
  } catch (error) {
    note.textContent = String(error.message || error).trim();
    byId("batch").replaceChildren();
  } finally {
    isAsking = false;
    byId("batch-show").disabled = false;
  }
}

function batchNote(batch) {
  const all = batch.samples.length === batch.batch_samples;
  const shown = all ? plural(batch.batch_samples, "sample") : `the first ${batch.samples.length} of ${count(batch.batch_samples)} samples`;
  const missing = batch.draws_missing ? ` Draws are missing: ${batch.draws_missing}.` : "";
  return `Epoch ${batch.epoch}, step ${batch.step}, rank ${batch.rank} of ${batch.world_size}: ${shown}.${missing}`;
}

function sampleCard(batch, sample, at, picture) {
  const { dataset, shard, index, key, label } = sample;
  const views = [...(sample.bases || []).map((base, n) => [`base ${n}`, base]), ...sample.views.map((view) => [`${view.tensor}[${view.view}]`, view])];
  const whole = (sample.image_ops || []).map(opText).join(", ");
  const draws = views.length === 0 ? null : el("details", {},
    el("summary", {}, plural(views.length, "draw")),
    el("ol", { class: "mono" },
      whole ? el("li", {}, el("b", {}, "whole image "), whole) : null,
      views.map(([name, view]) => el("li", {}, el("b", {}, `${name} `), drawText(view)))));
  const size = sample.image ? `${sample.image.width} × ${sample.image.height}` : "";
  return el("article", { class: "sample" },
    picture ? strip(batch.sheet, at, picture, key) : null,
    el("div", { class: "about" },
      el("p", { class: "key mono" }, key),
      el("p", { class: "muted" }, `${dataset} / ${shard} / ${index}`),
      el("p", { class: "muted" }, [`label ${label}`, size, sample.pass ? `pass ${sample.pass}` : ""].filter(Boolean).join(" · ")),
      sample.substitution ? el("p", { class: "alarm" }, `replaced by sample ${sample.substitution.used_index}: ${sample.substitution.reason}`) : null,
      draws));
}

// The row of one sample, cut out of the sheet.
function strip(sheet, at, picture, key) {
  const canvas = el("canvas", { width: sheet.width, height: sheet.row, role: "img", "aria-label": `views of ${key}` });
  canvas.getContext("2d").drawImage(picture, 0, at * sheet.row + 2, sheet.width, sheet.row, 0, 0, sheet.width, sheet.row);
  return canvas;
}

function drawText({ crop, base, resized, ops, cut }) {
  const of = isKnown(base) ? ` of base ${base}` : "";
  const parts = [`${crop.width}×${crop.height} at ${crop.left}, ${crop.top}${of} → ${resized.width}×${resized.height}`, ...(ops || []).map(opText)];
  if (cut) parts.push(`cut at ${cut.left}, ${cut.top}`);
  return parts.join(", ");
}

// An operation with what was drawn for it.
function opText({ op, ...drawn }) {
  const numbers = Object.entries(drawn).filter(([, value]) => isKnown(value)).map(([what, value]) => `${what} ${digits(value)}`);
  const name = op.replaceAll("_", " ");
  return numbers.length === 0 ? name : `${name} (${numbers.join(", ")})`;
}
