//! The tests of the whole in one program: it is linked once, and its tests run side by side.

mod access;
mod any_order;
mod aspect_buckets;
mod autoscale;
mod batch_view;
mod bench_report;
mod broken_libraries;
mod chaos;
mod cli;
mod configuration;
mod cores;
mod crowd;
mod cuda_link;
mod cut_links;
mod datasets;
mod decoded_cache;
mod discovery;
mod doctor;
mod emulated_cuda;
mod emulated_verbs;
#[path = "support/emulation.rs"]
mod emulation;
mod fanout;
mod fields;
mod fp8_scaling;
mod full_disks;
mod fuzz_corpora;
mod gpu_run;
mod gpu_worker;
mod host_share;
mod hosts;
#[allow(dead_code, reason = "its own tests use more")]
#[path = "../storage-tier/src/source/tests/hub.rs"]
mod hub;
mod keys;
mod many_ranks;
mod metrics;
mod monitor;
mod one_epoch;
mod order_list;
mod passing_errors;
mod plan;
mod rdma_epochs;
mod rdma_hosts;
mod resume;
mod rough_network;
mod run_leaves_nothing_behind;
#[allow(dead_code, reason = "its own tests use more")]
#[path = "../storage-tier/src/source/tests/s3.rs"]
mod s3;
#[allow(dead_code, reason = "its own tests use more")]
#[path = "../storage-tier/src/source/tests/server.rs"]
mod server;
mod sizing;
mod stalls;
mod support;
mod traces;
#[allow(dead_code, reason = "its own tests use more")]
#[path = "tidy/tree.rs"]
mod tree;
#[path = "../storage-tier/tests/support/unfinished.rs"]
mod unfinished;
