//! What a finished batch says of where its bytes are.

use std::ops::Range;

use headwater_transport::{LeaseId, PeerId};

use super::super::{Action, FinishedBatch, Landing, Ledger};
use super::ms;
use super::rules::{A, B, actions, done, given, hedged, ledger, order};

fn bring(ledger: &mut Ledger, (peer, id): (PeerId, LeaseId), landing: Landing) {
    ledger.on_arrived(peer, id, landing, ms(50));
    ledger.on_done(peer, done(id, 4, 5), ms(50));
    let asked = actions(ledger);
    let wanted =
        |a: &Action| matches!(a, Action::Verify { landing: found, .. } if *found == landing);
    assert!(asked.iter().any(wanted), "compared where it is: {asked:?}");
    ledger.on_verified(id, true, ms(50));
}

fn delivered(ledger: &mut Ledger) -> FinishedBatch {
    let mut after = actions(ledger).into_iter();
    let finished = after.find_map(|action| match action {
        Action::Deliver(finished) => Some(*finished),
        _ => None,
    });
    finished.expect("a batch")
}

fn one(range: Range<u32>) -> Vec<Range<u32>> {
    vec![range]
}

#[test]
fn samples_that_a_card_wrote_to_a_gpu_are_told_from_those_on_the_host() {
    use Landing::{Device, Host};
    for (landings, on_host) in [
        ([Host, Host, Host, Host], one(0..16)),
        ([Device, Device, Device, Device], vec![]),
        ([Host, Host, Device, Host], vec![0..8, 12..16]),
        ([Device, Host, Device, Device], one(4..8)),
    ] {
        let mut ledger = ledger();
        order(&mut ledger, 0, 16);
        ledger.assign(ms(0));
        let leases = given(&actions(&mut ledger));
        assert_eq!(leases.len(), 4);
        for (lease, landing) in leases.into_iter().zip(landings).rev() {
            bring(&mut ledger, lease, landing);
        }
        assert_eq!(delivered(&mut ledger).on_host, on_host, "{landings:?}");
    }
}

#[test]
fn of_two_copies_the_one_that_was_taken_says_where_the_bytes_are() {
    for (taken, on_host) in [(Landing::Host, one(0..4)), (Landing::Device, vec![])] {
        let (mut ledger, first, second) = hedged();
        bring(&mut ledger, (B, second), taken);
        assert_eq!(delivered(&mut ledger).on_host, on_host);
        let other = if taken == Landing::Host { Landing::Device } else { Landing::Host };
        ledger.on_arrived(A, first, other, ms(60));
        ledger.on_done(A, done(first, 4, 5), ms(60));
        assert!(actions(&mut ledger).is_empty());
    }
}
