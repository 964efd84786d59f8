//! What sinks get of spans. A process has one recorder: one test at a time.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use headwater_trace::{Context, Event, FlowStep, LaneName, Sink, Span, Tier, is_on, start};

/// Spans that a thread keeps until they are written.
const SPANS_MAX: usize = 16 << 10;

fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Clone, Debug, Default)]
struct Kept(Arc<Mutex<Got>>);

/// Spans, names of lanes, and how many spans are missing.
type Got = (Vec<Event>, Vec<LaneName>, Option<u64>);

impl Sink for Kept {
    fn write(&mut self, lanes: &[LaneName], events: &[Event]) -> Result<(), String> {
        let mut kept = self.0.lock().unwrap();
        kept.0.extend_from_slice(events);
        kept.1.extend_from_slice(lanes);
        Ok(())
    }

    fn finish(&mut self, dropped: u64) -> Result<(), String> {
        self.0.lock().unwrap().2 = Some(dropped);
        Ok(())
    }
}

/// Stands still in its first write until it is let go.
struct Stuck {
    kept: Kept,
    gate: Option<(Sender<()>, Receiver<()>)>,
}

impl Sink for Stuck {
    fn write(&mut self, lanes: &[LaneName], events: &[Event]) -> Result<(), String> {
        if let Some((stuck, free)) = self.gate.take() {
            stuck.send(()).unwrap();
            free.recv().unwrap();
        }
        self.kept.write(lanes, events)
    }

    fn finish(&mut self, dropped: u64) -> Result<(), String> {
        self.kept.finish(dropped)
    }
}

#[test]
fn spans_know_what_they_are_part_of_and_nothing_is_kept_without_a_sink() {
    let _turn = turn();
    assert!(!is_on() && Span::on_thread(Tier::Augment, "before").context().is_none());
    let kept = Kept::default();
    let recording = start(Box::new(kept.clone())).unwrap();
    let lease = Context::of_lease("job/0", b"", 1);
    let mut made = Span::on_lane(Tier::Augment, "make", "lease");
    made = made.of(lease.at_worker(), Some(lease), FlowStep::Between);
    let other = Span::on_lane(Tier::Augment, "other", "lease");
    let read = made.child("read");
    read.end();
    let of_made = made.context();
    let thread = thread::Builder::new().name("a-thread".into());
    let render = move || {
        let span = Span::on_thread(Tier::Augment, "render").within(of_made);
        Span::on_thread(Tier::Augment, "decode").with("bytes", 7_u64).end();
        Span::on_thread(Tier::Augment, "nothing").forget();
        span.end();
        Span::on_thread(Tier::Augment, "after").end();
    };
    thread.spawn(render).unwrap().join().unwrap();
    other.end();
    made.end();
    recording.stop();
    Span::on_thread(Tier::Augment, "late").end();
    assert!(!is_on() && recording.trouble().is_none());

    let kept = kept.0.lock().unwrap();
    let one = |name: &str| {
        let found: Vec<&Event> = kept.0.iter().filter(|event| event.name == name).collect();
        assert_eq!(found.len(), 1, "{name}");
        found[0]
    };
    let names: Vec<&str> = kept.0.iter().map(|event| event.name).collect();
    assert_eq!(names.len(), 6, "{names:?}");
    let (made, read, render, decode) = (one("make"), one("read"), one("render"), one("decode"));
    for (child, parent) in [(read, made), (render, made), (decode, render)] {
        assert_eq!(child.parent, Some(parent.context));
        assert_eq!(child.context.trace(), lease.trace());
        assert!(parent.start <= child.start && child.end <= parent.end && child.is_of_lease);
    }
    assert_eq!((made.parent, made.context), (Some(lease), lease.at_worker()));
    assert_eq!((made.lane, decode.lane), (read.lane, render.lane));
    assert_ne!(made.lane, one("other").lane);
    assert_eq!(one("after").parent, None);
    let of_thread = kept.1.iter().find(|named| named.lane == render.lane);
    assert_eq!(of_thread.unwrap().name, "a-thread");
    assert_eq!(kept.2, Some(0));
}

#[test]
fn spans_beyond_a_threads_buffer_are_dropped_and_counted() {
    let _turn = turn();
    let (kept, (stuck, is_stuck), (go, free)) = (Kept::default(), channel(), channel());
    let sink = Stuck { kept: kept.clone(), gate: Some((stuck, free)) };
    let recording = start(Box::new(sink)).unwrap();
    is_stuck.recv().unwrap();
    for _ in 0..SPANS_MAX + 100 {
        Span::on_thread(Tier::Receiver, "span").end();
    }
    go.send(()).unwrap();
    recording.stop();
    let kept = kept.0.lock().unwrap();
    assert_eq!((kept.0.len(), kept.2), (SPANS_MAX, Some(100)));
}

#[test]
fn a_sink_that_fails_is_left_alone_and_others_go_on() {
    struct Failing;
    impl Sink for Failing {
        fn write(&mut self, _: &[LaneName], _: &[Event]) -> Result<(), String> {
            Err("the disk is full".to_owned())
        }
        fn finish(&mut self, _: u64) -> Result<(), String> {
            panic!("it was closed")
        }
    }
    let _turn = turn();
    let kept = Kept::default();
    let good = start(Box::new(kept.clone())).unwrap();
    let failing = start(Box::new(Failing)).unwrap();
    Span::on_thread(Tier::Receiver, "span").end();
    failing.stop();
    assert_eq!(failing.trouble().as_deref(), Some("the disk is full"));
    assert!(good.goes_on() && is_on());
    Span::on_thread(Tier::Receiver, "span").end();
    good.stop();
    assert_eq!(kept.0.lock().unwrap().0.len(), 2);
}
