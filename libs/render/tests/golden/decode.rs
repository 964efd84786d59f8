//! Decoding equals Pillow's `Image.open(file).convert("RGB")`.

use super::fixtures::{bytes, decode, difference, path, png};

/// What is amiss in a file that is decoded is counted.
#[test]
fn a_file_with_a_flaw_is_counted_as_repaired() {
    let recorder = metrics_exporter_prometheus::PrometheusBuilder::new().build_recorder();
    let counted = |name: &str| {
        let value = |line: &str| line.rsplit(' ').next()?.parse::<u64>().ok();
        let all = || recorder.handle().render();
        let sum = |text: String| {
            let lines =
                text.lines().filter(|line| line.starts_with("headwater_augment_repaired_total"));
            lines.filter_map(value).sum::<u64>()
        };
        let before = sum(all());
        metrics::with_local_recorder(&recorder, || decode(&bytes(&format!("decode/{name}"))));
        sum(all()) - before
    };
    for name in ["without-end.png", "trailer-without-end.jpg", "warned-junk-before-scan.jpg"] {
        assert_eq!(counted(name), 1, "{name}");
    }
    for name in ["rgb.png", "baseline-420.jpg", "progressive-420.jpg"] {
        assert_eq!(counted(name), 0, "{name}");
    }
}

fn names(extension: &str) -> Vec<String> {
    let files = std::fs::read_dir(path("decode")).expect("fixtures");
    let names = files.map(|file| file.expect("a file").file_name().into_string().expect("ASCII"));
    let mut names: Vec<String> = names.filter(|name| name.ends_with(extension)).collect();
    names.sort();
    names
}

fn equals_pillow(extension: &str, at_least: usize) {
    let names = names(extension);
    assert!(names.len() >= at_least, "{} fixtures", names.len());
    for name in names {
        let image = decode(&bytes(&format!("decode/{name}")));
        let expected = png(&format!("decode/expected/{name}.png"));
        assert_eq!(image.extent(), expected.extent(), "{name}");
        let (values, level) = difference(&image.pixels(), &expected.pixels());
        assert_eq!((values, level), (0, 0), "{name}: values that differ, and by how much");
    }
}

#[test]
fn a_jpeg_has_pillows_pixels() {
    equals_pillow(".jpg", 30);
}

#[test]
fn a_png_has_pillows_pixels() {
    equals_pillow(".png", 13);
}

#[test]
fn a_webp_has_pillows_pixels() {
    equals_pillow(".webp", 8);
}

#[test]
fn a_gif_has_pillows_pixels() {
    equals_pillow(".gif", 8);
}

#[test]
fn a_bmp_has_pillows_pixels() {
    equals_pillow(".bmp", 14);
}

#[test]
fn a_tiff_has_pillows_pixels() {
    equals_pillow(".tif", 29);
}

#[test]
fn a_pnm_has_pillows_pixels() {
    [".ppm", ".pgm", ".pbm"].into_iter().for_each(|extension| equals_pillow(extension, 2));
}
