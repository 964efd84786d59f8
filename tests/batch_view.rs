//! A rank shows the next batch to whoever asks: what the trainer gets, with what `headwater plan` says of it.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use headwater_contact_sheet::Sheet;
use headwater_core::{Dtype, Recipe};
use headwater_receiver::{DatasetUse, PeekError, Position, Receiver, ReceiverConfig};
use serde_json::Value;

use crate::support;
use crate::support::fleet::Fleet;

/// More than the samples that are shown.
const BATCH: u32 = 24;
const SHOWN: usize = 16;
const RECIPE: &str = "imagenet-train";
const LIMIT: Duration = Duration::from_secs(60);
const TOKEN: &str = "a token of this test alone";

/// `headwater receive`, killed when dropped.
struct Rank {
    child: Child,
    metrics: String,
}

struct Answer {
    status: u16,
    body: Vec<u8>,
}

// === impl Rank ===

impl Rank {
    fn start(fleet: &mut Fleet, settings: &[&str]) -> Self {
        let storage = fleet.storage().address.clone();
        let workers = fleet.worker(0).address.clone();
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        command
            .current_dir(fleet.dir())
            .args(["receive", "--storage", &storage, "--workers", &workers])
            .args(["--dataset", "photos", "--batch", &BATCH.to_string(), "--epochs", "0"])
            .args([
                "--step-ms",
                "20",
                "--set",
                "receiver.seed=7",
                "--set",
                "receiver.shuffle_block=2",
            ])
            .args(["--set", &format!("recipe.preset={RECIPE}"), "--set", "recipe.dtype=u8"])
            .args(["--set", "telemetry.metrics_listen=127.0.0.1:0"]);
        for setting in settings {
            command.args(["--set", setting]);
        }
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the program starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let first = lines.next().expect("a line").expect("text");
        let metrics = first.strip_prefix("metrics on ").expect("where its metrics are").to_owned();
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, metrics }
    }

    /// Waits until the trainer takes batches.
    fn until_it_trains(self) -> Self {
        while self.counter("headwater_receiver_batches_total") == 0 {
            std::thread::sleep(Duration::from_millis(20));
        }
        self
    }

    fn get(&self, path: &str, token: Option<&str>) -> Answer {
        let token = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        self.ask(path, "localhost", &token.unwrap_or_default())
    }

    fn ask(&self, path: &str, host: &str, headers: &str) -> Answer {
        let mut stream = TcpStream::connect(&self.metrics).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n").expect("a request");
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).expect("an answer");
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").expect("a head");
        let status = std::str::from_utf8(&answer[9..12]).expect("text").parse().expect("a status");
        Answer { status, body: answer[end + 4..].to_vec() }
    }

    fn counter(&self, name: &str) -> u64 {
        let text = self.get("/metrics", None).text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0, |value| value.parse().expect("a number"))
    }
}

impl Drop for Rank {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

// === impl Answer ===

impl Answer {
    fn text(&self) -> String {
        String::from_utf8(self.body.clone()).expect("text")
    }

