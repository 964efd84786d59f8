//! Prints the draws of the recipe whose masks, depth and boxes are certified, as JSON, for
//! `tests/fixtures/certify_followed.py`. A folder as argument: the samples' fields are written there.

use std::path::PathBuf;

use headwater_core::draw::SampleParams;
use headwater_render::decode::{DecodeLimits, Decoder};
use serde_json::json;

#[path = "../tests/golden/certified.rs"]
#[expect(dead_code, reason = "shared with the presets' certificates")]
mod certified;
#[path = "../tests/golden/followed.rs"]
mod followed;
#[path = "../tests/support/photos.rs"]
mod photos;

fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("a folder for the fields"));
    let photos = photos::all();
    let recipe = followed::recipe();
    let mut decoder = Decoder::new(DecodeLimits::default()).expect("a decoder");
    let drawn = certified::PHOTOS.map(|photo| {
        let image = decoder.decode(&photos[photo]).expect("a photograph").extent();
        let extra_fields = followed::extra_fields(&recipe, photo, image, &photos[photo]);
        for (name, bytes) in recipe.extra_fields().iter().zip(extra_fields) {
            let path = folder.join(format!("{photo}.{name}"));
            std::fs::write(path, bytes.expect("a field")).expect("a file");
        }
        let mut params = SampleParams::default();
        params.draw(&recipe, image, |stream| certified::key(photo).view(stream).rng());
        json!({"photo": photo, "views": params.views()})
    });
    let drawn: Vec<_> = drawn.collect();
    println!("{}", json!({"recipe": recipe, "photos": drawn}));
}
