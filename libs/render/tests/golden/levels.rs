//! Levels of masks and depth against Pillow's `np.asarray(Image.open(..))`, which `fixtures/make_levels.py` took.

use std::collections::BTreeMap;

use headwater_core::draw::Extent;
use headwater_render::decode::{DecodeError, DecodeFailure, DecodeLimits, Levels};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::fixtures::{bytes, json};

#[derive(Debug, Deserialize)]
struct Read {
    mode: String,
    sha256: String,
}

fn refusal(encoded: &[u8], limits: DecodeLimits) -> DecodeError {
    match Levels::default().decode(encoded, &limits).expect_err("no levels") {
        DecodeFailure::Bytes(error) => error,
        DecodeFailure::Passing { reason } => panic!("no verdict: {reason}"),
    }
}

#[test]
fn levels_of_every_depth_are_pillows() {
    let all: BTreeMap<String, Read> = json("levels/levels.json");
    assert_eq!(all.len(), 15);
    let mut levels = Levels::default();
    for (name, Read { mode, sha256 }) in &all {
        let file = bytes(&format!("levels/{name}.png"));
        levels.decode(&file, &DecodeLimits::default()).expect("levels");
        assert_eq!(levels.extent(), Extent { width: 37, height: 23 }, "{name}");
        assert_eq!(levels.is_wide(), name.starts_with("gray-16"), "{name}");
        let found: Vec<u8> = levels.values().iter().flat_map(|level| level.to_le_bytes()).collect();
        let found: String = Sha256::digest(found).iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(&found, sha256, "{name}, which Pillow opens as mode {mode}");
    }
}

#[test]
fn what_has_other_channels_or_is_broken_is_refused() {
    for name in ["rgb", "gray-alpha"] {
        let error = refusal(&bytes(&format!("levels/{name}.png")), DecodeLimits::default());
        assert!(error.to_string().contains("more channels than one"), "{name}: {error}");
    }
    let jpeg = refusal(&bytes("decode/gray.jpg"), DecodeLimits::default());
    assert!(jpeg.to_string().contains("are no PNG"), "{jpeg}");
    let whole = bytes("levels/gray-16.png");
    for len in 0..whole.len() - 30 {
        refusal(&whole[..len], DecodeLimits::default());
    }
    let small = DecodeLimits { pixels_max: 37 * 23 - 1, ..DecodeLimits::default() };
    assert!(refusal(&whole, small).to_string().contains("too large: 37x23 pixels"));
}
