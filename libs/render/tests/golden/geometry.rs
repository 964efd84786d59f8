//! Masks, depth and boxes against `torchvision.transforms.v2` and Pillow: every value of the views of 64 photographs'
//! second images, by their SHA-256, which `fixtures/certify_followed.py` took from the same draws.

use std::collections::BTreeMap;

use bytes::Bytes;
use headwater_core::{Layout, Recipe};
use headwater_render::decode::{DecodeLimits, Decoder};
use headwater_render::{BadImage, BoxPart, PartSample, RenderError, Rendered, Renderer, ViewSink};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::certified::{PHOTOS, key};
use super::fixtures::json;
use super::followed;
use crate::photos;

#[derive(Debug, Deserialize)]
struct Certificate {
    photos: Vec<Photo>,
}

#[derive(Debug, Deserialize)]
struct Photo {
    photo: usize,
    /// SHA-256 of each view of each tensor, by the tensor's name.
    tensors: BTreeMap<String, Vec<String>>,
}

/// Rows by the names of tensors, one a view.
#[derive(Debug)]
struct Rows {
    recipe: Recipe,
    rows: BTreeMap<String, Vec<Vec<u8>>>,
}

// === impl Rows ===

impl Rows {
    fn new(recipe: &Recipe) -> Self {
        let layout = Layout::new(recipe, 1);
        let rows = layout.tensors().iter().map(|tensor| {
            let row = vec![0xa5; tensor.row_bytes as usize];
            (tensor.name.clone(), vec![row; tensor.views as usize])
        });
        Self { recipe: recipe.clone(), rows: rows.collect() }
    }

    fn at(&mut self, name: &str, view: usize) -> &mut [u8] {
        &mut self.rows.get_mut(name).expect("a tensor")[view]
    }
}

