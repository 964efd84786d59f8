//! Which worker receivers of one stream ask.

use headwater_transport::LinkKind;

use super::ms;
use super::rules::{A, B, actions, given, ledger, order};

/// Receivers that are behind find parts where they were made before another worker came.
#[test]
fn a_worker_that_joins_is_asked_for_no_part_before_the_step_that_it_names() {
    let mut ledger = ledger();
    ledger.on_worker_joined(B, "b".into(), LinkKind::Tcp, 8);
    for (worker, from) in [(A, 0), (B, 1000)] {
        ledger.on_worker_shares(worker);
        ledger.on_takes_from(worker, Some(from));
    }
    (0..4).for_each(|step| order(&mut ledger, step, 8));
    ledger.assign(ms(0));
    let asked = given(&actions(&mut ledger));
    assert_eq!(asked.len(), 8);
    assert!(asked.iter().all(|(worker, _)| *worker == A), "{asked:?}");
    (1000..1003).for_each(|step| order(&mut ledger, step, 8));
    ledger.assign(ms(0));
    let asked = given(&actions(&mut ledger));
    assert!(asked.iter().any(|(worker, _)| *worker == B), "{asked:?}");
}

/// At the start no worker has named a step yet, and after a restart of all of them none was there before.
#[test]
fn without_a_worker_that_was_there_at_a_step_all_are_asked() {
    for from in [None, Some(1000)] {
        let mut ledger = ledger();
        ledger.on_worker_joined(B, "b".into(), LinkKind::Tcp, 8);
        for worker in [A, B] {
            ledger.on_worker_shares(worker);
            ledger.on_takes_from(worker, from);
        }
        (0..4).for_each(|step| order(&mut ledger, step, 8));
        ledger.assign(ms(0));
        let asked = given(&actions(&mut ledger));
        assert_eq!(asked.len(), 8, "from {from:?}");
        assert!([A, B].iter().all(|one| asked.iter().any(|(worker, _)| worker == one)));
    }
}
