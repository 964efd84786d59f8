//! What the last minutes looked like.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use super::report::{History, Report};

/// Time between two points.
pub(crate) const POINT_EVERY: Duration = Duration::from_secs(1);
/// Points that are kept: five minutes.
const POINTS_MAX: usize = 300;

/// Points, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Past {
    points: VecDeque<Point>,
    last: Option<Instant>,
}

#[derive(Debug)]
struct Point {
    samples_per_s: Option<f64>,
    wait_share: Option<f64>,
    wait_by_cause: BTreeMap<String, f64>,
}

// === impl Past ===

impl Past {
    /// Adds a report.
    pub(crate) fn add(&mut self, report: &Report) {
        let now = Instant::now();
        // Rounds that took longer leave out points, so that equal distances are equal times.
        let late = self.last.map_or(0, |last| {
            let passed = now.duration_since(last).as_secs_f64() / POINT_EVERY.as_secs_f64();
            (passed.round() as usize).saturating_sub(1)
        });
        self.last = Some(now);
        for _ in 0..late.min(POINTS_MAX) {
            self.push(Point {
                samples_per_s: None,
                wait_share: None,
                wait_by_cause: BTreeMap::new(),
            });
        }
        let causes = report.wait_by_cause.iter();
        self.push(Point {
            samples_per_s: report.summary.samples_per_s,
            wait_share: report.summary.wait_share,
            wait_by_cause: causes.map(|of| (of.cause.clone(), of.share_of_time)).collect(),
        });
    }

    /// The points as lists of equal length.
    pub(crate) fn history(&self) -> History {
        let causes: BTreeSet<&String> =
            self.points.iter().flat_map(|point| point.wait_by_cause.keys()).collect();
        let of_cause = |cause: &String| {
            let share = |point: &Point| {
                // A cause that is not there was not waited for.
                point.wait_share.map(|_| point.wait_by_cause.get(cause).copied().unwrap_or(0.0))
            };
            (cause.clone(), self.points.iter().map(share).collect())
        };
        History {
            every_s: POINT_EVERY.as_secs_f64(),
            samples_per_s: self.points.iter().map(|point| point.samples_per_s).collect(),
            wait_share: self.points.iter().map(|point| point.wait_share).collect(),
            wait_by_cause: causes.into_iter().map(of_cause).collect(),
        }
    }

    fn push(&mut self, point: Point) {
        if self.points.len() == POINTS_MAX {
            self.points.pop_front();
        }
        self.points.push_back(point);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::report::{CauseShare, Summary};

    #[test]
    fn lists_are_equally_long_and_bounded() {
        let mut past = Past::default();
        for point in 0..POINTS_MAX + 10 {
            let cause = if point % 2 == 0 { "read" } else { "decode" };
            let share =
                CauseShare { cause: cause.to_owned(), share_of_time: 0.5, share_of_wait: 1.0 };
            let summary = Summary { wait_share: Some(0.5), ..Summary::default() };
            past.add(&Report { summary, wait_by_cause: vec![share], ..Report::default() });
        }
        let history = past.history();
        assert_eq!(
            (history.samples_per_s.len(), history.wait_share.len()),
            (POINTS_MAX, POINTS_MAX)
        );
        let read = &history.wait_by_cause["read"];
        assert_eq!((read.len(), read[0], read[1]), (POINTS_MAX, Some(0.5), Some(0.0)));
        assert_eq!(history.samples_per_s[0], None, "not known");
    }
}
