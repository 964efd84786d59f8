//! What is counted of samples on a device, by names of the worker's, whose dashboards read them.

use headwater_render::JPEG_IMAGES;
use metrics::counter;

const DEVICE_FAILURES: &str = "headwater_augment_device_failures_total";
const ON_DEVICE: &str = "headwater_augment_samples_on_device_total";
const WRITTEN_BY_DEVICE: &str = "headwater_augment_samples_written_by_device_total";
const BESIDE_DEVICE: &str = "headwater_augment_samples_beside_device_total";

/// Says what the metrics mean to the recorder there is.
pub fn describe_metrics() {
    metrics::describe_counter!(DEVICE_FAILURES, "GPU streams that failed and are no longer used");
    metrics::describe_counter!(ON_DEVICE, "Samples whose views a GPU's kernels have made");
    metrics::describe_counter!(
        WRITTEN_BY_DEVICE,
        "Samples whose rows a GPU has written to the part's own memory"
    );
    metrics::describe_counter!(BESIDE_DEVICE, "Samples too large for the GPU's memory");
}

/// Counts images that a GPU's kernels have decoded, from known segments and from segments that they found.
pub(crate) fn jpegs_decoded_on_device(known: u64, found: u64) {
    counter!(JPEG_IMAGES, "way" => "device").increment(known);
    counter!(JPEG_IMAGES, "way" => "device_found").increment(found);
}

/// A stream of a GPU was given up.
pub(crate) fn device_failed() {
    counter!(DEVICE_FAILURES).increment(1);
}

/// Samples were rendered by a GPU.
pub(crate) fn rendered_on_device(samples: u64) {
    counter!(ON_DEVICE).increment(samples);
}

/// Counts samples whose rows a device has written to the part's own memory.
pub(crate) fn written_by_device(samples: u64) {
    counter!(WRITTEN_BY_DEVICE).increment(samples);
}

/// A sample was rendered by the processor although there is a GPU.
pub(crate) fn rendered_beside_device() {
    counter!(BESIDE_DEVICE).increment(1);
}
