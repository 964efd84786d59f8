//! Trainers that are killed and started again on another number of ranks.

use std::path::Path;

use headwater_receiver::{CheckpointConfig, Position, ReceiverConfig};
use rustix::process::Signal;

use crate::support;
use crate::support::fleet::Fleet;
use crate::support::trainer::{Ranks, Stream};

const GLOBAL_BATCH: u32 = 24;
const EPOCHS: u32 = 2;

/// Ranks that share a folder of checkpoints and go on from the newest there.
fn start(fleet: &mut Fleet, world_size: u32, life: usize, checkpoints: &Path, ms: u32) -> Ranks {
    let config = ReceiverConfig {
        world_size,
        batch_samples: GLOBAL_BATCH / world_size,
        epochs: EPOCHS,
        links: vec!["shm".into()],
        ..fleet.config()
    };
    let set = [
        format!("receiver.checkpoint_dir={}", checkpoints.display()),
        "receiver.checkpoint_every_steps=2".to_owned(),
        "receiver.resume=true".to_owned(),
    ];
    let mut extra = vec!["--step-ms".to_owned(), ms.to_string()];
    extra.extend(support::set_flags(set));
    Ranks::start(&config, fleet.dir(), &format!("life-{life}"), &extra)
}

/// Waits until rank 0 has taken `batches` batches and the others as many, then kills all. Ranks
/// that train stay together; these do so by holding back rank 0, which writes the checkpoints.
fn kill_after(ranks: &mut Ranks, batches: usize) {
    ranks.wait_for(0, batches);
    ranks.signal(0, Signal::STOP);
    let batches = ranks.taken(0);
    for rank in 1..ranks.len() {
        ranks.wait_for(rank, batches);
    }
    ranks.kill();
}

/// The step of the newest checkpoint; 0 without one.
fn newest(checkpoints: &Path) -> usize {
    let names = std::fs::read_dir(checkpoints).into_iter().flatten().flatten();
    let step = |name: &str| name.strip_prefix("dl_state_")?.strip_suffix(".json")?.parse().ok();
    names.filter_map(|entry| step(entry.file_name().to_str()?)).max().unwrap_or(0)
}

#[test]
fn a_trainer_killed_and_resumed_on_other_ranks_goes_on_with_exactly_the_next_batch() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 2);
    let folder = tempfile::tempdir().expect("a folder");
    let mut ranks = start(&mut fleet, 2, 9, &folder.path().join("undisturbed"), 0);
    ranks.finish();
    let undisturbed = ranks.stream();
    assert_eq!(undisturbed.len(), 2 * (256 / GLOBAL_BATCH as usize));
    assert!(undisturbed.values().all(|batch| batch.len() == GLOBAL_BATCH as usize));

    let seed = std::time::SystemTime::UNIX_EPOCH.elapsed().expect("a clock").subsec_nanos();
    println!("killed after batches drawn from {seed}");
    let checkpoints = folder.path().join("killed");
    let places: Vec<_> = undisturbed.keys().copied().collect();
    let mut taken = Stream::new();
    let mut at = 0;
    for (life, world_size) in [2, 3, 1].into_iter().enumerate() {
        // Each of the first two lives ends within its own third of the stream.
        let batches = 3 + (seed as usize >> (life * 8)) % 5;
        let resumed = newest(&checkpoints);
        let mut ranks = start(&mut fleet, world_size, life, &checkpoints, 30);
        if life < 2 {
            kill_after(&mut ranks, batches);
        } else {
            ranks.finish();
        }
        let stream = ranks.stream();
        let first = *stream.keys().next().expect("a batch");
        let began = places.iter().position(|place| *place == first).expect("a place of the job");
        assert_eq!(began, resumed, "life {life} does not begin at the newest checkpoint");
        assert!((began..=began + 2).contains(&at), "the newest checkpoint of {at} is {began}");
        let expected = &places[began..began + stream.len()];
        assert!(stream.keys().eq(expected), "life {life} leaves out a batch");
        at = began + stream.len();
        for (place, batch) in stream {
            assert!(batch == undisturbed[&place], "life {life}: {place:?} differs");
            taken.insert(place, batch);
        }
    }
    assert!(taken == undisturbed, "not all batches were taken");
}

/// What was written there before is of the generation that the run has left.
#[test]
fn a_run_that_has_gone_back_writes_the_checkpoints_of_its_new_generation() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoints = CheckpointConfig {
        checkpoint_dir: folder.path().to_owned(),
        checkpoint_every_steps: 4,
        ..CheckpointConfig::default()
    };
    let config = ReceiverConfig { checkpoints, links: vec!["tcp".into()], ..fleet.config() };
    let receiver = Fleet::open(config);
    let take = |batches: usize| {
        (0..batches).for_each(|_| drop(receiver.next_batch().expect("the stream goes on")));
    };
    let written = || newest(folder.path());
    let lose = || std::fs::remove_file(folder.path().join("dl_state_000000004.json"));
    take(4);
    let state = receiver.state().expect("a place of the stream");
    take(2);
    assert_eq!(written(), 4);
    lose().expect("it is there");
    receiver.seek(Position { epoch: 0, step: 2 }).expect("a place");
    take(3);
    assert_eq!(written(), 4, "the stream came there again");
    lose().expect("it is there");
    receiver.restore(state, Vec::new()).expect("a state of this stream");
    take(1);
    assert_eq!(written(), 4, "other batches may follow than before");
}

/// The checkpoint of an epoch's end is that of the next one's start, whose weights may be set in between.
#[test]
fn weights_that_are_set_at_an_epochs_end_are_in_the_checkpoint_there() {
    let mut fleet = Fleet::start(support::data("photos/photos-*.tar"), 1);
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoints = CheckpointConfig {
        checkpoint_dir: folder.path().to_owned(),
        checkpoint_every_steps: 4,
        ..CheckpointConfig::default()
    };
    let config = ReceiverConfig {
        batch_samples: 64,
        epochs: 2,
        checkpoints,
        links: vec!["tcp".into()],
        ..fleet.config()
    };
    let receiver = Fleet::open(config);
    while receiver.next_batch().expect("the stream goes on").is_some() {}
    let file = folder.path().join("dl_state_000000004.json");
    std::fs::remove_file(&file).expect("written at the end of the epoch");
    receiver.set_weights(vec![1.0]).expect("one for each dataset");
    drop(receiver.next_batch().expect("the stream goes on"));
    assert!(file.exists(), "not written again with the weights that follow");
}
