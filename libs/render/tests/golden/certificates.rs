//! Presets against the code that they were published with: every byte of the views of 64 photographs, by their
//! SHA-256, which `fixtures/certify.py` took of that code's own transforms from the same draws.

use headwater_core::recipe::TensorSpec;
use headwater_render::{Renderer, ViewSink};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::certified::{PHOTOS, PRESETS, key, recipe};
use super::fixtures::json;
use crate::photos;

/// What `certify.py` has written.
#[derive(Debug, Deserialize)]
struct Certificate {
    preset: String,
    source: Source,
    photos: Vec<Photo>,
}

#[derive(Debug, Deserialize)]
struct Source {
    repository: String,
    commit: String,
    file: String,
}

#[derive(Debug, Deserialize)]
struct Photo {
    photo: usize,
    /// SHA-256 of each view, binary32, little-endian.
    views: Vec<String>,
}

/// Rows over all tensors.
struct Rows {
    first: Vec<usize>,
    rows: Vec<Vec<u8>>,
}

impl ViewSink for Rows {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        &mut self.rows[self.first[tensor] + view]
    }
}

#[test]
fn presets_make_the_bytes_of_the_published_code() {
    let all = photos::all();
    let mut renderer = Renderer::new().expect("a renderer");
    for preset in PRESETS {
        let found: Certificate = json(&format!("certificates/{preset}.json"));
        let Source { repository, commit, file } = &found.source;
        assert!(found.preset == *preset && commit.len() == 40, "{repository} {commit} {file}");
        assert!(found.photos.iter().map(|photo| photo.photo).eq(PHOTOS), "{preset}");
        let recipe = recipe(preset);
        for Photo { photo, views } in &found.photos {
            let mut rows = Rows { first: Vec::new(), rows: Vec::new() };
            for TensorSpec { height, width, views, .. } in &recipe.tensors {
                rows.first.push(rows.rows.len());
                rows.rows.extend(views.iter().map(|_| vec![0xa5; (12 * height * width) as usize]));
            }
            renderer.render(&recipe, key(*photo), &all[*photo], &mut rows).expect("an image");
            let sums: Vec<String> = rows.rows.iter().map(|row| sha256(row)).collect();
            assert_eq!(&sums, views, "{preset}, photograph {photo}, by {repository} {file}");
        }
    }
}

fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
