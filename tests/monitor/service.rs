//! What the processes of a small service show, and what the monitor makes of it.

use serde_json::{Value, json};

/// A rank that waits for 40 % of its time, mostly for decoding.
pub(crate) fn rank(job: &str, rank: u32, second: f64) -> String {
    let counted = |per_second: f64| (per_second * second).floor();
    format!(
        "# HELP headwater_receiver_info The receiver\n\
         # TYPE headwater_receiver_info gauge\n\
         headwater_receiver_info{{job=\"{job}\",rank=\"{rank}\",world_size=\"2\"}} 1\n\
         headwater_receiver_waited_seconds {}\n\
         headwater_receiver_waited_by_cause_seconds{{cause=\"decode\"}} {}\n\
         headwater_receiver_waited_by_cause_seconds{{cause=\"read\"}} {}\n\
         headwater_receiver_waited_by_cause_seconds{{cause=\"nobody\"}} 0.25\n\
         headwater_receiver_samples_total {}\n\
         headwater_receiver_batches_total {}\n\
         headwater_receiver_bytes_total{{link=\"shm\"}} {}\n\
         headwater_receiver_bytes_total{{link=\"tcp\"}} {}\n\
         headwater_receiver_parts_total{{link=\"shm\"}} {}\n\
         headwater_receiver_parts_total{{link=\"tcp\"}} {}\n\
         headwater_link_parts_dropped_total{{link=\"tcp\",reason=\"lease\"}} 4\n\
         headwater_receiver_ready_batches 1\n\
         headwater_receiver_slots 5\n\
         headwater_receiver_workers 2\n\
         headwater_receiver_epoch 3\n\
         headwater_receiver_step 1700\n\
         headwater_receiver_weight{{dataset=\"photos\"}} 0.75\n\
         headwater_receiver_weight{{dataset=\"wiki\"}} 0.25\n\
         headwater_receiver_substituted_samples_total 6\n\
         headwater_receiver_hedges_total 0\n\
         headwater_receiver_duplicates_total 0\n\
         headwater_receiver_parts_shared_total 0\n",
        0.25 + 0.4 * second,
        0.3 * second,
        0.1 * second,
        counted(600.0),
        counted(50.0),
        counted(5e7),
        counted(5e6),
        counted(400.0),
        counted(40.0),
    )
}

/// A worker of four threads that are busy for nine tenths of their time.
pub(crate) fn worker(name: &str, second: f64) -> String {
    let parts = (200.0 * second).floor();
    let stage = |stage: &str, ms: f64| {
        format!(
            "headwater_augment_{stage}_seconds_bucket{{le=\"+Inf\"}} {parts}\n\
             headwater_augment_{stage}_seconds_sum {}\n\
             headwater_augment_{stage}_seconds_count {parts}\n",
            parts * ms / 1000.0
        )
    };
    let stages = [("read", 2.0), ("render", 18.0), ("decode", 11.0), ("deliver", 0.5)];
    let stages: String = stages.iter().map(|(name, ms)| stage(name, *ms)).collect();
    format!(
        "headwater_augment_info{{worker=\"{name}\",backend=\"cpu avx512\"}} 1\n\
         headwater_augment_pool_threads 4\n\
         headwater_augment_pool_busy_seconds {}\n\
         headwater_augment_samples_total{{link=\"shm\"}} {}\n\
         headwater_augment_queue_parts 2\n\
         headwater_augment_sessions{{link=\"shm\"}} 2\n\
         headwater_augment_share_bytes 7000000\n\
         headwater_augment_share_parts 7\n\
         headwater_augment_share_parts_shared_total{{how=\"kept\"}} 12\n\
         headwater_augment_substitutions_total 3\n\
         headwater_storage_read_samples_total{{way=\"grpc\"}} {}\n\
         headwater_storage_read_bytes_total{{way=\"grpc\"}} {}\n{stages}",
        3.6 * second,
        (600.0 * second).floor(),
        (600.0 * second).floor(),
        (6e7 * second).floor(),
    )
}

/// A storage node with a cache that has nine tenths of what is asked for.
pub(crate) fn storage(second: f64) -> String {
    let counted = |per_second: f64| (per_second * second).floor();
    format!(
        "headwater_storage_info{{node=\"s0\"}} 1\n\
         headwater_storage_reads_in_flight_limit 256\n\
         headwater_storage_reads_in_flight 3\n\
         headwater_storage_reads_waiting 0\n\
         headwater_storage_served_samples_total {}\n\
         headwater_storage_served_bytes_total {}\n\
         headwater_storage_source_bytes_total {}\n\
         headwater_cache_bytes{{cache=\"node\",level=\"memory\"}} 1500000000\n\
         headwater_cache_bytes_limit{{cache=\"node\",level=\"memory\"}} 4000000000\n\
         headwater_cache_hits_total{{cache=\"node\",level=\"memory\"}} {}\n\
         headwater_cache_misses_total{{cache=\"node\"}} {}\n",
        counted(500.0),
        counted(6e7),
        counted(5e6),
        1800 + 9 * counted(1.0) as u64,
        200 + counted(1.0) as u64,
    )
}

