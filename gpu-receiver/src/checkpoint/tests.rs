use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use headwater_core::sampler::{Sampler, SamplerConfig};
use headwater_core::{Digest, Manifest, ShardEntry};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

fn state(step: u64) -> State {
    state_of("d", step)
}

/// A state of the stream of a dataset.
fn state_of(dataset: &str, step: u64) -> State {
    let shard = ShardEntry { name: "a.tar".into(), samples: 1000, bytes: 1, digest: Digest(1) };
    let manifest = Manifest::new(dataset.into(), vec![], vec![shard]).expect("a manifest");
    let config = SamplerConfig::new(1, 1, 0, 10);
    let mut sampler = Sampler::new(config, vec![Arc::new(manifest)]).expect("a sampler");
    sampler.state(0, step).expect("a state")
}

#[test]
fn what_was_written_is_read_again_and_the_newest_three_stay() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = CheckpointFolder::new(dir.path().join("new"), 3);
    assert!(folder.newest().expect("no folder is no error").is_none());
    for step in [5, 7, 10, 20] {
        folder.write(step, &state(step)).expect("written");
    }
    let names: Vec<_> =
        folder.list(step_of).expect("listed").into_iter().map(|(step, _)| step).collect();
    assert_eq!(names, [7, 10, 20]);
    let (path, newest) = folder.newest().expect("read").expect("there is one");
    assert!(path.ends_with("dl_state_000000020.json"), "{}", path.display());
    assert_eq!(newest, state(20));
}

#[test]
fn the_newest_is_the_one_written_last_whatever_the_trainer_counts() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = CheckpointFolder::new(dir.path(), 2);
    // The trainer's count begins again at 0 after a resume.
    for (step, place) in [(4, 5), (8, 9), (0, 10), (4, 14)] {
        folder.write(step, &state(place)).expect("written");
    }
    let (path, newest) = folder.newest().expect("read").expect("there is one");
    assert_eq!((newest.step, newest), (14, state(14)));
    assert!(path.ends_with("dl_state_000000004.json"), "{}", path.display());
    assert!(dir.path().join("dl_state_000000000.json").exists());
    assert!(!dir.path().join("dl_state_000000008.json").exists());
}

#[test]
fn torn_and_foreign_files_are_passed_over() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = CheckpointFolder::new(dir.path(), 10);
    let whole = folder.write(1, &state(1)).expect("written");
    let bytes = fs::read(&whole).expect("read");
    fs::write(dir.path().join("dl_state_000000002.json"), &bytes[..bytes.len() / 2])
        .expect("a torn file");
    fs::write(dir.path().join("dl_state_000000003.json"), b"{\"loader\": \"other\"}")
        .expect("a foreign file");
    fs::write(dir.path().join("dl_state_x.json"), b"?").expect("another name");
    fs::write(dir.path().join(".dl_state_000000009.json.tmp"), b"?").expect("a leftover");
    let (path, _) = folder.newest().expect("read").expect("there is one");
    assert_eq!(path, whole);
    fs::remove_file(&whole).expect("the whole one is lost");
    let error = folder.newest().expect_err("to begin at the start is not to resume").to_string();
    assert!(error.contains("none of the 2 checkpoints"), "{error}");
    assert!(error.contains("dl_state_000000003.json is not a checkpoint"), "{error}");
    assert!(error.contains("set receiver.resume to \"fresh\""), "{error}");
    folder.set_broken_aside().expect("named anew");
    assert!(folder.newest().expect("nothing is broken any more").is_none());
    let aside = dir.path().join("dl_state_000000002.json.broken");
    let error = read(&aside).expect_err("torn");
    assert!(error.to_string().contains("dl_state_000000002.json.broken is not a checkpoint"));
}

