//! What a policy may be.

use headwater_autoscale::{Controller, Policy};

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
