//! The threads with made-up work: nothing here decodes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use headwater_core::Recipe;
use headwater_render::{PartSample, RenderError, Rendered, ViewSink};

use super::*;

struct NoRenderer;

/// Counts the renderers it made.
#[derive(Default)]
struct Counting(AtomicUsize);

/// What a unit did, in the order in which it did it.
#[derive(Debug, PartialEq, Eq)]
enum Event {
    Did(&'static str, usize),
    Broke(usize, String),
    TakenBack(Range<usize>),
}

/// Tells what it does; waits for a word before the first unit, panics at the one named.
struct Told {
    name: &'static str,
    events: mpsc::Sender<Event>,
    gate: Option<Mutex<mpsc::Receiver<()>>>,
    panics_at: Option<usize>,
}

impl SampleRenderer for NoRenderer {
    fn render(
        &mut self,
        _: &Recipe,
        _: &PartSample<'_>,
        _: &mut dyn ViewSink,
    ) -> Result<Rendered, RenderError> {
        unreachable!("no unit here renders")
    }
}

impl Backend for Counting {
    fn name(&self) -> String {
        "none".into()
    }

    fn renderer(&self) -> Result<Box<dyn SampleRenderer>, RenderError> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Ok(Box::new(NoRenderer))
    }
}

impl PoolWork for Told {
    fn do_unit(&self, unit: usize, _: &mut Tools) {
        if let Some(gate) = &self.gate {
            gate.lock().unwrap().recv().unwrap();
        }
        assert_ne!(self.panics_at, Some(unit), "unit {unit} breaks");
        self.events.send(Event::Did(self.name, unit)).unwrap();
    }

    fn undone(&self, unit: usize, why: Undone) {
        let Undone::Panic(reason) = why else { panic!("{why:?}") };
        self.events.send(Event::Broke(unit, reason)).unwrap();
    }

    fn taken_back(&self, units: Range<usize>) {
        self.events.send(Event::TakenBack(units)).unwrap();
    }
}

fn place(session: u64) -> QueuePlace {
    QueuePlace { session, order: 0 }
}

fn next(events: &mpsc::Receiver<Event>) -> Event {
    events.recv_timeout(std::time::Duration::from_secs(10)).unwrap()
}

#[test]
fn a_panic_breaks_one_unit_and_the_thread_goes_on_with_a_fresh_renderer() {
    let backend = Arc::new(Counting::default());
    let pool = Pool::start(Arc::clone(&backend) as Arc<dyn Backend>, 1).unwrap();
    let (events, told) = mpsc::channel();
    let work = Told { name: "a", events, gate: None, panics_at: Some(1) };
    pool.submit(place(1), Arc::new(work), 3, 1);
    assert_eq!(next(&told), Event::Did("a", 0));
    let Event::Broke(1, reason) = next(&told) else { panic!("unit 1 was to break") };
    assert!(reason.contains("unit 1 breaks"), "{reason}");
    assert_eq!(next(&told), Event::Did("a", 2));
    assert_eq!(backend.0.load(Ordering::Relaxed), 2);
}

#[test]
fn units_that_no_thread_has_taken_can_be_taken_back() {
    let pool = Pool::start(Arc::new(Counting::default()), 1).unwrap();
    let (events, told) = mpsc::channel();
    let (open, gate) = mpsc::channel();
    let (gate, held) = (Some(Mutex::new(gate)), events.clone());
    pool.submit(
        place(1),
        Arc::new(Told { name: "held", events: held, gate, panics_at: None }),
        1,
        1,
    );
    let work = Arc::new(Told { name: "a", events, gate: None, panics_at: None });
    pool.submit(place(2), Arc::clone(&work) as Arc<dyn PoolWork>, 4, 1);
    // The one thread is held by the first work: or else it has run some of the second by now.
    while pool.shared.lock().queue.parts() > 1 {
        std::thread::yield_now();
    }
    pool.take_back(place(2), &*work);
    assert_eq!(next(&told), Event::TakenBack(0..4));
    open.send(()).unwrap();
    assert_eq!(next(&told), Event::Did("held", 0));
    drop(pool);
    assert!(told.try_recv().is_err());
}

/// Ends only if three threads are in it at the same time.
struct Meeting(std::sync::Barrier, mpsc::Sender<Event>);

impl PoolWork for Meeting {
    fn do_unit(&self, unit: usize, _: &mut Tools) {
        self.0.wait();
        self.1.send(Event::Did("met", unit)).unwrap();
    }

    fn undone(&self, _: usize, _: Undone) {}

    fn taken_back(&self, _: Range<usize>) {}
}

#[test]
fn one_part_keeps_all_threads_busy() {
    let pool = Pool::start(Arc::new(Counting::default()), 3).unwrap();
    let (events, told) = mpsc::channel();
    pool.submit(place(1), Arc::new(Meeting(std::sync::Barrier::new(3), events)), 3, 1);
    for _ in 0..3 {
        assert!(matches!(next(&told), Event::Did("met", _)));
    }
}
