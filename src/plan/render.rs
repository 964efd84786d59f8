//! A plan as text and as JSON.

use std::fmt::Write as _;

use anyhow::Result;
use headwater_batch_view::{Follower, NamedView, SampleView};
use headwater_core::draw::{Extent, Origin, Padding, ViewParams};
use headwater_core::escape_control;
use headwater_core::op::DrawnOp;
use serde_json::{Value, to_value};

use super::Planned;

/// For people.
pub(crate) fn text(planned: &Planned) -> String {
    let Planned { epoch, step, rank, world_size, job_step, first, .. } = planned;
    let last = first + planned.samples.len() as u64;
    let mut text = format!(
        "epoch {epoch}, step {step} (job step {job_step}), rank {rank} of {world_size}: samples \
         {first}..{last} of {} in the global batch\n",
        planned.global_samples
    );
    let shares = planned.weights.iter();
    let shares: Vec<String> = shares.map(|(name, share)| format!("{name} {share:.4}")).collect();
    text += &match planned.list {
        Some(digest) => {
            let group = planned.group.map_or_else(String::new, |group| format!(", group {group}"));
            format!("order: list {digest}{group}\n")
        }
        None => format!("weights: {}\n", shares.join(", ")),
    };
    for (number, sample) in planned.samples.iter().enumerate() {
        text += &sample_text(number, sample);
    }
    text
}

/// A line for each sample, with the batch's coordinates in it.
pub(crate) fn json(planned: &Planned) -> Result<String> {
    let mut batch = to_value(planned)?;
    let samples = batch.as_object_mut().and_then(|batch| batch.remove("samples"));
    let mut text = String::new();
    for (number, mut sample) in
        (0u64..).zip(samples.iter().filter_map(Value::as_array).flatten().cloned())
    {
        if let (Value::Object(sample), Value::Object(batch)) = (&mut sample, &batch) {
            sample.insert("position".to_owned(), (planned.first + number).into());
            sample.extend(batch.clone());
        }
        writeln!(text, "{sample}")?;
    }
    Ok(text)
}

fn sample_text(number: usize, sample: &SampleView) -> String {
    let SampleView { dataset, shard, index, pass, key, label, image, .. } = sample;
    let size = match image {
        Some(image) => format!("{}x{} pixels", image.width, image.height),
        None => "not decoded".to_owned(),
    };
    let line = format!(
        "{number:>4}  {dataset} / {shard} / {index} (pass {pass}): key {key}, label {label}, {size}"
    );
    let mut text = format!("{}\n", escape_control(&line));
    if let Some(substitution) = &sample.substitution {
        let (used, reason) = (substitution.used_index, &substitution.reason);
        text += &format!("      sample {used} stands there: {}\n", escape_control(reason));
    }
    if !sample.image_ops.is_empty() {
        let ops: Vec<String> = sample.image_ops.iter().map(DrawnOp::text).collect();
        text += &format!("      whole image: {}\n", ops.join(", "));
    }
    for (number, base) in sample.bases.iter().enumerate() {
        text += &format!("      {}\n", view_text(&format!("base {number}"), base));
    }
    for NamedView { tensor, view, params } in &sample.views {
        text += &format!("      {}\n", view_text(&format!("{tensor}[{view}]"), params));
    }
    for follower in &sample.followers {
        text += &format!("      {}\n", escape_control(&follower_text(follower)));
    }
    text
}

fn follower_text(follower: &Follower) -> String {
    let Follower { tensor, view, field, like, size, boxes } = follower;
    let mut text = format!("{tensor}[{view}]: {field}, as {like}[{view}]");
    if let Some(Extent { width, height }) = size {
        text += &format!(" -> {width}x{height}");
    }
    match boxes.as_deref() {
        None => {}
        Some([]) => text += ", no box is left",
        Some(left) => {
            let numbers: Vec<String> = left.iter().map(usize::to_string).collect();
            let named = if left.len() == 1 { "box" } else { "boxes" };
            text += &format!(", {named} {}", numbers.join(", "));
        }
    }
    text
}

fn view_text(name: &str, params: &ViewParams) -> String {
    let (crop, resized) = (params.crop, params.resized);
    let of = params.base.map_or_else(String::new, |base| format!(" of base {base}"));
    let mut text = format!(
        "{name}: box {}x{} at ({}, {}){of} -> {}x{}",
        crop.width, crop.height, crop.left, crop.top, resized.width, resized.height
    );
    if !params.filter.is_bicubic() {
        text += &format!(" ({})", named(params.filter));
    }
    if let Some(Padding { left, top, mode, .. }) = params.padding {
        text += &format!(", view at ({left}, {top}), {} beyond the image", named(mode));
    }
    for op in &params.ops {
        text += ", ";
        text += &op.text();
    }
    if let Some(Origin { left, top }) = params.cut {
        text += &format!(", cut at ({left}, {top})");
    }
    text
}

/// A value as it is written in a recipe.
fn named(value: impl serde::Serialize) -> String {
    match to_value(value) {
        Ok(Value::String(name)) => name,
        other => format!("{other:?}"),
    }
}