/// The report of one process of each kind, at these addresses, and of one that is gone.
pub(crate) fn expected([rank, worker, storage]: [&str; 3], gone: &str) -> Value {
    json!({
        "at_unix_ms": null,
        "window_s": 5.0,
        "job": "run7",
        "summary": {
            "samples_per_s": 600.0,
            "batches_per_s": 50.0,
            "wait_share": 0.4,
            "verdict": { "stage": "augment", "share": 0.75, "text": null, "remedy": null },
        },
        "wait_by_cause": [
            { "cause": "decode", "share_of_time": 0.3, "share_of_wait": 0.75 },
            { "cause": "read", "share_of_time": 0.1, "share_of_wait": 0.25 },
        ],
        "tiers": {
            "storage": { "nodes": 1, "samples_per_s": 600.0, "bytes_per_s": 6e7 },
            "augment": {
                "workers": 1, "threads": 4, "busy_share": 0.9, "samples_per_s": 600.0, "queue_parts": 2,
            },
            "receiver": { "ranks": 1, "samples_per_s": 600.0, "ready_batches": 1, "slots": 5 },
        },
        "ranks": [{
            "address": rank, "name": "run7 rank 0", "rank": 0, "up": true,
            "samples_per_s": 600.0, "batches_per_s": 50.0, "wait_share": 0.4,
            "wait_by_cause": { "decode": 0.3, "read": 0.1 },
            "ready_batches": 1, "slots": 5, "workers": 2, "epoch": 3, "step": 1700,
            "weights": { "photos": 0.75, "wiki": 0.25 },
            "bytes_per_s_by_link": { "shm": 5e7, "tcp": 5e6 },
            "bad_samples": 6, "hedges": 0, "duplicates": 0, "parts_shared": 0,
        }],
        "workers": [{
            "address": worker, "name": "w0", "up": true, "backend": "cpu avx512", "threads": 4,
            "busy_share": 0.9, "samples_per_s": 600.0, "queue_parts": 2, "sessions": 2,
            "reads_per_s_by_way": { "grpc": 600.0 }, "not_local": null,
            "part_ms": { "read": 2.0, "render": 18.0, "decode": 11.0, "deliver": 0.5 },
            "share_bytes": 7_000_000, "share_parts": 7, "caches": [], "parts_shared": 12,
            "bad_samples": 3,
        }],
        "storage": [{
            "address": storage, "name": "s0", "up": true, "samples_per_s": 500.0, "bytes_per_s": 6e7,
            "reads_in_flight": 3, "reads_waiting": 0, "source_bytes_per_s": 5e6,
            "caches": [{
                "level": "memory", "bytes": 1_500_000_000_u64, "limit": 4_000_000_000_u64,
                "hit_share": 0.9,
            }],
        }],
        "links": [
            { "link": "shm", "bytes_per_s": 5e7, "parts_per_s": 400.0, "dropped": 0 },
            { "link": "tcp", "bytes_per_s": 5e6, "parts_per_s": 40.0, "dropped": 4 },
        ],
        "troubles": [format!("{gone}: connection refused")],
        "history": null,
    })
}

/// Two ranks, two workers and a storage node on a screen of 80 x 24, without the clock, bars and curves.
pub(crate) const SCREEN: &str = "\
\x20headwater monitor  job run7, means of 5 s
 augment: 75 % of the wait; 2 more workers of this size
 2 workers are busy, and the trainer could take 1.7 times as many samples:
 start 2 more, or make the recipe cheaper.

 storage   1 node                1.20k samples/s  120 MB/s
 augment   2 workers, 8 threads  1.20k samples/s  90 % busy, 4 parts queued
 ranks     2 ranks               1.20k samples/s  40 % waiting, 2 of 10 ready

 waiting for (40 % of the time)          samples/s 1.20k
 decode                           30 %
 read                             10 %
                                         waiting 40 %



  ranks 2  workers 2  storage 1  caches 1  links 2  shared 2  weights 2
 rank         samples/s  wait  most for  ready  workers  epoch  step  bad
 run7 rank 0        600  40 %  decode      1/5        2      3  1700    6
 run7 rank 1        600  40 %  decode      1/5        2      3  1700    6



 q quit   tab next table   ↑ ↓ scroll
";