#[test]
fn what_is_named_like_a_checkpoint_and_is_no_file_is_passed_over() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = CheckpointFolder::new(dir.path(), 3);
    folder.write(5, &state(5)).expect("written");
    let mode = Mode::RUSR | Mode::WUSR;
    let pipe = dir.path().join("dl_state_000000007.json");
    mknodat(CWD, pipe, FileType::Fifo, mode, 0).expect("a pipe");
    fs::create_dir(dir.path().join("dl_state_000000009.json")).expect("a folder");
    let (sent, heard) = std::sync::mpsc::channel();
    // In a thread: whoever opened the pipe would wait for ever.
    std::thread::spawn(move || {
        let _ = sent.send(folder.newest().map_err(|error| error.to_string()));
    });
    let newest = heard.recv_timeout(std::time::Duration::from_secs(60)).expect("no wait");
    assert_eq!(newest.expect("read").expect("there is one").1, state(5));
}

#[test]
fn an_attempt_that_fails_leaves_nothing_behind() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = CheckpointFolder::new(dir.path(), 3);
    for step in 1..4 {
        // No file can take a folder's name.
        let taken = dir.path().join(format!("dl_state_00000000{step}.json"));
        fs::create_dir(&taken).expect("a folder");
        folder.write(step, &state(step)).expect_err("the name is taken");
        fs::remove_dir(&taken).expect("a folder");
    }
    assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 0);
}

#[test]
fn what_is_written_stays_beside_checkpoints_of_larger_steps() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = CheckpointFolder::new(dir.path(), 2);
    for step in [9000, 9500, 500] {
        folder.write(step, &state(1)).expect("written");
    }
    assert!(dir.path().join("dl_state_000000500.json").exists());
}

/// The names in a folder, in their order.
fn names(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).expect("listed").map(|entry| entry.expect("an entry"));
    let mut names: Vec<_> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort_unstable();
    names
}

#[test]
fn after_a_return_the_later_checkpoints_are_set_aside_and_the_newest_is_the_last_written() {
    let dir = tempfile::tempdir().expect("a folder");
    let before = CheckpointFolder::new(dir.path(), 3);
    for step in [4, 8, 12] {
        before.write(step, &state(step)).expect("written");
    }
    let folder = CheckpointFolder::new(dir.path(), 3);
    folder.newest().expect("read");
    assert!(folder.is_ahead_of(&state(4)).expect("read"));
    assert!(!folder.is_ahead_of(&state(12)).expect("read"));
    // The trainer numbers this one as it did an abandoned one.
    folder.write(8, &state(6)).expect("written");
    let aside = ["dl_state_000000008.json.abandoned-2", "dl_state_000000012.json.abandoned-3"];
    let expected = ["dl_state_000000004.json", "dl_state_000000008.json", aside[0], aside[1]];
    assert_eq!(names(dir.path()), expected);
    assert_eq!(read(&dir.path().join(aside[0])).expect("whole").step, 8);
    let (_, newest) = folder.newest().expect("read").expect("there is one");
    assert_eq!(newest, state(6));
    // The new lineage passes the place of the abandoned one.
    folder.write(14, &state(14)).expect("written");
    let written = |name: &str| read(&dir.path().join(name)).expect("whole").written;
    let of = |lineage, sequence| Some(Written { lineage, sequence });
    assert_eq!(written("dl_state_000000004.json"), of(1, 1));
    assert_eq!(written("dl_state_000000008.json"), of(2, 4));
    assert_eq!(written("dl_state_000000014.json"), of(2, 5));
}

#[test]
fn of_the_files_set_aside_as_many_stay_as_of_the_others() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = CheckpointFolder::new(dir.path(), 2);
    for step in [1, 9, 2, 9, 3, 9, 4] {
        folder.write(step, &state(step)).expect("written");
    }
    let nine = ["dl_state_000000009.json.abandoned-4", "dl_state_000000009.json.abandoned-6"];
    let expected = ["dl_state_000000003.json", "dl_state_000000004.json", nine[0], nine[1]];
    assert_eq!(names(dir.path()), expected);
}