    fn json(&self) -> Value {
        assert_eq!(self.status, 200, "{}", self.text());
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

fn photos() -> String {
    support::data("photos/photos-{000000..000003}.tar").display().to_string()
}

fn recipe() -> Recipe {
    Recipe::preset(RECIPE, Dtype::U8).expect("a preset")
}

fn open(fleet: &mut Fleet) -> Receiver {
    let dataset = DatasetUse { name: "photos".into(), weight: None };
    let config = ReceiverConfig { batch_samples: BATCH, epochs: 0, ..fleet.config() };
    Receiver::open(config, recipe(), &[dataset]).expect("a receiver")
}

/// What `headwater plan` says of a batch.
fn planned(fleet: &Fleet, storage: &str, epoch: &Value, step: &Value) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_headwater"))
        .current_dir(fleet.dir())
        .args(["plan", "--json", "--recipe", RECIPE, "--seed", "7", "--storage", storage])
        .args(["--epoch", &epoch.to_string(), "--step", &step.to_string()])
        .args(["--batch", &BATCH.to_string(), "--set", "receiver.shuffle_block=2"])
        .args(["--dataset", "photos"])
        .output()
        .expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    assert!(output.status.success(), "{}", text(output.stderr));
    let lines = text(output.stdout);
    lines.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

#[test]
fn a_peek_holds_the_first_rows_of_the_batch_that_is_handed_over_next() {
    let mut fleet = Fleet::start(photos(), 1);
    let receiver = open(&mut fleet);
    drop(receiver.next_batch().expect("no fault").expect("a batch"));

    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let within = runtime.enter();
    let mut context = Context::from_waker(Waker::noop());
    let mut asked = Box::pin(receiver.peek().next(LIMIT));
    assert!(asked.as_mut().poll(&mut context).is_pending());
    let other = Box::pin(receiver.peek().next(LIMIT)).as_mut().poll(&mut context);
    assert!(matches!(other, Poll::Ready(Err(PeekError::Busy))), "one at a time");
    drop(within);

    let batch = receiver.next_batch().expect("no fault").expect("a batch");
    // It is there already: the trainer had no chance to change the batch.
    let Poll::Ready(Ok(peeked)) = asked.as_mut().poll(&mut context) else { panic!("no copy") };
    assert_eq!((peeked.epoch(), peeked.step()), (batch.epoch(), batch.step()));
    assert_eq!(peeked.step(), 1);
    assert_eq!(peeked.samples(), &batch.samples()[..SHOWN]);
    assert_eq!(peeked.provenance(), &batch.provenance()[..SHOWN]);
    for (tensor, shown) in batch.layout().tensors().iter().zip(peeked.layout().tensors()) {
        let (all, some) = (batch.tensor_bytes(tensor).unwrap(), peeked.tensor_bytes(shown));
        let row = tensor.row_bytes as usize;
        for view in 0..tensor.views as usize {
            let expected = &all[view * BATCH as usize * row..][..SHOWN * row];
            assert!(&some[view * SHOWN * row..][..SHOWN * row] == expected, "{}", tensor.name);
        }
    }

    let peek = receiver.peek().clone();
    drop(asked);
    drop((batch, receiver));
    let ended = runtime.block_on(peek.next(LIMIT)).unwrap_err();
    assert_eq!(ended, PeekError::Ended);
}

#[test]
fn a_rank_shows_keys_draws_and_picture_of_the_batch_that_its_trainer_gets() {
    let mut fleet = Fleet::start(photos(), 1);
    let rank = Rank::start(&mut fleet, &["telemetry.show_batches=true"]).until_it_trains();
    assert_eq!(rank.counter("headwater_receiver_batches_shown_total"), 0, "nobody has asked");

    let shown = rank.get("/batch.json", None).json();
    let samples = shown["samples"].as_array().expect("samples");
    let storage = fleet.storage().address.clone();
    let plan = planned(&fleet, &storage, &shown["epoch"], &shown["step"]);
    assert_eq!((samples.len(), plan.len()), (SHOWN, BATCH as usize));
    assert_eq!(shown["batch_samples"], BATCH);
    for (sample, line) in samples.iter().zip(&plan) {
        for key in ["dataset", "shard", "index", "pass", "key", "label", "image", "views"] {
            assert!(!sample[key].is_null(), "no {key}: {shown}");
            assert_eq!(sample[key], line[key], "{key}");
        }
    }
    assert_eq!(rank.counter("headwater_receiver_batches_shown_total"), 1);

    let picture = rank.get(&format!("/batch.png?id={}", shown["id"].as_str().unwrap()), None);
    assert_eq!(picture.status, 200, "{}", String::from_utf8_lossy(&picture.body));
    assert_eq!(
        rank.counter("headwater_receiver_batches_shown_total"),
        1,
        "it was made with the other"
    );
    let receiver = open(&mut fleet);
    let number = |name: &str| shown[name].as_u64().expect("a number");
    let position = Position { epoch: number("epoch") as u32, step: number("step") };
    receiver.seek(position).expect("a place");
    let batch = receiver.next_batch().expect("no fault").expect("a batch");
    let sheet = Sheet::draw(&batch, &recipe(), SHOWN).expect("on the host");
    assert_eq!(shown["sheet"]["height"], sheet.height());
    assert!(sheet.png().expect("a picture") == picture.body, "another picture");

    assert_eq!(rank.get("/batch.png?id=9-9", None).status, 404);
    // A page of another site that has given its own name this host's address.
    for path in ["/batch.json", "/batch.png"] {
        assert_eq!(rank.ask(path, "evil.example", "").status, 421, "{path}");
    }
}

#[test]
fn batches_are_shown_where_it_is_configured_and_to_holders_of_the_token() {
    let folder = tempfile::tempdir().expect("a folder");
    let token_file = folder.path().join("token");
    std::fs::write(&token_file, TOKEN).expect("a file");
    let token_line = format!("token_file = \"{}\"", token_file.display());
    let mut fleet = Fleet::secured(photos(), &token_line);
    fleet.add_worker("");
    let token = format!("security.token_file={}", token_file.display());

    let silent = Rank::start(&mut fleet, &[&token]);
    let answer = silent.get("/batch.json", Some(TOKEN));
    assert_eq!(answer.status, 404);
    assert!(answer.text().contains("telemetry.show_batches"), "{}", answer.text());

    let settings = [&*token, "telemetry.show_batches=true"];
    let rank = Rank::start(&mut fleet, &settings).until_it_trains();
    for path in ["/batch.json", "/batch.png"] {
        assert_eq!(rank.get(path, None).status, 401, "{path}");
        assert_eq!(rank.get(path, Some("a token of another test")).status, 401, "{path}");
    }
    assert_eq!(rank.counter("headwater_receiver_batches_shown_total"), 0);
    rank.get("/batch.json", Some(TOKEN)).json();
    assert_eq!(rank.get("/batch.png", Some(TOKEN)).status, 200);
    assert_eq!(rank.get("/metrics", None).status, 200, "open as before");
}
