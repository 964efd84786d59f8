//! `index`: DALI's index beside every shard.

use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;

use super::program::{Place, TRAIN, data, ended, refused};
use super::tar_walk;

/// Nobody in particular; root may write everywhere.
const NOBODY: u32 = 65534;

fn read(place: &Place, number: u32) -> Vec<u8> {
    fs::read(place.in_hub(TRAIN, &format!("photos-{number:06}.idx"))).expect("an index")
}

#[test]
fn indices_are_written_where_none_fit_and_equal_dalis() {
    let place = Place::with_photos();
    let dali = fs::read(data("photos/photos-000000.idx")).unwrap();
    let binary = fs::read(data("photos/photos-000002.idx")).unwrap();
    fs::remove_file(place.in_hub(TRAIN, "photos-000000.idx")).unwrap();
    // Of another shard.
    fs::write(place.in_hub(TRAIN, "photos-000003.idx"), &dali).unwrap();
    let said = place.printed(&["datasets", "index", "photos"]);
    assert_eq!(
        said,
        format!("{TRAIN}: 3 written, 0 up to date, 1 of another form left as they are (--force)\n")
    );
    assert_eq!(read(&place, 0), dali);
    for number in [1, 3] {
        let shard = place.in_hub(TRAIN, &format!("photos-{number:06}.tar"));
        assert_eq!(String::from_utf8(read(&place, number)).unwrap(), tar_walk::dali_idx(&shard));
    }
    assert_eq!(read(&place, 2), binary);
}

#[test]
fn what_is_up_to_date_is_left_alone_unless_forced() {
    let place = Place::with_photos();
    place.printed(&["datasets", "index"]);
    let inode = |number| {
        let idx = place.in_hub(TRAIN, &format!("photos-{number:06}.idx"));
        fs::metadata(idx).unwrap().ino()
    };
    let before: Vec<u64> = (0..4).map(inode).collect();
    let said = place.printed(&["datasets", "index"]);
    assert!(said.contains("0 written, 3 up to date"), "{said}");
    assert_eq!((0..4).map(inode).collect::<Vec<_>>(), before);
    let said = place.printed(&["datasets", "index", "--force"]);
    assert!(said.contains("4 written"), "{said}");
    let shard = place.in_hub(TRAIN, "photos-000002.tar");
    assert_eq!(String::from_utf8(read(&place, 2)).unwrap(), tar_walk::dali_idx(&shard));
}

#[test]
fn shards_outside_the_hub_are_indexed_by_their_pattern() {
    let place = Place::with_photos();
    let dataset = format!("mine={}", place.in_hub(TRAIN, "photos-00000{1,3}.tar").display());
    let said = place.run_with(&[], &["datasets", "index", "--dataset", &dataset]).stdout;
    assert_eq!(said, "mine: 2 written, 0 up to date\n");
}

#[test]
fn a_broken_shard_is_named_and_the_others_are_indexed() {
    let place = Place::with_photos();
    place.put(TRAIN, "bad/truncated.tar");
    let ended = place.run(&["datasets", "index"]);
    assert!(ended.stdout.contains("truncated.tar") && ended.stdout.contains("at byte 12288"));
    assert!(ended.stdout.contains("2 written"), "{}", ended.stdout);
    refused(&ended, &["broken and without a new index: 1 shard, named above"]);
    assert!(!place.in_hub(TRAIN, "truncated.idx").exists());
}

#[test]
fn a_folder_that_cannot_be_written_to_is_named() {
    let place = Place::with_photos();
    let folder = place.in_hub(TRAIN, "");
    fs::set_permissions(&folder, Permissions::from_mode(0o555)).unwrap();
    let hub = place.path("hub").display().to_string();
    let mut command = place.command(&["datasets", "index", "--root", &hub]);
    if rustix::process::geteuid().is_root() {
        // The program may lie where only root can go: it is opened before it lets go of being root.
        let program = place.path("headwater");
        fs::hard_link(env!("CARGO_BIN_EXE_headwater"), &program)
            .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_headwater"), &program).map(|_| ()))
            .unwrap();
        fs::set_permissions(place.path(""), Permissions::from_mode(0o755)).unwrap();
        command = std::process::Command::new(program);
        command.args(["datasets", "index", "--root", &hub]).current_dir(place.path(""));
        command.env("HOME", place.path("home")).uid(NOBODY).gid(NOBODY);
    }
    let ended = ended(command.output().expect("the program starts"));
    fs::set_permissions(&folder, Permissions::from_mode(0o755)).unwrap();
    refused(&ended, &["photos-000001.idx", "allow the folder to be written to"]);
    assert!(!place.in_hub(TRAIN, "photos-000001.idx").exists());
}
