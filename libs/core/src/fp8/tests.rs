//! Delayed scaling against the rule written out, and against itself on other ways through a run.

use super::*;

/// Amaxes of an epoch, with zeros among them.
fn amaxes(steps: u64) -> Vec<Vec<f32>> {
    let value = |step: u64, tensor: u64| match (step * 7 + tensor * 3) % 11 {
        0 | 1 => 0.0,
        n => n as f32 * 0.37 + tensor as f32,
    };
    (0..steps).map(|step| vec![value(step, 0), value(step / 9, 1)]).collect()
}

/// The scales of every step, by Transformer Engine's update of a rolling buffer: after each batch
/// the scale follows from the largest of the buffer, then the oldest amax leaves it.
fn by_rolling_buffer(rule: DelayedScaling, amaxes: &[Vec<f32>], tensor: usize) -> Vec<f32> {
    let mut buffer = vec![0.0f32; rule.window as usize];
    let mut scales = vec![1.0f32; rule.delay as usize];
    for amax in amaxes {
        buffer.rotate_left(1);
        *buffer.last_mut().unwrap() = amax[tensor];
        let largest = buffer.iter().copied().fold(0.0, f32::max);
        let before = *scales.last().unwrap();
        let scale = 448.0 / largest / (1u32 << rule.margin) as f32;
        scales.push(if largest == 0.0 { before } else { scale });
    }
    scales
}

fn rules() -> impl Iterator<Item = DelayedScaling> {
    [(16, 0, 8), (1, 0, 1), (3, 2, 1), (4, 1, 5), (1, 0, 3)]
        .into_iter()
        .map(|(window, margin, delay)| DelayedScaling { window, margin, delay })
}

#[test]
fn scales_are_those_of_a_rolling_buffer_whenever_they_are_asked_for() {
    let amaxes = amaxes(60);
    for rule in rules() {
        let expected = [0, 1].map(|tensor| by_rolling_buffer(rule, &amaxes, tensor));
        let mut history = AmaxHistory::new(rule, 2, 3);
        for (step, taken) in amaxes.iter().enumerate() {
            for ahead in 0..rule.delay as usize {
                let scales = history.scales(3, (step + ahead) as u64).expect("known");
                let expected = [expected[0][step + ahead], expected[1][step + ahead]];
                assert_eq!(scales, expected, "{rule:?} step {step} + {ahead}");
            }
            assert_eq!(history.scales(3, step as u64 + u64::from(rule.delay)), None);
            history.observe(3, step as u64, taken.clone());
        }
    }
}

#[test]
fn a_history_that_was_written_and_read_goes_on_as_if_nothing_had_happened() {
    let amaxes = amaxes(60);
    for rule in rules() {
        let mut history = AmaxHistory::new(rule, 2, 1);
        for (step, taken) in (0..).zip(&amaxes) {
            let state = history.state(1, step);
            assert_eq!(state.is_none(), step == 0);
            let text = serde_json::to_string(&state).expect("plain data");
            let state: Option<AmaxState> = serde_json::from_str(&text).expect("a state");
            let resumed = AmaxHistory::resume(rule, 2, (1, step), state.as_ref());
            assert_eq!(resumed.expect("a history"), history, "{rule:?} step {step}");
            history.observe(1, step, taken.clone());
        }
    }
}

#[test]
fn an_epoch_begins_anew_and_may_be_ordered_early() {
    let rule = DelayedScaling { window: 4, margin: 0, delay: 3 };
    let mut history = AmaxHistory::new(rule, 1, 0);
    (0..9).for_each(|step| history.observe(0, step, vec![2.0]));
    assert_eq!(history.scales(0, 9), Some(vec![224.0]));
    assert_eq!(history.scales(1, 2), Some(vec![1.0]));
    assert_eq!(history.scales(1, 3), None, "it follows from batches that are not made");
    history.observe(1, 0, vec![4.0]);
    assert_eq!(history.scales(1, 3), Some(vec![112.0]));
}

#[test]
fn a_magnitude_that_says_nothing_keeps_the_scale() {
    for amax in [0.0, f32::INFINITY, f32::NAN] {
        assert_eq!(next_scale(amax, 0, 3.5), 3.5, "{amax}");
    }
    assert_eq!(next_scale(1e-45, 0, 3.5), f32::MAX);
    assert_eq!(next_scale(2.0, 3, 3.5), 28.0);
}

#[test]
fn a_state_of_another_place_is_refused() {
    let rule = DelayedScaling { window: 4, margin: 0, delay: 3 };
    let state = AmaxState { scales: vec![1.0], amaxes: vec![vec![2.0]; 6] };
    let resume = |step, state: Option<&AmaxState>| {
        AmaxHistory::resume(rule, 1, (0, step), state).map_err(|error| error.to_string())
    };
    assert!(resume(9, Some(&state)).is_ok());
    assert!(resume(0, None).is_ok());
    assert!(resume(9, None).unwrap_err().contains("missing"));
    assert!(resume(5, Some(&state)).unwrap_err().contains("6 batches, not of 5"));
    let nan = AmaxState { scales: vec![f64::NAN], ..state.clone() };
    let more = AmaxState { scales: vec![1.0, 2.0], ..state };
    for state in [nan, more] {
        assert!(resume(9, Some(&state)).unwrap_err().contains("binary32"));
    }
}
