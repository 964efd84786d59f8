//! Names and help texts of the receiver's metrics.

use metrics::{Unit, describe_counter, describe_gauge, describe_histogram};

/// Describes the metrics to the recorder in force. Call once, after it is installed.
pub fn describe() {
    for (name, help) in [
        ("headwater_receiver_batches_total", "Batches made ready for the trainer"),
        ("headwater_receiver_samples_total", "Samples in those batches"),
        ("headwater_receiver_parts_total", "Parts that arrived, by link"),
        (
            "headwater_receiver_parts_on_device_total",
            "Parts that a network card wrote to a GPU's memory",
        ),
        ("headwater_receiver_substituted_samples_total", "Samples standing in for broken ones"),
        (
            "headwater_receiver_hedges_total",
            "Leases given to a further worker because one was late",
        ),
        ("headwater_receiver_duplicates_total", "Parts that came a second time and were dropped"),
    ] {
        describe_counter!(name, Unit::Count, help);
    }
    describe_counter!("headwater_receiver_bytes_total", Unit::Bytes, "Bytes of parts, by link");
    for (name, help) in [
        ("headwater_receiver_workers", "Workers with a session"),
        ("headwater_receiver_open_leases", "Leases given and not ended"),
        ("headwater_receiver_ready_batches", "Batches ready and not taken"),
        ("headwater_receiver_slots", "Slots there are"),
        ("headwater_receiver_tasks", "Sessions and comparisons of parts under way"),
        (
            "headwater_receiver_quarantined_slots",
            "Slots given back that a late writer or a GPU still holds",
        ),
    ] {
        describe_gauge!(name, Unit::Count, help);
    }
    for (name, help) in [
        ("headwater_receiver_part_seconds", "Time of a part at the worker, by stage"),
        ("headwater_receiver_stall_seconds", "Time the trainer waited for one batch"),
    ] {
        describe_histogram!(name, Unit::Seconds, help);
    }
}