impl ViewSink for Rows {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        let name = self.recipe.tensors[tensor].name.clone();
        self.at(&name, view)
    }

    fn aligned(&mut self, aligned: usize, view: usize) -> &mut [u8] {
        let name = self.recipe.aligned[aligned].name.clone();
        self.at(&name, view)
    }

    fn boxes(&mut self, boxes: usize, part: BoxPart, view: usize) -> &mut [u8] {
        let name = self.recipe.boxes[boxes].names()[part as usize].clone();
        self.at(&name, view)
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn masks_depth_and_boxes_are_those_of_torchvision_and_pillow() {
    let all = photos::all();
    let recipe = followed::recipe();
    let found: Certificate = json("certificates/followed.json");
    assert!(found.photos.iter().map(|photo| photo.photo).eq(PHOTOS));
    let mut renderer = Renderer::new().expect("a renderer");
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    for Photo { photo, tensors } in &found.photos {
        let encoded = &all[*photo];
        let image = decoder.decode(encoded).expect("a photograph").extent();
        let extra_fields = followed::extra_fields(&recipe, *photo, image, encoded);
        let mut rows = Rows::new(&recipe);
        render(&mut renderer, &recipe, (*photo, encoded, &extra_fields), &mut rows)
            .expect("a sample");
        assert!(
            recipe.geometry_names().eq(tensors_in_order(&recipe, tensors)),
            "photograph {photo}"
        );
        for (name, sums) in tensors {
            let made: Vec<String> = rows.rows[name].iter().map(|row| sha256(row)).collect();
            assert_eq!(&made, sums, "{name} of photograph {photo}");
        }
    }
}

/// The certificate's tensors in the order of the recipe: all of them, and no other.
fn tensors_in_order(
    recipe: &Recipe,
    tensors: &BTreeMap<String, Vec<String>>,
) -> impl Iterator<Item = String> {
    let names: Vec<String> =
        recipe.geometry_names().filter(|name| tensors.contains_key(name)).collect();
    assert_eq!(names.len(), tensors.len());
    names.into_iter()
}

fn render(
    renderer: &mut Renderer,
    recipe: &Recipe,
    (photo, encoded, extra_fields): (usize, &[u8], &[Option<Bytes>]),
    rows: &mut Rows,
) -> Result<Rendered, RenderError> {
    let sample = PartSample { key: key(photo), encoded, entries: &[], extra_fields, label: -1 };
    renderer.render_sample(recipe, &sample, rows)
}

/// What is said of a sample with one field changed; nothing has been written.
fn refusal(field: &str, change: impl Fn(&Bytes) -> Option<Bytes>) -> String {
    let recipe = followed::recipe();
    let (photo, encoded) = (90, photos::all().swap_remove(90));
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    let image = decoder.decode(&encoded).expect("a photograph").extent();
    let mut extra_fields = followed::extra_fields(&recipe, photo, image, &encoded);
    let number = recipe.extra_fields().iter().position(|name| *name == field).expect("a field");
    extra_fields[number] = extra_fields[number].as_ref().and_then(change);
    let mut rows = Rows::new(&recipe);
    let mut renderer = Renderer::new().expect("a renderer");
    let error = render(&mut renderer, &recipe, (photo, &encoded, &extra_fields), &mut rows);
    assert!(matches!(error, Err(RenderError::Bad(BadImage::Field(_)))), "no verdict: {error:?}");
    assert!(rows.rows.values().flatten().flatten().all(|byte| *byte == 0xa5), "nothing is written");
    error.unwrap_err().to_string()
}

#[test]
fn a_second_image_that_cannot_be_used_makes_the_sample_a_bad_one() {
    let photo = photos::all().swap_remove(91);
    let said = refusal("mask.png", |_| None);
    assert!(said.contains("field `masks`: the sample has no `mask.png`"), "{said}");
    let said = refusal("mask.png", |_| Some(Bytes::from_static(b"no image")));
    assert!(
        said.contains("field `masks`: `mask.png` cannot be used")
            && said.contains("8 bytes are no PNG"),
        "{said}"
    );
    let said = refusal("mask.png", |mask| Some(mask.slice(..mask.len() / 2)));
    assert!(said.contains("`mask.png` cannot be used: image is truncated"), "{said}");
    let other = followed::extra_fields(
        &followed::recipe(),
        90,
        headwater_core::draw::Extent { width: 33, height: 21 },
        &photo,
    );
    let other = other[0].clone().expect("a mask");
    let said = refusal("mask.png", |_| Some(other.clone()));
    assert!(said.contains("`mask.png` has 33x21 pixels, the sample's image "), "{said}");
    let said = refusal("jpg", |jpg| Some(jpg.slice(..jpg.len() / 2)));
    assert!(said.contains("field `second`: `jpg` cannot be used: image is truncated"), "{said}");
}

#[test]
fn boxes_that_cannot_be_used_make_the_sample_a_bad_one() {
    let with = |text: &str| {
        let text = text.to_owned();
        refusal("boxes.json", move |_| Some(Bytes::from(text.clone())))
    };
    let deep = "[".repeat(100_000);
    for (text, said) in [
        ("", "is no JSON"),
        (deep.as_str(), "is no JSON: recursion limit"),
        (r#"{"found": {"boxes": [[0, 0, NaN, 1]], "labels": [1]}}"#, "is no JSON"),
        (r#"{"found": {"boxes": [[0, 0, 1e999, 1]], "labels": [1]}}"#, "is no JSON"),
        (r#"{"found": [1]}"#, "has nothing at path = \"/found/boxes\""),
        (r#"{"found": {"boxes": 3}}"#, "has no list at path = \"/found/boxes\""),
        (r#"{"found": {"boxes": [[0, 0, 1]], "labels": [1]}}"#, "box 0 is not four numbers"),
        (r#"{"found": {"boxes": [[0, 0, 1, "2"]], "labels": [1]}}"#, "box 0 is not four numbers"),
        (r#"{"found": {"boxes": [[0, 0, 1, 2]], "labels": []}}"#, "has 0 labels for 1 box"),
        (r#"{"found": {"boxes": [[0, 0, 1, 2]], "labels": [1.5]}}"#, "label 0 is no whole number"),
    ] {
        let found = with(text);
        assert!(found.starts_with(&format!("field `boxes`: `boxes.json` {said}")), "{found}");
    }
    let many = ["[0, 0, 9, 9]"; 13].join(", ");
    let found = with(&format!(r#"{{"found": {{"boxes": [{many}], "labels": []}}}}"#));
    assert!(
        found.contains("has 13 boxes, more than boxes_max = 12: raise it, or set truncate"),
        "{found}"
    );
}