#[test]
fn files_of_earlier_releases_are_read_and_are_older_than_what_is_written_now() {
    let dir = tempfile::tempdir().expect("a folder");
    for (step, place) in [(7, 20), (9, 10)] {
        let json = serde_json::to_string(&state(place)).expect("plain data");
        assert!(!json.contains("written") && !json.contains("lineage"), "{json}");
        fs::write(dir.path().join(file_name(step)), json).expect("written");
    }
    let folder = CheckpointFolder::new(dir.path(), 9);
    let (path, newest) = folder.newest().expect("read").expect("there is one");
    assert_eq!(newest, state(20));
    assert!(path.ends_with("dl_state_000000007.json"), "{}", path.display());
    folder.write(15, &state(15)).expect("written");
    let (_, newest) = folder.newest().expect("read").expect("there is one");
    assert_eq!(newest, state(15));
    let expected = [
        "dl_state_000000007.json.abandoned-0",
        "dl_state_000000009.json",
        "dl_state_000000015.json",
    ];
    assert_eq!(names(dir.path()), expected);
}

#[test]
fn a_run_that_another_one_has_gone_back_behind_writes_nothing_there() {
    let dir = tempfile::tempdir().expect("a folder");
    let left = CheckpointFolder::new(dir.path(), 3);
    for step in [4, 8] {
        left.write(step, &state(step)).expect("written");
    }
    let next = CheckpointFolder::new(dir.path(), 3);
    next.newest().expect("read");
    next.write(6, &state(6)).expect("written");
    let before = names(dir.path());
    let error = left.write(12, &state(12)).expect_err("of an abandoned lineage").to_string();
    assert!(error.contains("has checkpoints of lineage 2, and this run has lineage 1"), "{error}");
    assert!(error.contains("receiver.checkpoint_dir"), "{error}");
    assert_eq!(names(dir.path()), before);
}

#[test]
fn streams_that_share_a_folder_leave_each_others_checkpoints_alone() {
    let dir = tempfile::tempdir().expect("a folder");
    let [training, validation] = [0, 1].map(|_| CheckpointFolder::new(dir.path(), 2));
    for step in [10, 20, 30] {
        training.write(step, &state(step)).expect("written");
        // Validation begins anew each time.
        for place in [1, 2] {
            validation.write(place, &state_of("v", place)).expect("written");
        }
    }
    let both = ["1", "2"].map(|step| format!("dl_state_00000000{step}.json"));
    let kept = ["20", "30"].map(|step| format!("dl_state_0000000{step}.json"));
    let live: Vec<_> = names(dir.path()).into_iter().filter(|n| n.ends_with("json")).collect();
    assert_eq!(live, [both, kept].concat());
    // The stream that was written last is the one that is resumed.
    training.write(40, &state(40)).expect("written");
    let reader = CheckpointFolder::new(dir.path(), 2);
    assert_eq!(reader.newest().expect("read").expect("there is one").1, state(40));
    validation.write(3, &state_of("v", 3)).expect("written");
    assert_eq!(reader.newest().expect("read").expect("there is one").1, state_of("v", 3));
    // A name that the other stream has: its file is kept under another.
    validation.write(40, &state_of("v", 4)).expect("written");
    let aside = names(dir.path()).into_iter().filter(|n| n.contains("40.json.abandoned"));
    let states = aside.map(|name| read(&dir.path().join(name)).expect("whole").step);
    assert_eq!(states.collect::<Vec<_>>(), [40]);
}

#[test]
fn two_writers_of_one_name_do_not_write_into_one_file() {
    let dir = tempfile::tempdir().expect("a folder");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let folder = CheckpointFolder::new(dir.path(), 1);
                for _ in 0..50 {
                    folder.write(1, &state(1)).expect("written");
                }
            });
        }
    });
    assert_eq!(names(dir.path()), ["dl_state_000000001.json"]);
}

