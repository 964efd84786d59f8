//! What fuzzing has found, and what it began with, replayed: `make fuzz` looks for more.

#[path = "../fuzz/doors.rs"]
mod doors;

use std::fs;
use std::path::PathBuf;

#[track_caller]
fn replay(name: &str, door: fn(&[u8])) {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus").join(name);
    let files = fs::read_dir(folder).expect("a corpus");
    let mut paths: Vec<PathBuf> = files.map(|file| file.expect("a file").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "no corpus for {name}");
    for path in paths {
        println!("{}", path.display());
        door(&fs::read(&path).expect("a file"));
    }
}

#[test]
fn shards_of_any_bytes_are_read_or_refused() {
    replay("shard", doors::shard);
}

#[test]
fn indices_of_any_bytes_fit_or_are_refused() {
    replay("idx", doors::idx);
}

#[test]
fn messages_of_any_bytes_are_strict_models_or_refused() {
    replay("message", doors::message);
}

#[test]
fn checkpoints_of_any_bytes_are_taken_over_or_refused() {
    replay("state", doors::state);
}

#[test]
fn images_of_any_bytes_are_decoded_within_bounds_or_refused() {
    replay("image", doors::image);
}

#[test]
fn frames_of_any_bytes_are_messages_or_refused() {
    replay("frame", doors::frame);
}

#[test]
fn configurations_of_any_bytes_mean_something_or_are_refused() {
    replay("config", doors::config);
}

#[test]
fn tensors_of_any_shape_reach_tensorcoms_clients_as_they_are() {
    replay("tensorcom", doors::tensorcom);
}

#[test]
fn messages_of_tensorcom_of_any_bytes_are_tensors_or_refused() {
    replay("ten", doors::ten);
}

#[test]
fn recipes_of_any_bytes_can_be_laid_out_or_are_refused() {
    replay("recipe", doors::recipe);
}

#[test]
fn parquet_of_any_bytes_is_read_or_refused() {
    replay("parquet_footer", doors::parquet_footer);
}

#[test]
fn tfrecords_of_any_bytes_are_read_or_refused() {
    replay("tfrecord", doors::tfrecord);
}

#[test]
fn indices_of_mds_of_any_bytes_are_read_or_refused() {
    replay("mds_index", doors::mds_index);
}

#[test]
fn files_of_numpy_are_read_or_refused() {
    replay("npy", doors::npy);
}

#[test]
fn fields_of_any_bytes_are_rows_or_bad_samples() {
    replay("fields", doors::fields);
}

#[test]
fn files_of_hdf5_are_read_or_refused() {
    replay("hdf5", doors::hdf5);
}

#[test]
fn metadata_of_zarr_fits_or_is_refused() {
    replay("zarr_metadata", doors::zarr_metadata);
}

#[test]
fn indices_of_tokens_fit_or_are_refused() {
    replay("tokens_idx", doors::tokens_idx);
}

#[test]
fn lines_of_any_bytes_are_records_or_refused() {
    replay("lines", doors::lines);
}

#[test]
fn lists_of_any_bytes_are_an_order_or_refused() {
    replay("order_list", doors::order_list);
}
