//! Single rules of the ledger, one lease at a time.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::{Backoff, Dtype, Layout, Recipe, SampleRef};
use headwater_proto::augment::{Failure, FailureKind, PartDone, PartOrigin, Provenance, WorkTimes};
use headwater_transport::{LeaseId, LinkKind, PeerId, SlotId};

use super::super::{Action, BatchOrder, Landing, LateRule, Ledger, LedgerConfig, Serial};
use super::{ms, scope};
use crate::ReceiverError;
use crate::config::Verify;

pub(super) const A: PeerId = PeerId(1);
pub(super) const B: PeerId = PeerId(2);
const SLOT: SlotId = SlotId(0);

pub(super) fn ledger() -> Ledger {
    ledger_that_compares(Verify::All)
}

fn ledger_that_compares(verify: Verify) -> Ledger {
    let late = LateRule { first: ms(5000), median_multiple: 2.0, floor: ms(10) };
    let config = LedgerConfig {
        part_samples: 4,
        late,
        verify,
        attempts_max: 3,
        retry: Backoff { first: ms(10), longest: ms(100) },
    };
    let mut ledger = Ledger::new(config, scope());
    ledger.on_worker_joined(A, "a".into(), LinkKind::Tcp, 8);
    ledger
}

pub(super) fn order(ledger: &mut Ledger, serial: u64, samples: u32) {
    order_scaled(ledger, serial, samples, &[]);
}

fn order_scaled(ledger: &mut Ledger, serial: u64, samples: u32, fp8_scales: &[f32]) {
    let recipe = Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset");
    ledger.order(BatchOrder {
        serial: Serial(serial),
        epoch: 0,
        step: serial,
        job_step: serial,
        slot: SLOT,
        layout: Arc::new(Layout::new(&recipe, samples)),
        group: None,
        bucket: 0,
        samples: (0..samples)
            .map(|index| SampleRef { dataset: 0, shard: serial as u32, index, pass: 0 })
            .collect(),
        fp8_scales: fp8_scales.to_vec(),
    });
}

pub(super) fn actions(ledger: &mut Ledger) -> Vec<Action> {
    std::iter::from_fn(|| ledger.next_action()).collect()
}

pub(super) fn given(actions: &[Action]) -> Vec<(PeerId, LeaseId)> {
    let lease = |action: &Action| match action {
        Action::Lease { peer, lease, .. } => Some((*peer, LeaseId(lease.lease))),
        _ => None,
    };
    actions.iter().filter_map(lease).collect()
}

pub(super) fn done(id: LeaseId, samples: usize, checksum: u64) -> PartDone {
    let one = Provenance { key: "k".into(), label: 1, substituted: None };
    let times = WorkTimes::default();
    let (samples, origin) = (vec![one; samples], PartOrigin::Computed);
    PartDone { lease: id.0, checksum, samples, times, fp8_amaxes: Vec::new(), origin }
}

pub(super) fn withdrawn(id: LeaseId) -> Failure {
    Failure { lease: id.0, kind: FailureKind::Withdrawn, message: "withdrawn".into() }
}

pub(super) fn deliver(
    ledger: &mut Ledger,
    peer: PeerId,
    id: LeaseId,
    samples: usize,
    now: Duration,
) {
    ledger.on_arrived(peer, id, Landing::Host, now);
    ledger.on_done(peer, done(id, samples, 5), now);
    ledger.on_verified(id, true, now);
}

/// A ledger in which one part is leased to A and, being late, to B as well.
pub(super) fn hedged() -> (Ledger, LeaseId, LeaseId) {
    let mut ledger = ledger();
    for serial in 0..3 {
        order(&mut ledger, serial, 4);
        ledger.assign(ms(0));
        let (_, id) = given(&actions(&mut ledger))[0];
        deliver(&mut ledger, A, id, 4, ms(10));
    }
    order(&mut ledger, 3, 4);
    ledger.assign(ms(20));
    let first = given(&actions(&mut ledger))[0].1;
    ledger.on_worker_joined(B, "b".into(), LinkKind::Tcp, 8);
    ledger.assign(ms(39));
    assert!(given(&actions(&mut ledger)).is_empty(), "not late yet");
    ledger.assign(ms(40));
    let hedge = given(&actions(&mut ledger));
    assert_eq!(hedge.len(), 1);
    assert_eq!(hedge[0].0, B);
    (ledger, first, hedge[0].1)
}

