//! Boxes of a sample in its views: read, cut, flipped, clamped and dropped as `torchvision.transforms.v2` does with
//! `tv_tensors.BoundingBoxes`, `ClampBoundingBoxes` and `SanitizeBoundingBoxes`, in binary32.
//!
//! Source: torchvision `transforms/v2/functional/_geometry.py`, `_meta.py` and `_misc.py`.

use headwater_core::draw::{CropBox, Extent, Padding, ViewParams};
use headwater_core::op::Motion;
use headwater_core::pluralize;
use headwater_core::recipe::{BoxFormat, BoxesSpec, CropSpec};
use serde_json::Value;

/// Left, top, right, bottom.
pub type Corners = [f32; 4];

/// The boxes of one sample, in the order of its file, in pixels of its image.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SampleBoxes {
    /// The boxes.
    pub corners: Vec<Corners>,
    /// Their class numbers, where the recipe wants them.
    pub labels: Vec<i64>,
}

/// A box in a view.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ViewBox {
    /// Which of the sample's boxes it is.
    pub index: usize,
    /// In pixels of the view.
    pub corners: Corners,
}

/// The view that boxes are moved into.
#[derive(Clone, Copy, Debug)]
pub struct BoxView<'a> {
    /// How the recipe has it cut.
    pub crop: &'a CropSpec,
    /// What was drawn.
    pub params: &'a ViewParams,
    /// Its size.
    pub extent: Extent,
}

// === impl SampleBoxes ===

impl SampleBoxes {
    /// Reads a field.
    ///
    /// # Errors
    /// It does not hold what the recipe says; the sentence says what is wrong, without the field's name.
    pub fn parse(spec: &BoxesSpec, bytes: &[u8]) -> Result<Self, String> {
        let document: Value =
            serde_json::from_slice(bytes).map_err(|error| format!("is no JSON: {error}"))?;
        let rows = list(&document, &spec.path, "path")?;
        let most = spec.boxes_max as usize;
        if rows.len() > most && !spec.truncate {
            let boxes = boxes(rows.len());
            return Err(format!(
                "has {boxes}, more than boxes_max = {most}: raise it, or set truncate = true"
            ));
        }
        let corners = rows.iter().enumerate().map(|(number, row)| {
            let corners = four(row).ok_or_else(|| format!("box {number} is not four numbers"))?;
            Ok(match spec.format {
                BoxFormat::Xyxy => corners,
                BoxFormat::Xywh => {
                    let [left, top, width, height] = corners;
                    [left, top, left + width, top + height]
                }
            })
        });
        let corners = corners.collect::<Result<Vec<Corners>, String>>()?;
        let labels = match spec.labels_path.as_str() {
            "" => Vec::new(),
            path => labels(list(&document, path, "labels_path")?, corners.len())?,
        };
        Ok(Self { corners, labels })
    }

    /// The boxes that are left in a view, at most `spec.boxes_max`, in the order of the sample.
    pub fn in_view(&self, spec: &BoxesSpec, view: &BoxView<'_>) -> impl Iterator<Item = ViewBox> {
        let moved = self.corners.iter().map(|&corners| view.place(corners)).enumerate();
        let kept = moved.filter(|(_, corners)| is_sane(spec, corners));
        let boxes = kept.map(|(index, corners)| ViewBox { index, corners });
        boxes.take(spec.boxes_max as usize)
    }
}

/// The list at a place of a document.
fn list<'a>(document: &'a Value, path: &str, key: &str) -> Result<&'a Vec<Value>, String> {
    let found = document.pointer(path);
    let found = found.ok_or_else(|| format!("has nothing at {key} = \"{path}\""))?;
    found.as_array().ok_or_else(|| match path {
        "" => "is no list".to_owned(),
        _ => format!("has no list at {key} = \"{path}\""),
    })
}

fn boxes(count: usize) -> String {
    if count == 1 { "1 box".to_owned() } else { format!("{count} boxes") }
}

