//! Epochs over shards that lie elsewhere, by way of the host's cache: their batches are those of files,
//! whatever fails on the way and whoever is killed.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;

use super::program::{Place, data, ended};
use crate::server::{Dialect, Fault, Request, Server};

const SHARDS: [&str; 2] = ["photos-000001.tar", "photos-000003.tar"];
/// Requests in a row that nobody answers: a server that is gone for a while.
const GONE: usize = 5;

/// A program that takes an epoch of a dataset; shards from elsewhere go through `cache`.
fn run(place: &Place, shards: &str) -> Command {
    fs::create_dir_all(place.path("cache")).unwrap();
    let dataset = format!("photos={shards}");
    let cache =
        format!("storage.cache=[{{dir=\"{}\",bytes=67108864}}]", place.path("cache").display());
    let own = std::process::id().to_string();
    let args = ["--die-with", &own, "run", "--recipe", "imagenet-eval", "--batch", "15"];
    let sets = ["receiver.seed=7", "storage.index_dir=index", "augment.threads=1", &cache];
    let sets = sets.iter().flat_map(|set| ["--set", set]).collect::<Vec<_>>();
    let mut command = place.command(&[&args[..], &["--dataset", &dataset], &sets].concat());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The hash of its epoch, when it has ended.
#[track_caller]
fn hash(child: Child) -> String {
    let ended = ended(child.wait_with_output().expect("its end"));
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
    let line = ended.stdout.lines().find(|line| line.starts_with("epoch 0")).expect("an epoch");
    line.split("hash ").nth(1).expect("a hash").to_owned()
}

/// A server of the shards, their URL, and the hash of an epoch of the same files.
fn elsewhere(place: &Place) -> (Server, String, String) {
    let server = Server::start(Dialect::Plain);
    for name in SHARDS {
        server.put(&format!("ds/{name}"), &fs::read(data("photos").join(name)).unwrap());
    }
    let url = format!("http://{}/ds/photos-00000{{1,3}}.tar", server.address);
    let files = data("photos/photos-00000{1,3}.tar").display().to_string();
    (server, url, hash(run(place, &files).spawn().unwrap()))
}

fn is_read(request: &Request) -> bool {
    request.headers.contains_key("range")
}

#[test]
fn a_source_that_fails_and_is_gone_for_a_while_changes_no_batch() {
    let place = Place::new();
    let (server, url, expected) = elsewhere(&place);
    let faults = [Fault::Status(503), Fault::Cut(700), Fault::Hangup, Fault::TooMany];
    let mut number = 0;
    server.fail(move |request| {
        number += usize::from(is_read(request));
        let is_gone = (10..10 + GONE).contains(&number);
        match number % 4 {
            _ if is_gone => Some(Fault::Hangup),
            3 => Some(faults[number / 4 % faults.len()].clone()),
            _ => None,
        }
    });
    assert_eq!(hash(run(&place, &url).spawn().unwrap()), expected);
    let asked = server.requests().iter().filter(|request| is_read(request)).count();
    assert!(asked > 10 + GONE, "{asked} requests met no fault");
}

/// Files that are being written into the cache.
fn filling(cache: &Path) -> usize {
    let user = fs::read_dir(cache).unwrap().next().expect("the user's folder").unwrap().path();
    fs::read_dir(user.join("filling")).unwrap().count()
}

#[test]
fn one_that_is_killed_while_it_fetches_is_followed_by_two_at_once_with_equal_batches() {
    let place = Place::new();
    let (server, url, expected) = elsewhere(&place);
    let dataset = format!("photos={url}");
    // The indices are kept: what is read afterwards is read to be copied.
    place.printed(&["--set", "storage.index_dir=index", "datasets", "list", "--dataset", &dataset]);
    // The second read waits until the test lets go of its end of the channel.
    let (reached, hears) = channel();
    let (release, released) = channel::<()>();
    let mut reads = 0;
    server.fail(move |request| {
        reads += usize::from(is_read(request));
        if reads == 2 {
            let _ = reached.send(());
            let _ = released.recv();
        }
        None
    });
    let mut killed = run(&place, &url).spawn().unwrap();
    hears.recv().expect("a shard is being fetched");
    assert!(filling(&place.path("cache")) > 0);
    killed.kill().unwrap();
    killed.wait().unwrap();
    drop(release);
    server.fail(|_| None);
    let both = [(); 2].map(|()| run(&place, &url).spawn().unwrap());
    assert_eq!(both.map(hash), [expected.clone(), expected]);
    assert_eq!(filling(&place.path("cache")), 0);
}
