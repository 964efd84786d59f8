//! MXFP8 equals NumPy's and ml_dtypes' step by step way there: `fixtures/make_mx.py`.

use headwater_pixels::ops::cast::Normalise;
use headwater_pixels::ops::cast::mx::plain;

use super::fixtures::{bytes, planes, png};

#[test]
fn elements_and_scales_of_blocks_have_numpys_bits() {
    let view = planes(&png("mx/source.png"));
    let cases = [
        ("imagenet", [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]),
        ("plain", [0.0; 3], [1.0; 3]),
        ("wide", [0.2; 3], [3e-4, 1.0, 700.0]),
    ];
    for (name, mean, std) in cases {
        let expected = ["elements", "scales"].map(|of| bytes(&format!("mx/{name}-{of}.bin")));
        let mut rows = [vec![0xa5; expected[0].len()], vec![0xa5; expected[1].len()]];
        let [elements, scales] = &mut rows;
        plain::write(&view, &Normalise { mean, std }, elements, scales);
        assert!(rows[1] == expected[1], "scales of {name}");
        assert!(rows[0] == expected[0], "elements of {name}");
    }
}