fn four(row: &Value) -> Option<Corners> {
    let row: &[Value; 4] = row.as_array()?.as_slice().try_into().ok()?;
    let mut corners = [0.0; 4];
    for (corner, value) in corners.iter_mut().zip(row) {
        *corner = value.as_f64()? as f32;
    }
    Some(corners)
}

fn labels(rows: &[Value], boxes: usize) -> Result<Vec<i64>, String> {
    if rows.len() != boxes {
        let labels = pluralize(rows.len(), "label");
        return Err(format!("has {labels} for {}", self::boxes(boxes)));
    }
    let number = |(number, label): (usize, &Value)| {
        label.as_i64().ok_or_else(|| format!("label {number} is no whole number of 64 bits"))
    };
    rows.iter().enumerate().map(number).collect()
}

// === impl BoxView ===

impl BoxView<'_> {
    /// Where a box of the image is in the view, clamped to it.
    fn place(&self, corners: Corners) -> Corners {
        let Self { crop, params, extent } = *self;
        let ViewParams { crop: cut, resized, window, padding, .. } = *params;
        let mut corners = match (crop, padding) {
            (_, Some(Padding { left, top, .. })) => {
                let corners = shift(corners, left as f32, top as f32);
                clamp(corners, extent)
            }
            (CropSpec::CenterAfterResize { .. } | CropSpec::RandomAfterResize { .. }, None) => {
                let corners = scale(corners, cut.extent(), resized);
                let corners = shift(corners, window.left as f32, window.top as f32);
                clamp(corners, extent)
            }
            (CropSpec::Resize {}, None) => scale(corners, cut.extent(), resized),
            (_, None) => {
                let CropBox { left, top, .. } = cut;
                let corners = clamp(shift(corners, left as f32, top as f32), cut.extent());
                scale(corners, cut.extent(), resized)
            }
        };
        for op in &params.ops {
            match op.motion() {
                Motion::MirrorAcross => {
                    let width = extent.width as f32;
                    let [left, top, right, bottom] = corners;
                    corners = [-(right - width), top, -(left - width), bottom];
                }
                Motion::MirrorDown => {
                    let height = extent.height as f32;
                    let [left, top, right, bottom] = corners;
                    corners = [left, -(bottom - height), right, -(top - height)];
                }
                // Recipes with warps have no boxes.
                Motion::Stays | Motion::Affine(_) | Motion::Perspective(_) => {}
            }
        }
        // torchvision has negative zeros here.
        clamp(corners, extent).map(|corner| corner + 0.0)
    }
}

/// `crop_bounding_boxes`, without its clamp.
fn shift([left, top, right, bottom]: Corners, by_left: f32, by_top: f32) -> Corners {
    [left - by_left, top - by_top, right - by_left, bottom - by_top]
}

/// `resize_bounding_boxes`.
fn scale([left, top, right, bottom]: Corners, from: Extent, to: Extent) -> Corners {
    if from == to {
        return [left, top, right, bottom];
    }
    let ratio = |to: u32, from: u32| (f64::from(to) / f64::from(from)) as f32;
    let (across, down) = (ratio(to.width, from.width), ratio(to.height, from.height));
    [left * across, top * down, right * across, bottom * down]
}

/// `clamp_bounding_boxes`.
fn clamp([left, top, right, bottom]: Corners, to: Extent) -> Corners {
    let (width, height) = (to.width as f32, to.height as f32);
    let across = |value: f32| value.clamp(0.0, width);
    let down = |value: f32| value.clamp(0.0, height);
    [across(left), down(top), across(right), down(bottom)]
}

/// `sanitize_bounding_boxes`, of a box that is clamped: whether it stays. What is not a number does not.
fn is_sane(spec: &BoxesSpec, &[left, top, right, bottom]: &Corners) -> bool {
    let (width, height) = (right - left, bottom - top);
    width >= spec.size_min && height >= spec.size_min && width * height >= spec.area_min
}
