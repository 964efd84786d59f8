//! The controller beside loads that were recorded from a job on a machine (tests/tools/record_load.py), noise and all.

use headwater_autoscale::Policy;

use crate::plant::{LOOK_S, Plant};

/// As many ranks as the recorded one, and each with its load.
const RANKS: f64 = 40.0;
const RECORDED: &str = include_str!("one-rank-one-worker.csv");

/// One look: the step's time in ms (0: no rank), samples a second, shares waited and worked.
struct Row {
    step_ms: u32,
    samples_per_s: f64,
    stall: f64,
    busy: f64,
}

fn rows() -> Vec<Row> {
    let lines = RECORDED.lines().filter(|line| !line.starts_with('#'));
    let row = |line: &str| {
        let fields: Vec<f64> = line.split(',').map(|field| field.parse().expect(line)).collect();
        let [_, step_ms, samples_per_s, stall, busy] = fields[..] else { panic!("{line}") };
        Row { step_ms: step_ms as u32, samples_per_s, stall, busy }
    };
    lines.map(row).collect()
}

// === impl Row ===

impl Row {
    /// Samples a second that the ranks would take if they never waited.
    fn demand(&self) -> f64 {
        RANKS * self.samples_per_s / (1.0 - self.stall.min(0.95))
    }
}

/// Samples a second that the recorded worker made, of those it would have made had it worked all the time.
fn worker_rate(rows: &[Row]) -> f64 {
    let working = rows.iter().filter(|row| row.busy > 0.2);
    let mut rates: Vec<f64> = working.map(|row| row.samples_per_s / row.busy).collect();
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}

/// Rows of one step of the load after another.
fn steps(rows: &[Row]) -> Vec<&[Row]> {
    rows.chunk_by(|one, next| one.step_ms == next.step_ms).collect()
}

#[test]
fn recorded_steps_are_followed_up_and_down_without_flapping() {
    let rows = rows();
    let mut plant = Plant::new(Policy { workers_max: 200, ..Policy::default() }, 4);
    plant.worker_rate = worker_rate(&rows);
    let mut heights = Vec::new();
    for step in steps(&rows) {
        for row in step {
            plant.run(LOOK_S, |_| row.demand());
        }
        // The second half, by which the number has settled.
        let late: Vec<f64> = step[step.len() / 2..].iter().map(Row::demand).collect();
        let mean = late.iter().sum::<f64>() / late.len() as f64;
        let fewest = (0.93 * mean / plant.worker_rate).floor() as u32;
        assert!(
            plant.asked >= fewest,
            "{} ms: {} of {fewest} workers",
            step[0].step_ms,
            plant.asked
        );
        heights.push((step[0].step_ms, mean, plant.asked));
    }
    println!("{:.0} samples/s a worker; {heights:?}\n{:?}", plant.worker_rate, plant.changes);
    // As often as the load itself turned, and no more.
    let loads: Vec<f64> = heights.iter().map(|(_, mean, _)| *mean).collect();
    let rises: Vec<bool> = loads.windows(2).map(|pair| pair[1] > pair[0]).collect();
    let turned = rises.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(plant.turns() <= turned, "{} turns for {turned}: {:?}", plant.turns(), plant.changes);
    let most = plant.changes.iter().map(|(_, _, to)| *to).max().expect("changes");
    assert!(most > 20, "it did not go up for the high ones: {:?}", plant.changes);
    // Once the step down that was a mistake is forgotten, as many are left as the last load takes.
    let (_, mean, _) = heights[heights.len() - 1];
    plant.run(7200.0, |_| mean);
    let aim = (mean / plant.worker_rate / 0.8).ceil() as u32;
    assert!(plant.asked <= aim + 1, "{} for {aim}: {:?}", plant.asked, plant.changes);
}

#[test]
fn noise_within_a_recorded_step_changes_nothing_once_the_number_is_right() {
    let rows = rows();
    for step in steps(&rows) {
        let mut plant = Plant::new(Policy { workers_max: 200, ..Policy::default() }, 4);
        plant.worker_rate = worker_rate(&rows);
        let mut played = step.iter().cycle();
        let mut play = |plant: &mut Plant, looks: usize| {
            for row in played.by_ref().take(looks) {
                plant.run(LOOK_S, |_| row.demand());
            }
        };
        play(&mut plant, 400);
        let settled = plant.changes.len();
        play(&mut plant, 1920);
        let step_ms = step[0].step_ms;
        assert!(plant.changes.len() <= settled + 1, "{step_ms} ms: {:?}", plant.changes);
    }
}
