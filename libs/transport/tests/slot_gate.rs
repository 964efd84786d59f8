//! A slot that was said to be quiet is never written by the lease that was withdrawn, in any
//! order in which two threads can run: the real gate under a model checker.

mod sync {
    pub(crate) use loom::sync::Mutex;
}

#[path = "../src/links/tcp/gate.rs"]
mod gate;

use gate::Gate;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use loom::thread;

const OLD: u32 = 1;
const NEXT: u32 = 2;

/// What stands between the connection's thread and the slot.
trait Door: Send + Sync + 'static {
    fn write(&self, slot: &AtomicU32) -> bool;
    fn close(&self);
}

impl Door for Gate {
    fn write(&self, slot: &AtomicU32) -> bool {
        self.pass(|| slot.store(OLD, Ordering::Relaxed)).is_some()
    }

    fn close(&self) {
        Gate::close(self);
    }
}

/// The mistake that the gate is there to prevent: looking first and writing then.
struct Flag(AtomicBool);

impl Door for Flag {
    fn write(&self, slot: &AtomicU32) -> bool {
        let open = self.0.load(Ordering::SeqCst);
        if open {
            slot.store(OLD, Ordering::Relaxed);
        }
        open
    }

    fn close(&self) {
        self.0.store(false, Ordering::SeqCst);
    }
}

/// A connection writes a part in two pieces while the driver withdraws its lease, and, told that
/// the slot is quiet, gives it to the next batch.
fn withdrawn_in_mid_part<D: Door>(door: impl Fn() -> D + Send + Sync + 'static) {
    loom::model(move || {
        let door = Arc::new(door());
        let slot = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
        let connection = {
            let (door, slot) = (Arc::clone(&door), Arc::clone(&slot));
            thread::spawn(move || slot.iter().take_while(|piece| door.write(piece)).count())
        };
        door.close();
        slot.iter().for_each(|piece| piece.store(NEXT, Ordering::Relaxed));
        connection.join().expect("the connection's thread");
        for piece in slot.iter() {
            assert_eq!(piece.load(Ordering::Relaxed), NEXT, "written after it was quiet");
        }
    });
}

#[test]
fn a_closed_gate_lets_no_late_write_through() {
    withdrawn_in_mid_part(Gate::new);
}

#[test]
#[should_panic(expected = "written after it was quiet")]
fn a_mere_flag_would_and_the_model_finds_it() {
    withdrawn_in_mid_part(|| Flag(AtomicBool::new(true)));
}

#[test]
fn two_closers_and_a_writer_do_not_wait_for_each_other() {
    loom::model(|| {
        let door = Arc::new(Gate::new());
        let closer = {
            let door = Arc::clone(&door);
            thread::spawn(move || door.close())
        };
        let slot = AtomicU32::new(0);
        door.write(&slot);
        Gate::close(&door);
        assert!(!door.write(&slot), "open again");
        closer.join().expect("the other closer");
    });
}
