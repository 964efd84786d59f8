//! Settings with which links are measured: the configured ones, and those that differ from them in a number that has
//! to be tried out.

use std::collections::{BTreeMap, VecDeque};

use headwater_transport::LinkKind;
use headwater_transport::links::{LinksConfig, Tuned};

use super::verdict::{self, Figures};
use crate::doctor::Check;

/// What is still to be measured, and what was.
pub(super) struct Trials<'a> {
    configured: &'a LinksConfig,
    /// By the link's name.
    of_links: BTreeMap<&'static str, Trial>,
}

struct Trial {
    kind: LinkKind,
    left: VecDeque<LinksConfig>,
    /// Numbers that were tried.
    measured: Vec<(u32, Figures)>,
}

// === impl Trials ===

impl<'a> Trials<'a> {
    pub(super) fn new(configured: &'a LinksConfig) -> Self {
        Self { configured, of_links: BTreeMap::new() }
    }

    /// Settings for the next offer of a link: first the configured ones. `None`: all were measured.
    pub(super) fn next(&mut self, kind: LinkKind) -> Option<LinksConfig> {
        let configured = self.configured;
        let trial = self.of_links.entry(kind.name()).or_insert_with(|| {
            let others = kind.facts().tuned.iter().flat_map(|tuned| others(tuned, configured));
            let left = [configured.clone()].into_iter().chain(others).collect();
            Trial { kind, left, measured: Vec::new() }
        });
        trial.left.pop_front()
    }

    /// A link was measured with these settings.
    pub(super) fn note(&mut self, kind: LinkKind, settings: &LinksConfig, figures: Figures) {
        if let (Some(tuned), Some(trial)) =
            (&kind.facts().tuned, self.of_links.get_mut(kind.name()))
        {
            trial.measured.push(((tuned.of)(settings), figures));
        }
    }

    /// Something is wrong with the link: where it was not measured yet, the same is wrong with any number.
    pub(super) fn give_up(&mut self, kind: LinkKind) {
        if let Some(trial) =
            self.of_links.get_mut(kind.name()).filter(|trial| trial.measured.is_empty())
        {
            trial.left.clear();
        }
    }

    /// Which numbers are best.
    pub(super) fn verdicts(self, same_host: bool) -> Vec<Check> {
        let configured = self.configured;
        let verdict = |trial: Trial| {
            let tuned = trial.kind.facts().tuned.as_ref()?;
            verdict::of_tuned(trial.kind, tuned, trial.measured, (tuned.of)(configured), same_host)
        };
        self.of_links.into_values().filter_map(verdict).collect()
    }
}

fn others(tuned: &Tuned, configured: &LinksConfig) -> Vec<LinksConfig> {
    let others = tuned.tried.iter().filter(|number| **number != (tuned.of)(configured));
    others.map(|number| (tuned.with)(configured.clone(), *number)).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn left(trials: &mut Trials<'_>, kind: LinkKind) -> Vec<u32> {
        std::iter::from_fn(|| trials.next(kind)).map(|settings| settings.rdma_queue_pairs).collect()
    }

    #[test]
    fn a_link_is_measured_as_configured_and_then_with_the_numbers_to_try() {
        let configured = LinksConfig { rdma_queue_pairs: 2, ..LinksConfig::default() };
        let mut trials = Trials::new(&configured);
        assert_eq!(left(&mut trials, LinkKind::Rdma), [2, 1, 4]);
        assert_eq!(left(&mut trials, LinkKind::Tcp), [2], "nothing of it has to be tried");
    }

    #[test]
    fn where_the_configured_number_does_not_work_no_other_one_is_tried() {
        let configured = LinksConfig::default();
        let figures = Figures { round_trip: Duration::from_micros(9), gb_per_s: 1.0 };
        for (is_measured, expected) in [(false, &[][..]), (true, &[2, 4])] {
            let mut trials = Trials::new(&configured);
            let settings = trials.next(LinkKind::Rdma).expect("the configured ones");
            if is_measured {
                trials.note(LinkKind::Rdma, &settings, figures);
            }
            trials.give_up(LinkKind::Rdma);
            assert_eq!(left(&mut trials, LinkKind::Rdma), expected);
        }
    }
}
