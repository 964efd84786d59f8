//! Pauses between tries of a part, and parts that no worker survives.

use std::time::Duration;

use headwater_proto::augment::{Failure, FailureKind};
use headwater_transport::{LeaseId, LinkKind, PeerId};

use super::super::{Action, Ledger};
use super::ms;
use super::rules::{A, actions, given, ledger, order};

/// When each part of a batch is leased again, counted from failures at the same moment, in tenths
/// of a millisecond.
fn pauses(ledger: &mut Ledger, at: Duration) -> Vec<u32> {
    ledger.assign(at);
    let fail = |ledger: &mut Ledger, kind: FailureKind, leases: &[(PeerId, LeaseId)]| {
        for (peer, id) in leases {
            let message = "storage is away".to_owned();
            ledger.on_failed(*peer, Failure { lease: id.0, kind, message }, at);
        }
        actions(ledger);
    };
    let leases = given(&actions(ledger));
    fail(ledger, FailureKind::Retry, &leases);
    let (mut pauses, mut again) = (Vec::new(), Vec::new());
    for tenths in 0..=1000 {
        ledger.assign(at + Duration::from_micros(100) * tenths);
        again.extend(given(&actions(ledger)));
        pauses.resize(again.len(), tenths);
    }
    // Not a failure: the next round begins with all of them.
    fail(ledger, FailureKind::Withdrawn, &again);
    pauses
}

#[test]
fn parts_that_fail_together_come_back_one_after_the_other_after_growing_pauses() {
    let mut ledger = ledger();
    ledger.on_credits(A, 100);
    order(&mut ledger, 0, 64);
    let mut pauses = |round: u32, from: u32, to: u32| {
        let found = pauses(&mut ledger, ms(1000 * u64::from(round)));
        assert_eq!(found.len(), 16, "round {round}");
        assert!(found.iter().all(|p| (from..=to).contains(p)), "round {round}: {found:?}");
        let mut different = found.clone();
        different.dedup();
        assert!(different.len() > 8, "round {round}: they come back together: {found:?}");
        found
    };
    let first = pauses(1, 50, 100);
    let second = pauses(2, 100, 200);
    assert_ne!(second, first.iter().map(|p| 2 * p).collect::<Vec<_>>());
}

#[test]
fn a_part_that_no_worker_survives_ends_the_stream_and_names_its_samples() {
    let mut ledger = ledger();
    ledger.on_worker_left(A, ms(0));
    order(&mut ledger, 0, 4);
    let (mut lost, mut now, mut waited) = (0, ms(0), Vec::new());
    let error = loop {
        let peer = PeerId(100 + lost);
        ledger.on_worker_joined(peer, format!("w{lost}"), LinkKind::Tcp, 8);
        let asked = now;
        let leases = loop {
            ledger.assign(now);
            let leases = given(&actions(&mut ledger));
            if !leases.is_empty() {
                break leases;
            }
            now += ms(1);
        };
        waited.push((now - asked).as_millis());
        assert_eq!(leases[0].0, peer);
        ledger.on_worker_left(peer, now);
        ledger.on_gone(peer);
        lost += 1;
        let failed = actions(&mut ledger).into_iter().find_map(|action| match action {
            Action::Fail(error) => Some(error.to_string()),
            _ => None,
        });
        if let Some(error) = failed {
            break error;
        }
    };
    // Three failures end a stream in these tests, and four times as many losses.
    assert_eq!(lost, 12);
    assert!(error.starts_with("epoch 0 step 0 samples 0..4 failed 12 time(s)"), "{error}");
    assert!(error.contains("at worker `w11`") && error.contains("0/0/0, 0/0/1, 0/0/2"), "{error}");
    assert_eq!(waited[..3], [0, 0, 0], "a worker that dies now and then costs no time");
    assert!(waited[3..].iter().all(|wait| (5..=100).contains(wait)), "{waited:?}");
}