#[test]
fn a_rank_that_reads_while_rank_0_writes_always_finds_a_checkpoint() {
    let dir = tempfile::tempdir().expect("a folder");
    let writer = CheckpointFolder::new(dir.path(), 1);
    writer.write(0, &state(0)).expect("written");
    let reads = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            // On a busy machine the reader may have its first turn late.
            for turn in (1..).take_while(|turn| *turn < 200 || reads.load(Relaxed) < 50) {
                // Forward, where the file before is removed, and back, where it is renamed.
                let step = 10 * (turn % 4);
                writer.write(step, &state(step)).expect("written");
            }
        });
        while !writing.is_finished() {
            let reader = CheckpointFolder::new(dir.path(), 1);
            assert!(reader.newest().expect("one can be read").is_some(), "from the start");
            reads.fetch_add(1, Relaxed);
        }
    });
    assert!(reads.into_inner() >= 50, "nothing was read");
}

/// A run on terms B, which resumed from a file of terms A where a later lineage had begun.
#[test]
fn who_returns_to_earlier_terms_writes_there_again() {
    let dir = tempfile::tempdir().expect("a folder");
    let first = CheckpointFolder::new(dir.path(), 3);
    for step in [4, 8, 6] {
        first.write(step, &state(step)).expect("written");
    }
    let on_other_terms = CheckpointFolder::new(dir.path(), 3);
    on_other_terms.newest().expect("read");
    on_other_terms.write(7, &state_of("other", 7)).expect("written");
    let back = CheckpointFolder::new(dir.path(), 3);
    let (_, resumed) = back.newest().expect("read").expect("there is one");
    assert_eq!(resumed, state_of("other", 7));
    back.write(9, &state(9)).expect("no other run has gone back there since");
    let (_, newest) = back.newest().expect("read").expect("there is one");
    assert_eq!(newest, state(9));
}

#[test]
fn who_has_resumed_on_other_terms_and_goes_back_is_behind_the_file_that_it_resumed_from() {
    let dir = tempfile::tempdir().expect("a folder");
    CheckpointFolder::new(dir.path(), 3).write(12, &state(12)).expect("written");
    let folder = CheckpointFolder::new(dir.path(), 3);
    let elsewhere = state_of("other", 10);
    assert!(!folder.is_ahead_of(&elsewhere).expect("read"), "another loader's");
    folder.newest().expect("read");
    assert!(folder.is_ahead_of(&elsewhere).expect("read"), "the run goes on from there");
}

#[test]
fn what_another_stream_has_set_aside_stays() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = CheckpointFolder::new(dir.path(), 1);
    for step in [8, 4] {
        folder.write(step, &state(step)).expect("written");
    }
    for step in [9, 3, 9, 2, 9, 1] {
        folder.write(100 + step, &state_of("other", step)).expect("written");
    }
    let aside: Vec<_> =
        names(dir.path()).into_iter().filter(|name| name.contains(ABANDONED)).collect();
    assert_eq!(aside.len(), 2, "{aside:?}");
    assert!(aside[0].starts_with("dl_state_000000008.json"), "{aside:?}");
}

#[test]
fn a_file_that_a_killed_writer_left_half_written_goes_after_an_hour() {
    let dir = tempfile::tempdir().expect("a folder");
    let folder = CheckpointFolder::new(dir.path(), 3);
    let left = ["0123456789abcdef", "0123456789abcde0"]
        .map(|unique| dir.path().join(format!(".dl_state_000000009.json.{unique}.tmp")));
    for path in &left {
        fs::write(path, b"{").expect("written");
    }
    let old = std::time::SystemTime::now() - WRITING_MAX - Duration::from_secs(60);
    File::options().write(true).open(&left[0]).and_then(|f| f.set_modified(old)).expect("older");
    folder.write(4, &state(4)).expect("written");
    assert_eq!(left.map(|path| path.exists()), [false, true]);
}
