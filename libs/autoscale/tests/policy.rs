//! What a policy may be.

use std::time::Duration;

use headwater_autoscale::{Controller, Observation, Policy, Reason};

#[test]
fn values_that_contradict_each_other_are_named() {
    for (policy, key) in [
        (Policy { workers_min: 0, ..Policy::default() }, "workers_min"),
        (Policy { workers_max: 0, ..Policy::default() }, "workers_max"),
        (Policy { stall_low: 0.05, ..Policy::default() }, "stall_low"),
        (Policy { busy_low: 0.9, ..Policy::default() }, "busy_low"),
        (Policy { growth_multiple: 1.0, ..Policy::default() }, "growth_multiple"),
        (Policy { regret_s: f64::NAN, ..Policy::default() }, "regret_s"),
    ] {
        let error = Controller::new(policy).map(drop).unwrap_err();
        assert_eq!(error.key, key);
        assert!(error.to_string().starts_with(&format!("`scaling.{key}` is ")), "{error}");
    }
}

/// Receivers keep sessions with a part of the workers: that those are busy says nothing of storage.
#[test]
fn busy_workers_beside_idle_ones_are_not_taken_for_another_tier_that_is_short() {
    let reason = |busiest| {
        let mut controller = Controller::new(Policy::default()).expect("a policy");
        let (stall, busy) = (Some(0.5), Some(0.3));
        let seen = Observation { at: Duration::ZERO, asked: 8, serving: 8, stall, busy, busiest };
        let decision = controller.decide(&seen);
        assert_eq!(decision.workers, 8);
        decision.reason
    };
    assert_eq!(reason(Some(0.97)), Reason::Uneven);
    assert_eq!(reason(Some(0.5)), Reason::OtherTierShort);
    assert_eq!(reason(None), Reason::OtherTierShort);
}
