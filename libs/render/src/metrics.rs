//! What is counted of images, by names of the worker's, whose dashboards read them.

use headwater_jpeg::{Declined, Way};
use metrics::{Unit, counter, gauge};

use crate::decode::left::Left;

/// Images of all decoders, also of those on a GPU.
pub const JPEG_IMAGES: &str = "headwater_augment_jpeg_images_total";
const JPEG_LEFT: &str = "headwater_augment_jpeg_left_total";
const REPAIRED: &str = "headwater_augment_repaired_total";
const ENTRY_IMAGES: &str = "headwater_augment_jpeg_entry_images";
const ENTRY_BYTES: &str = "headwater_augment_jpeg_entry_bytes";

/// Says what the metrics mean to the recorder there is.
pub fn describe_metrics() {
    headwater_cache::describe_metrics();
    metrics::describe_counter!(JPEG_IMAGES, "JPEGs decoded, by the way that their bits were read");
    metrics::describe_counter!(JPEG_LEFT, "JPEGs left to libjpeg-turbo, and why");
    metrics::describe_counter!(REPAIRED, "Images decoded in which something was amiss");
    metrics::describe_gauge!(ENTRY_IMAGES, "Images whose entry points are kept");
    metrics::describe_gauge!(ENTRY_BYTES, Unit::Bytes, "Used bytes of augment.jpeg_entries_bytes");
}

/// Counts an image. Labels are literals, so that no memory is taken for them.
pub(crate) fn jpeg_decoded(way: Way) {
    match way {
        Way::One => counter!(JPEG_IMAGES, "way" => "one"),
        Way::Segments => counter!(JPEG_IMAGES, "way" => "segments"),
        Way::Interleaved => counter!(JPEG_IMAGES, "way" => "interleaved"),
        Way::Lanes => counter!(JPEG_IMAGES, "way" => "lanes"),
        Way::Speculative => counter!(JPEG_IMAGES, "way" => "speculative"),
    }
    .increment(1);
}

/// Counts an image that our decoder left to libjpeg-turbo.
pub(crate) fn jpeg_left(why: &Left) {
    counter!(JPEG_IMAGES, "way" => "libjpeg_turbo").increment(1);
    match why {
        Left::Declined(Declined::Header(_)) => counter!(JPEG_LEFT, "reason" => "header"),
        Left::Declined(Declined::Markers) => counter!(JPEG_LEFT, "reason" => "markers"),
        Left::Declined(Declined::Damage) => counter!(JPEG_LEFT, "reason" => "damage"),
        Left::Declined(Declined::Range) => counter!(JPEG_LEFT, "reason" => "range"),
        Left::Declined(Declined::Entry) => counter!(JPEG_LEFT, "reason" => "entry"),
        Left::TooLarge => counter!(JPEG_LEFT, "reason" => "too_large"),
        Left::Reduced => counter!(JPEG_LEFT, "reason" => "reduced"),
    }
    .increment(1);
}

/// Counts an image that was decoded though something was amiss in its file.
pub(crate) fn repaired(format: &'static str) {
    counter!(REPAIRED, "format" => format).increment(1);
}

pub(crate) fn entry_table(images: usize, bytes: u64) {
    gauge!(ENTRY_IMAGES).set(images as f64);
    gauge!(ENTRY_BYTES).set(bytes as f64);
}
