//! The corner cases of constructors, as ranges that are one value or neutral and probabilities of 0 and 1, against
//! torchvision, Pillow and timm: every byte of the views, by their SHA-256, which `fixtures/certify_corners.py` took.

use headwater_render::{Renderer, ViewSink};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::cornered::{DRAWS, corners, fixture, key, recipe};
use super::fixtures::json;

/// What `certify_corners.py` has written.
#[derive(Debug, Deserialize)]
struct Certified {
    theirs: String,
    /// SHA-256 of the view of each draw, binary32, little-endian.
    views: Vec<String>,
}

/// One row.
struct Row(Vec<u8>);

impl ViewSink for Row {
    fn row(&mut self, _: usize, _: usize) -> &mut [u8] {
        &mut self.0
    }
}

#[test]
fn corner_cases_of_constructors_make_the_bytes_of_the_other_library() {
    let certified: Vec<Certified> = json("certificates/corners.json");
    let corners = corners();
    let listed = corners.iter().map(|corner| &corner.theirs);
    assert!(listed.eq(certified.iter().map(|one| &one.theirs)), "run certify_corners.py");
    let image = fixture("ops/source.png");
    let mut renderer = Renderer::new().expect("a renderer");
    let mut wrong = Vec::new();
    for (corner, Certified { theirs, views }) in corners.iter().zip(&certified) {
        let [width, height] = corner.size;
        let recipe = recipe(corner);
        let found = (0..DRAWS).map(|sample| {
            let mut row = Row(vec![0xa5; (12 * width * height) as usize]);
            renderer.render(&recipe, key(sample), &image, &mut row).expect("an image");
            Sha256::digest(&row.0).iter().map(|byte| format!("{byte:02x}")).collect()
        });
        let found: Vec<String> = found.collect();
        if found != *views {
            wrong.push(theirs);
        }
    }
    assert!(wrong.is_empty(), "{} of {}: {wrong:#?}", wrong.len(), certified.len());
}
