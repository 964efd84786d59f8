//! Pictures of batches that are made up.

use std::collections::BTreeMap;
use std::convert::Infallible;

use headwater_core::recipe::{FieldKind, FieldSpec};

use super::*;
use crate::glyphs;

/// A batch that is only what is given.
struct Given {
    layout: Layout,
    tensors: BTreeMap<String, Vec<u8>>,
}

impl Pictured for Given {
    type Error = Infallible;

    fn layout(&self) -> &Layout {
        &self.layout
    }

    fn tensor_bytes(&self, tensor: &TensorLayout) -> Result<Vec<u8>, Infallible> {
        let zeros = || vec![0; self.layout.tensor_region(tensor).len_bytes as usize];
        Ok(self.tensors.get(&tensor.name).cloned().unwrap_or_else(zeros))
    }

    fn fp8_scale_inv(&self, _: &TensorLayout) -> Option<f32> {
        None
    }
}

/// A black image of `width` columns and 10 rows for each text.
fn captioned(width: u32, texts: &[&str]) -> (Given, Recipe) {
    let mut recipe = Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset");
    (recipe.tensors[0].height, recipe.tensors[0].width) = (10, width);
    let kind = FieldKind::Text { bytes_max: 80, truncate: false, default: None };
    recipe.fields = vec![FieldSpec { name: "caption".into(), field: "txt".into(), kind }];
    let (mut bytes, mut sizes) = (Vec::new(), Vec::new());
    for text in texts {
        let mut row = text.as_bytes().to_vec();
        sizes.extend((row.len() as i64).to_le_bytes());
        // What comes after a text is no part of it.
        row.resize(80, b'#');
        bytes.extend(row);
    }
    let tensors = [("caption".to_owned(), bytes), ("caption_sizes".to_owned(), sizes)].into();
    (Given { layout: Layout::new(&recipe, texts.len() as u32), tensors }, recipe)
}

/// Rows of a text in letters of their own size, as they are to be painted.
fn spelled(text: &str) -> [String; glyphs::HEIGHT] {
    let letter = |letter, row| {
        let dot = |x| if glyphs::is_drawn(letter, x, row) { '#' } else { '.' };
        (0..glyphs::WIDTH).map(dot).collect::<String>()
    };
    std::array::from_fn(|row| text.chars().map(|c| letter(c, row)).collect::<Vec<_>>().join("."))
}

/// Which pixels of a part of a sheet are painted.
fn painted(sheet: &Sheet, [left, top]: [usize; 2], [width, height]: [usize; 2]) -> Vec<String> {
    let is = |x: usize, y: usize| sheet.pixels[(y * sheet.width + x) * 3..][..3] == [INK; 3];
    let row = |y| (left..left + width).map(|x| if is(x, y) { '#' } else { '.' }).collect();
    (top..top + height).map(row).collect()
}

#[test]
fn texts_stand_under_the_rows_of_their_samples() {
    let (batch, recipe) = captioned(60, &["a red cat", "two lines of dogs", "h\u{e9}"]);
    let sheet = Sheet::draw(&batch, &recipe, 3).expect("on the host");
    let bare = Recipe { fields: Vec::new(), ..recipe.clone() };
    let bare = Sheet::draw(&batch, &bare, 3).expect("on the host");
    // Two lines of nine pixels for each row: as many as the longest text has.
    assert_eq!((bare.row_pixels(3), sheet.row_pixels(3)), (10 + GAP, 10 + GAP + 18));
    assert_eq!((sheet.width(), bare.width()), (GAP + 60 + GAP, GAP + 60 + GAP));
    assert!(painted(&bare, [0, 0], [bare.width(), bare.height()]).concat().find('#').is_none());
    let line = |sample: usize, number: usize, text: &str| {
        let top = GAP + sample * sheet.row_pixels(3) + 10 + GAP + number * 9;
        let expected = spelled(text);
        let size = [expected[0].len(), glyphs::HEIGHT];
        assert_eq!(painted(&sheet, [GAP, top], size), expected, "{text}");
        let rest = [sheet.width() - GAP - size[0], 9];
        let rest = painted(&sheet, [GAP + size[0], top], rest).concat();
        assert!(!rest.contains('#'), "beside {text}: {rest}");
    };
    line(0, 0, "a red cat");
    line(0, 1, "");
    line(1, 0, "two lines");
    line(1, 1, "of dogs");
    line(2, 0, "h\u{e9}");
    line(2, 1, "");
    // The views are where they were, and nothing is written on them.
    for sample in 0..3 {
        let top = GAP + sample * sheet.row_pixels(3);
        let view = &sheet.pixels[(top * sheet.width + GAP) * 3..][..60 * 3];
        assert!(view.iter().all(|&level| level == 0));
    }
}

#[test]
fn a_wide_picture_has_letters_of_twice_the_size() {
    let (batch, recipe) = captioned(400, &["Hi"]);
    let sheet = Sheet::draw(&batch, &recipe, 1).expect("on the host");
    assert_eq!(sheet.row_pixels(1), 10 + GAP + 18);
    let found = painted(&sheet, [GAP, GAP + 10 + GAP], [22, 14]);
    let twice = |line: &String| line.chars().flat_map(|c| [c, c]).collect::<String>();
    let expected: Vec<String> =
        spelled("Hi").iter().flat_map(|line| [twice(line), twice(line)]).collect();
    assert_eq!(found, expected);
}