#[test]
fn the_second_copy_of_a_part_is_dropped() {
    let (mut ledger, first, second) = hedged();
    deliver(&mut ledger, B, second, 4, ms(50));
    let after = actions(&mut ledger);
    assert!(after.iter().any(|a| matches!(a, Action::Deliver(_))));
    assert!(after.iter().any(|a| matches!(a, Action::Withdraw { lease, .. } if *lease == first)));
    assert!(!ledger.slot_is_quiet(SLOT), "A may still write");
    ledger.on_arrived(A, first, Landing::Host, ms(60));
    ledger.on_done(A, done(first, 4, 5), ms(60));
    assert!(actions(&mut ledger).is_empty());
    assert!(ledger.slot_is_quiet(SLOT));
    assert_eq!(ledger.open_leases(), 0);
}

#[test]
fn a_second_copy_with_other_bytes_is_a_loud_error() {
    let (mut ledger, first, second) = hedged();
    deliver(&mut ledger, B, second, 4, ms(50));
    actions(&mut ledger);
    ledger.on_arrived(A, first, Landing::Host, ms(60));
    ledger.on_done(A, done(first, 4, 6), ms(60));
    let after = actions(&mut ledger);
    let Some(Action::Fail(error)) = after.iter().find(|a| matches!(a, Action::Fail(_))) else {
        panic!("not a word of it: {after:?}")
    };
    let said = error.to_string();
    assert!(said.starts_with("epoch 0 step 3 samples 0..4: worker `a`"), "{said}");
    assert!(said.contains("than worker `b`") && said.contains("0000000000000006"), "{said}");
}

#[test]
fn of_two_copies_that_wait_together_the_one_that_differs_is_named() {
    let (mut ledger, first, second) = hedged();
    // Both are in before either was compared with its bytes.
    ledger.on_arrived(A, first, Landing::Host, ms(50));
    ledger.on_done(A, done(first, 4, 6), ms(50));
    ledger.on_arrived(B, second, Landing::Host, ms(50));
    ledger.on_done(B, done(second, 4, 5), ms(50));
    ledger.on_verified(second, true, ms(51));
    let after = actions(&mut ledger);
    let Some(Action::Fail(error)) = after.iter().find(|a| matches!(a, Action::Fail(_))) else {
        panic!("not a word of it: {after:?}")
    };
    let said = error.to_string();
    assert!(said.contains("worker `a` made other bytes than worker `b`"), "{said}");
}

#[test]
fn a_failed_part_is_tried_again_after_a_pause_and_elsewhere() {
    let mut ledger = ledger();
    order(&mut ledger, 0, 4);
    ledger.assign(ms(0));
    let (peer, id) = given(&actions(&mut ledger))[0];
    ledger.on_worker_joined(B, "b".into(), LinkKind::Tcp, 8);
    let failure =
        Failure { lease: id.0, kind: FailureKind::Retry, message: "storage is away".into() };
    ledger.on_failed(peer, failure, ms(5));
    ledger.assign(ms(9));
    assert!(given(&actions(&mut ledger)).is_empty(), "the pause is 5 ms at least");
    ledger.assign(ms(15));
    assert_eq!(given(&actions(&mut ledger))[0].0, B, "and 10 ms at most");
}

#[test]
fn a_part_is_asked_of_three_workers_at_most() {
    let (mut ledger, ..) = hedged();
    (3..8).for_each(|n| ledger.on_worker_joined(PeerId(n), format!("w{n}"), LinkKind::Tcp, 8));
    let mut further = Vec::new();
    for second in 1..60 {
        ledger.assign(ms(1000 * second));
        further.extend(given(&actions(&mut ledger)));
    }
    assert_eq!(further.len(), 1, "two have it already: {further:?}");
}

#[test]
fn a_part_that_fails_too_often_ends_the_stream_with_its_reason() {
    let mut ledger = ledger();
    order(&mut ledger, 0, 4);
    let mut failed = None;
    for round in 0..3u64 {
        ledger.assign(ms(round * 1000));
        let (peer, id) = given(&actions(&mut ledger))[0];
        let failure = Failure { lease: id.0, kind: FailureKind::Retry, message: "no".into() };
        ledger.on_failed(peer, failure, ms(round * 1000 + 1));
        failed = actions(&mut ledger).into_iter().find(|a| matches!(a, Action::Fail(_)));
        assert_eq!(failed.is_some(), round == 2, "round {round}");
    }
    let Some(Action::Fail(error)) = failed else { panic!("no error") };
    assert!(error.to_string().contains("failed 3 time(s)"), "{error}");
}

