//! When a further worker is asked, and which workers are asked no more.

use headwater_transport::LinkKind;

use super::ms;
use super::rules::{A, B, actions, deliver, given, ledger, order};
use crate::ledger::{Action, Ledger};

/// A ledger whose parts took 40 ms each, so that the rule of twice the median gives 80.
fn with_median() -> Ledger {
    let mut ledger = ledger();
    for serial in 0..3 {
        order(&mut ledger, serial, 4);
        ledger.assign(ms(0));
        let (_, id) = given(&actions(&mut ledger))[0];
        deliver(&mut ledger, A, id, 4, ms(40));
    }
    actions(&mut ledger);
    ledger
}

#[test]
fn without_a_median_a_lease_is_late_after_the_first_limit() {
    let mut ledger = ledger();
    order(&mut ledger, 0, 4);
    ledger.assign(ms(0));
    let first = given(&actions(&mut ledger));
    ledger.on_worker_joined(B, "b".into(), LinkKind::Tcp, 8);
    ledger.assign(ms(4999));
    assert_eq!(given(&actions(&mut ledger)), []);
    ledger.assign(ms(5000));
    let second = given(&actions(&mut ledger));
    assert_eq!((first[0].0, second[0].0, second.len()), (A, B, 1));
}

#[test]
fn what_the_trainer_waits_for_is_asked_for_again_before_later_batches_are_leased() {
    for waits in [false, true] {
        let mut ledger = with_median();
        order(&mut ledger, 3, 4);
        ledger.assign(ms(100));
        let (_, first) = given(&actions(&mut ledger))[0];
        // Room for one part, and two that want it: batch 3 a second time, batch 4 for the first.
        ledger.on_credits(A, 1);
        ledger.on_worker_joined(B, "b".into(), LinkKind::Tcp, 1);
        order(&mut ledger, 4, 4);
        ledger.on_demand(waits);
        ledger.assign(ms(160));
        let (peer, id) = given(&actions(&mut ledger))[0];
        assert_eq!(peer, B);
        deliver(&mut ledger, B, id, 4, ms(170));
        let after = actions(&mut ledger);
        let taken = |a: &_| matches!(a, Action::Withdraw { lease, .. } if *lease == first);
        assert_eq!(after.iter().any(taken), waits, "whether batch 3 came");
    }
}

#[test]
fn a_worker_that_finishes_nothing_while_others_do_gets_one_part_now_and_then() {
    let mut ledger = with_median();
    for serial in 3..6 {
        order(&mut ledger, serial, 4);
        ledger.assign(ms(100));
    }
    let held = given(&actions(&mut ledger));
    assert_eq!(held.len(), 3);
    ledger.on_worker_joined(B, "b".into(), LinkKind::Tcp, 8);
    // B overtakes A with all that A has.
    ledger.assign(ms(180));
    for (peer, id) in given(&actions(&mut ledger)) {
        assert_eq!(peer, B);
        deliver(&mut ledger, B, id, 4, ms(190));
    }
    // A lets go of them, and goes on as before.
    for (_, id) in held {
        ledger.on_quiet(A, id);
        ledger.on_failed(A, super::rules::withdrawn(id), ms(191));
    }
    actions(&mut ledger);
    let mut of_a = Vec::new();
    for serial in 6..30 {
        let now = ms(200 + serial);
        order(&mut ledger, serial, 4);
        ledger.assign(now);
        for (peer, id) in given(&actions(&mut ledger)) {
            if peer == A { of_a.push(id) } else { deliver(&mut ledger, B, id, 4, now) }
        }
    }
    assert_eq!(of_a, [], "its time has not come");
    let mut serial = 30;
    while of_a.is_empty() {
        assert!(serial < 60, "it is never asked again");
        order(&mut ledger, serial, 4);
        ledger.assign(ms(3000));
        for (peer, id) in given(&actions(&mut ledger)) {
            if peer == A { of_a.push(id) } else { deliver(&mut ledger, B, id, 4, ms(3000)) }
        }
        serial += 1;
    }
    // It does that one, and is as good as any other again.
    deliver(&mut ledger, A, of_a[0], 4, ms(3010));
    (60..90).for_each(|serial| order(&mut ledger, serial, 4));
    ledger.assign(ms(3020));
    let to_a = given(&actions(&mut ledger)).into_iter().filter(|(peer, _)| *peer == A).count();
    assert!(to_a > 3, "{to_a}");
}