#[test]
fn a_recipe_with_texts_and_no_images_has_no_picture() {
    let (batch, mut recipe) = captioned(60, &["a text"]);
    recipe.tensors.clear();
    let batch = Given { layout: Layout::new(&recipe, 1), ..batch };
    assert!(Sheet::draw(&batch, &recipe, 1).expect("on the host").is_empty());
}

#[test]
fn patches_are_put_together_where_they_lay() {
    let recipe = serde_json::json!({
        "sequences": {"tensor": "patches", "patch_size": 2, "lengths": [6], "batch_divisor": 1},
        "tensors": [{"name": "patches", "dtype": "u8", "height": 2, "width": 12, "views": [{"crop": {"kind": "sequence"}}]}],
    });
    let recipe: Recipe = serde_json::from_value(recipe).expect("a recipe");
    // Two samples: two patches above one another, and three side by side. The rest of a row is not valid, whatever it says.
    let places = [
        [[0i64, 0], [1, 0], [5, 5], [0, 0], [0, 0], [0, 0]],
        [[0, 0], [0, 1], [0, 2], [0, 0], [0, 0], [0, 0]],
    ];
    let valid = [[1u8, 1, 0, 0, 0, 0], [1, 1, 1, 0, 0, 0]];
    let level = |sample: u8, patch: u8, number: u8| 100 * sample + 12 * patch + number;
    let patches = |sample| {
        (0..6).flat_map(move |patch| (0..12).map(move |number| level(sample, patch, number)))
    };
    let tensors = [
        ("patches".to_owned(), (0..2).flat_map(patches).collect()),
        (
            "patches_coord".to_owned(),
            places.as_flattened().as_flattened().iter().flat_map(|at| at.to_le_bytes()).collect(),
        ),
        ("patches_valid".to_owned(), valid.concat()),
    ];
    let batch = Given { layout: Layout::new(&recipe, 2), tensors: tensors.into() };
    let sheet = Sheet::draw(&batch, &recipe, 2).expect("on the host");
    // Each as large as both together: two patches high and three wide.
    assert_eq!((sheet.width(), sheet.height()), (GAP + 6 + GAP, GAP + 2 * (4 + GAP)));
    for sample in 0..2u8 {
        for (y, x) in (0..4).flat_map(|y| (0..6).map(move |x| (y, x))) {
            let top = GAP + usize::from(sample) * sheet.row_pixels(2);
            let found = &sheet.pixels[((top + y) * sheet.width + GAP + x) * 3..][..3];
            let patch =
                if sample == 0 { (x < 2).then_some(y / 2) } else { (y < 2).then_some(x / 2) };
            let expected = match patch {
                Some(patch) => std::array::from_fn(|channel| {
                    level(sample, patch as u8, (y % 2 * 6 + x % 2 * 3 + channel) as u8)
                }),
                None => [PAPER; 3],
            };
            assert_eq!(found, expected, "{y}, {x} of {sample}");
        }
    }
}

#[test]
fn elements_come_back_as_grey_levels() {
    let scale = Scale { mean: [0.5; 3], std: [0.25; 3], fp8_scale_inv: 0.5 };
    let normal = (200.0 / 255.0 - 0.5) / 0.25;
    assert_eq!(scale.grey(Dtype::F32, 0, &f32::to_le_bytes(normal)), 200);
    assert_eq!(scale.grey(Dtype::Bf16, 1, &bf16::from_f32(normal).to_le_bytes()), 200);
    assert_eq!(scale.grey(Dtype::U8, 2, &[7]), 7);
    assert_eq!(scale.grey(Dtype::F32, 0, &f32::to_le_bytes(99.0)), 255);
    // 0x38 is 1.0: (0.5 * 0.25 + 0.5) * 255.
    assert_eq!(scale.grey(Dtype::Fp8E4m3, 0, &[0x38]), 159);
}

#[test]
fn a_box_is_outlined_within_its_view() {
    let mut sheet = Sheet { width: 12, height: 10, pixels: vec![PAPER; 12 * 10 * 3] };
    let drawn = Drawn { index: 0, corners: [1.5, 0.0, 6.0, 5.0] };
    sheet.outline([2, 3], [6, 5], &drawn);
    let painted = |x: usize, y: usize| sheet.pixels[(y * 12 + x) * 3..][..3] != [PAPER; 3];
    let found: Vec<String> =
        (0..10).map(|y| (0..12).map(|x| if painted(x, y) { '#' } else { '.' }).collect()).collect();
    let expected = [
        "............",
        "............",
        "............",
        "...#####....",
        "...#...#....",
        "...#...#....",
        "...#...#....",
        "...#####....",
        "............",
        "............",
    ];
    assert_eq!(found, expected);
}

#[test]
fn e4m3_has_its_known_values() {
    assert_eq!(e4m3(0x38), 1.0);
    assert_eq!(e4m3(0x7E), 448.0);
    assert_eq!(e4m3(0x01), 2f32.powi(-9));
    assert_eq!(e4m3(0xB8), -1.0);
}