#[test]
fn a_fatal_failure_ends_the_stream_at_its_first_try() {
    let mut ledger = ledger();
    order(&mut ledger, 0, 4);
    ledger.assign(ms(0));
    let (peer, id) = given(&actions(&mut ledger))[0];
    let message = "shard x sample y is broken".to_owned();
    ledger.on_failed(peer, Failure { lease: id.0, kind: FailureKind::Fatal, message }, ms(1));
    let after = actions(&mut ledger);
    assert!(after.iter().any(|a| matches!(a, Action::Fail(ReceiverError::Part { .. }))));
}

#[test]
fn a_worker_without_credits_gets_no_lease() {
    let mut ledger = ledger();
    ledger.on_credits(A, 0);
    order(&mut ledger, 0, 8);
    ledger.assign(ms(0));
    assert!(given(&actions(&mut ledger)).is_empty());
    ledger.on_credits(A, 1);
    ledger.assign(ms(1));
    assert_eq!(given(&actions(&mut ledger)).len(), 1);
}

#[test]
fn a_part_that_differs_from_its_checksum_is_made_again() {
    let mut ledger = ledger();
    order(&mut ledger, 0, 4);
    ledger.assign(ms(0));
    let (_, id) = given(&actions(&mut ledger))[0];
    ledger.on_arrived(A, id, Landing::Host, ms(1));
    ledger.on_done(A, done(id, 4, 5), ms(1));
    ledger.on_verified(id, false, ms(2));
    assert!(!actions(&mut ledger).iter().any(|a| matches!(a, Action::Deliver(_))));
    ledger.assign(ms(100));
    assert_eq!(given(&actions(&mut ledger)).len(), 1);
}

#[test]
fn parts_are_compared_with_their_checksums_as_configured() {
    for (verify, link, compared) in [
        (Verify::All, LinkKind::Shm, true),
        (Verify::Network, LinkKind::Shm, false),
        (Verify::Network, LinkKind::Tcp, true),
        (Verify::Network, LinkKind::Rdma, true),
        (Verify::Sampled, LinkKind::Shm, false),
        (Verify::Sampled, LinkKind::Rdma, true),
        (Verify::Off, LinkKind::Tcp, false),
    ] {
        let mut ledger = ledger_that_compares(verify);
        ledger.on_worker_left(A, ms(0));
        ledger.on_worker_joined(B, "b".into(), link, 8);
        order(&mut ledger, 0, 4);
        ledger.assign(ms(0));
        let (_, id) = given(&actions(&mut ledger))[0];
        ledger.on_arrived(B, id, Landing::Host, ms(1));
        ledger.on_done(B, done(id, 4, 5), ms(1));
        let after = actions(&mut ledger);
        let counted = |a: &Action| matches!(a, Action::Count { link: by, .. } if *by == link);
        assert_eq!(after.iter().filter(|a| counted(a)).count(), 1, "{verify:?} {link}: {after:?}");
        let asked = after.iter().any(|a| matches!(a, Action::Verify { .. }));
        let delivered = after.iter().any(|a| matches!(a, Action::Deliver(_)));
        assert_eq!((asked, delivered), (compared, !compared), "{verify:?} {link}");
    }
}

/// Of `parts` parts of one worker in turn, those that are compared; the one of number `differs` differs.
fn compared(parts: u64, differs: Option<usize>) -> Vec<bool> {
    let mut ledger = ledger_that_compares(Verify::Sampled);
    ledger.on_worker_left(A, ms(0));
    ledger.on_worker_joined(B, "b".into(), LinkKind::Rdma, 8);
    let mut compared = Vec::new();
    for serial in 0..parts {
        order(&mut ledger, serial, 4);
        // One that differed is given again after a pause.
        for try_number in 0..2 {
            ledger.assign(ms(1000 * (2 * serial + try_number)));
            let Some(&(_, id)) = given(&actions(&mut ledger)).first() else { continue };
            ledger.on_arrived(B, id, Landing::Host, ms(1000 * (2 * serial + try_number)));
            ledger.on_done(B, done(id, 4, 5), ms(1000 * (2 * serial + try_number)));
            let asked = actions(&mut ledger).iter().any(|a| matches!(a, Action::Verify { .. }));
            let equal = differs != Some(compared.len());
            compared.push(asked);
            if asked {
                ledger.on_verified(id, equal, ms(1000 * (2 * serial + try_number)));
                actions(&mut ledger);
            }
        }
    }
    compared
}

#[test]
fn the_first_parts_of_a_session_are_compared_and_then_some() {
    let calm = compared(64 + 160, None);
    assert!(calm[..64].iter().all(|compared| *compared), "the first run's proof");
    assert_eq!(calm[64..].iter().filter(|compared| **compared).count(), 10, "one in sixteen");
    let first = (64..).find(|&part| calm[part]).expect("one in sixteen");
    let hurt = compared(64 + 160, Some(first));
    assert!(hurt[first..=first + 64].iter().all(|compared| *compared), "all after a difference");
}

#[test]
fn forgotten_batches_are_withdrawn_and_their_slot_waits_for_its_writers() {
    let mut ledger = ledger();
    order(&mut ledger, 0, 4);
    ledger.assign(ms(0));
    let (_, id) = given(&actions(&mut ledger))[0];
    assert_eq!(ledger.forget_batches(), vec![SLOT]);
    let after = actions(&mut ledger);
    assert!(matches!(after[..], [Action::Withdraw { lease, .. }] if lease == id));
    assert!(!ledger.slot_is_quiet(SLOT));
    ledger.on_quiet(A, id);
    assert!(ledger.slot_is_quiet(SLOT));
    ledger.on_failed(A, withdrawn(id), ms(3));
    assert_eq!(ledger.open_leases(), 0);
    assert!(actions(&mut ledger).is_empty());
}

/// A GPU may outlive its process: slots that it may still write to are not used again.
#[test]
fn a_worker_that_is_gone_names_the_slots_of_the_leases_that_it_could_write_for() {
    let (mut ledger, first, _) = hedged();
    let name = ledger.writer(A);
    ledger.on_worker_left(A, ms(1));
    assert_eq!(ledger.writer(A), name, "its session is over, and it may still write");
    assert_eq!(ledger.on_gone(A), [SLOT]);
    assert_eq!(ledger.on_gone(A), [], "it is gone already");
    ledger.on_arrived(B, first, Landing::Device, ms(50));
    assert_eq!(ledger.on_gone(B), [SLOT], "the lease was another's");

    let (mut ledger, first, second) = hedged();
    ledger.on_arrived(A, first, Landing::Device, ms(50));
    assert_eq!(ledger.on_gone(A), [], "all its bytes are there");
    ledger.on_quiet(B, second);
    assert_eq!(ledger.on_gone(B), [], "it writes no more");
}

#[test]
fn a_word_on_anothers_lease_is_not_heard() {
    let mut ledger = ledger();
    ledger.on_worker_joined(B, "b".into(), LinkKind::Tcp, 8);
    order(&mut ledger, 0, 4);
    ledger.assign(ms(0));
    let (peer, id) = given(&actions(&mut ledger))[0];
    let other = if peer == A { B } else { A };
    deliver(&mut ledger, other, id, 4, ms(1));
    assert!(actions(&mut ledger).is_empty());
    assert_eq!(ledger.open_leases(), 1);
}

#[test]
fn a_batch_has_the_largest_amax_of_its_parts_and_the_scales_it_was_leased_with() {
    let mut ledger = ledger();
    order_scaled(&mut ledger, 0, 8, &[2.0, 3.0]);
    ledger.assign(ms(0));
    let actions_given = actions(&mut ledger);
    let leased = actions_given.iter().filter_map(|action| match action {
        Action::Lease { lease, .. } => Some(lease.fp8_scales.clone()),
        _ => None,
    });
    assert_eq!(leased.collect::<Vec<_>>(), [[2.0, 3.0], [2.0, 3.0]]);
    for ((_, id), fp8_amaxes) in given(&actions_given).into_iter().zip([[0.5, 7.0], [1.5, 6.0]]) {
        ledger.on_arrived(A, id, Landing::Host, ms(1));
        let done = PartDone { fp8_amaxes: fp8_amaxes.to_vec(), ..done(id, 4, 5) };
        ledger.on_done(A, done, ms(1));
        ledger.on_verified(id, true, ms(1));
    }
    let delivered = actions(&mut ledger).into_iter().find_map(|action| match action {
        Action::Deliver(finished) => Some(finished),
        _ => None,
    });
    let finished = delivered.expect("all parts are in");
    assert_eq!((finished.fp8_amaxes, finished.order.fp8_scales), (vec![1.5, 7.0], vec![2.0, 3.0]));
}

#[test]
fn a_part_without_an_amax_for_each_tensor_is_asked_for_again() {
    let mut ledger = ledger();
    order_scaled(&mut ledger, 0, 4, &[2.0]);
    ledger.assign(ms(0));
    let (_, id) = given(&actions(&mut ledger))[0];
    ledger.on_arrived(A, id, Landing::Host, ms(1));
    ledger.on_done(A, done(id, 4, 5), ms(1));
    ledger.assign(ms(1000));
    assert_eq!(given(&actions(&mut ledger)).len(), 1);
}
