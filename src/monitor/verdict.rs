//! Which stage holds the training up.
//!
//! docs/monitor.md has the rules in words.

use std::collections::BTreeMap;

use super::remedy::{remedy, short, title};
use super::report::{Stage, Verdict};
use super::rows::PENDING;
use super::seen::{Seen, Wait, percent};

/// Ranks that wait for less than this share of their time are not held up.
const WAIT_MIN: f64 = 0.02;
/// One rank that waits for more than this share holds up all others, however little these wait.
const WAIT_OF_ONE_MIN: f64 = 0.1;

// === impl Stage ===

impl Stage {
    /// The stage of a cause; `None` for a cause that does not belong to a stage.
    pub(crate) fn of_cause(cause: &str) -> Self {
        match cause {
            "read" | "fetch" => Self::Storage,
            "queue" | "decode" | "augment" => Self::Augment,
            "deliver" => Self::Link,
            "device" => Self::Device,
            "nobody" | "retry" => Self::Nobody,
            "host" => Self::Host,
            "held" | "pace" => Self::Trainer,
            _ => Self::None,
        }
    }

    /// Its name in reports.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Storage => "storage",
            Self::Augment => "augment",
            Self::Link => "link",
            Self::Device => "device",
            Self::Trainer => "trainer",
            Self::Nobody => "nobody",
            Self::Host => "host",
            Self::None => "none",
        }
    }
}

/// Names the stage that ranks wait for most.
pub(crate) fn verdict(seen: &Seen<'_>) -> Verdict {
    if !seen.ranks.iter().any(|rank| rank.up) {
        return nothing(match seen.ranks.is_empty() {
            true => "no training rank is known",
            false => "no training rank answers",
        });
    }
    let waits: Vec<f64> = seen.ranks.iter().filter_map(|rank| rank.wait_share).collect();
    if waits.is_empty() {
        return nothing("measuring");
    }
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    let most = waits.iter().copied().fold(0.0, f64::max);
    if mean < WAIT_MIN && most < WAIT_OF_ONE_MIN {
        return unheld(seen, mean);
    }
    judge(seen, &wait(seen, mean))
}

/// Ranks hardly wait.
fn unheld(seen: &Seen<'_>, wait: f64) -> Verdict {
    let takes = seen.ranks.iter().any(|rank| rank.samples_per_s.is_some_and(|rate| rate > 0.0));
    let text = match takes {
        true => format!(
            "trainer: ranks wait for {} of their time; the trainer is the slower side",
            percent(wait)
        ),
        false => "trainer: takes no batches, and waits for none".to_owned(),
    };
    Verdict { stage: Stage::Trainer, share: None, text, remedy: String::new() }
}

/// What is waited for: by all, or by the one that the others wait for in their collectives.
fn wait<'a>(seen: &Seen<'a>, mean: f64) -> Wait<'a> {
    let pairs = || seen.ranks.iter().zip(seen.causes).filter(|(rank, _)| rank.wait_share.is_some());
    let worst = pairs().max_by(|(a, _), (b, _)| {
        a.wait_share.unwrap_or(0.0).total_cmp(&b.wait_share.unwrap_or(0.0))
    });
    let one = worst.filter(|_| mean < WAIT_MIN);
    let of = one.into_iter().chain(pairs().filter(|_| one.is_none()));
    let mut causes: BTreeMap<&'a str, f64> = BTreeMap::new();
    for (cause, share) in of.flat_map(|(_, causes)| causes) {
        *causes.entry(cause).or_default() += share;
    }
    let total: f64 = causes.values().sum();
    if total > 0.0 {
        causes.values_mut().for_each(|share| *share /= total);
    }
    let mut stages = BTreeMap::new();
    for (cause, share) in &causes {
        *stages.entry(Stage::of_cause(cause)).or_default() += share;
    }
    let share = one.and_then(|(rank, _)| rank.wait_share).unwrap_or(mean);
    Wait { share, by: one.map(|(rank, _)| rank.name.as_str()), stages, causes }
}

fn judge(seen: &Seen<'_>, wait: &Wait<'_>) -> Verdict {
    let most = wait.stages.iter().max_by(|a, b| a.1.total_cmp(b.1));
    let Some((stage, share)) = most else {
        let waits = percent(wait.share);
        return nothing(&format!("ranks wait for {waits} of their time, and do not show what for"));
    };
    if *stage == Stage::None {
        let waits = percent(wait.share);
        return nothing(&match wait.causes.contains_key(PENDING) {
            true => format!(
                "ranks wait for {waits} of their time; what for is known when the batch comes"
            ),
            false => format!("ranks wait for {waits} of their time, for something unknown here"),
        });
    }
    let whose = match wait.by {
        None => "the wait".to_owned(),
        Some(rank) => format!("the wait of {rank}, which the other ranks wait for"),
    };
    let title = title(*stage, wait);
    let text = format!("{title}: {} of {whose}; {}", percent(*share), short(*stage, seen, wait));
    Verdict { stage: *stage, share: Some(*share), text, remedy: remedy(*stage, seen, wait) }
}

fn nothing(text: &str) -> Verdict {
    Verdict { stage: Stage::None, share: None, text: text.to_owned(), remedy: String::new() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::monitor::report::{Rank, Worker};

    const CAUSES: [(&str, Stage); 12] = [
        ("read", Stage::Storage),
        ("fetch", Stage::Storage),
        ("queue", Stage::Augment),
        ("decode", Stage::Augment),
        ("augment", Stage::Augment),
        ("deliver", Stage::Link),
        ("device", Stage::Device),
        ("nobody", Stage::Nobody),
        ("retry", Stage::Nobody),
        ("held", Stage::Trainer),
        ("pace", Stage::Trainer),
        ("host", Stage::Host),
    ];

    /// A rank that takes 100 samples each second and waits for these shares of its time.
    fn rank(name: &str, causes: &[(&str, f64)]) -> Rank {
        Rank {
            name: name.to_owned(),
            up: true,
            samples_per_s: Some(100.0),
            workers: Some(2),
            wait_share: Some(causes.iter().map(|(_, share)| share).sum()),
            wait_by_cause: causes
                .iter()
                .map(|(cause, share)| ((*cause).to_owned(), *share))
                .collect(),
            ..Rank::default()
        }
    }

    fn workers(count: usize, busy: f64) -> Vec<Worker> {
        let worker =
            Worker { up: true, threads: Some(4), busy_share: Some(busy), ..Worker::default() };
        vec![worker; count]
    }

    fn judged(ranks: &[Rank], workers: &[Worker]) -> Verdict {
        let causes: Vec<_> = ranks.iter().map(|rank| rank.wait_by_cause.clone()).collect();
        verdict(&Seen { ranks, causes: &causes, workers, busy_low: 0.6, ..Seen::default() })
    }

    #[test]
    fn the_stage_that_is_waited_for_most_is_named() {
        for (cause, stage) in CAUSES {
            // A little of everything else.
            let others = CAUSES.iter().filter(|(_, other)| *other != stage);
            let mut causes: Vec<(&str, f64)> = others.map(|(other, _)| (*other, 0.01)).collect();
            causes.push((cause, 0.2));
            let verdict = judged(&[rank("rank 0", &causes)], &workers(2, 0.9));
            assert_eq!(verdict.stage, stage, "{cause}: {}", verdict.text);
            let title = match cause {
                "nobody" => "no worker: ",
                "retry" => "lost processes: ",
                _ => stage.name(),
            };
            assert!(verdict.text.starts_with(title), "{}", verdict.text);
            assert!(verdict.share.is_some_and(|share| share > 0.6) && !verdict.remedy.is_empty());
        }
    }

    #[test]
    fn causes_of_one_stage_count_together() {
        let causes = [("decode", 0.06), ("augment", 0.06), ("queue", 0.03), ("read", 0.1)];
        let verdict = judged(&[rank("rank 0", &causes)], &workers(2, 0.9));
        assert_eq!((verdict.stage, verdict.share), (Stage::Augment, Some(0.6)));
    }

    #[test]
    fn ranks_that_hardly_wait_are_held_up_by_nobody_whatever_they_wait_for() {
        for (cause, _) in CAUSES {
            let verdict = judged(&[rank("rank 0", &[(cause, 0.015)])], &workers(2, 1.0));
            assert_eq!((verdict.stage, verdict.share), (Stage::Trainer, None), "{cause}");
            let said = "trainer: ranks wait for 2 % of their time; the trainer is the slower side";
            assert_eq!((verdict.text.as_str(), verdict.remedy.as_str()), (said, ""));
        }
        let ended = Rank { samples_per_s: Some(0.0), ..rank("rank 0", &[]) };
        assert_eq!(judged(&[ended], &[]).text, "trainer: takes no batches, and waits for none");
    }

    #[test]
    fn one_rank_that_the_others_wait_for_is_named() {
        let mut ranks: Vec<Rank> =
            (0..63).map(|at| rank(&format!("rank {at}"), &[("decode", 0.001)])).collect();
        ranks.push(rank("run7 rank 63", &[("deliver", 0.54), ("read", 0.06)]));
        let verdict = judged(&ranks, &workers(2, 0.5));
        assert_eq!(verdict.stage, Stage::Link);
        let said = "link: 90 % of the wait of run7 rank 63, which the other ranks wait for; ";
        assert!(verdict.text.starts_with(said), "{}", verdict.text);
    }

    #[test]
    fn workers_that_are_missing_are_counted() {
        let ranks = [
            rank("rank 0", &[("decode", 0.4), ("augment", 0.035), ("read", 0.065)]),
            rank("rank 1", &[("decode", 0.4), ("augment", 0.035), ("read", 0.065)]),
        ];
        // The ranks could take twice as many: 4 / 0.85 x 2 is 9.4.
        let verdict = judged(&ranks, &workers(4, 1.0));
        assert_eq!(verdict.text, "augment: 87 % of the wait; 6 more workers of this size");
        assert!(verdict.remedy.contains("4 workers are busy"), "{}", verdict.remedy);
        let verdict = judged(&ranks, &workers(4, 0.3));
        assert!(verdict.text.ends_with("workers are busy for only 30 %"), "{}", verdict.text);
        assert!(verdict.remedy.contains("receiver.window_batches"), "{}", verdict.remedy);
        // Three of thirty have no time left, which the mean hides.
        let uneven = [workers(27, 0.3), workers(3, 0.98)].concat();
        let verdict = judged(&ranks, &uneven);
        let said = "the busiest workers work for 98 % of their time, all of them for 37 %";
        assert!(verdict.text.ends_with(said), "{}", verdict.text);
        assert!(verdict.remedy.contains("receiver.workers_max"), "{}", verdict.remedy);
        let verdict = judged(&ranks, &[]);
        assert!(verdict.text.ends_with("2.0 times as many workers"), "{}", verdict.text);
    }

    #[test]
    fn samples_that_come_over_grpc_beside_their_files_are_told() {
        let reads = |file: f64, grpc: f64, not_local| {
            let rates = [("file", file), ("grpc", grpc)].map(|(way, rate)| (way.to_owned(), rate));
            let reads_per_s_by_way = BTreeMap::from(rates);
            let name = format!("w{file}");
            Worker { name, reads_per_s_by_way, not_local, ..workers(1, 0.5).remove(0) }
        };
        let slow = [rank("rank 0", &[("read", 0.4)])];
        let remote = reads(0.0, 900.0, Some(0));
        let told = |worker: Worker| judged(&slow, &[worker, remote.clone()]);
        let verdict = told(reads(200.0, 450.0, Some(3)));
        assert!(verdict.text.contains("69 % of samples come over grpc"), "{}", verdict.text);
        assert!(verdict.remedy.contains("the log of w200"), "{}", verdict.remedy);
        let verdict = told(reads(0.0, 450.0, Some(3)));
        assert!(verdict.text.contains("100 % of samples"), "{}", verdict.text);
        for none in [reads(650.0, 10.0, Some(1)), reads(0.0, 650.0, None), reads(0.0, 0.0, Some(2))]
        {
            let verdict = told(none);
            assert!(
                verdict.text.ends_with("ranks wait for 40 % of their time"),
                "{}",
                verdict.text
            );
        }
    }

    #[test]
    fn what_is_not_known_is_not_guessed() {
        assert_eq!(judged(&[], &[]).text, "no training rank is known");
        let down = Rank { up: false, wait_share: None, ..rank("rank 0", &[]) };
        assert_eq!(judged(&[down], &[]).text, "no training rank answers");
        let first = Rank { wait_share: None, ..rank("rank 0", &[]) };
        assert_eq!(judged(&[first], &[]).text, "measuring");
        let silent = Rank { wait_share: Some(0.5), ..rank("rank 0", &[]) };
        let pending = rank("rank 0", &[("pending", 0.9)]);
        let new = rank("rank 0", &[("moonlight", 0.9), ("decode", 0.05)]);
        for (rank, said) in [
            (silent, "do not show what for"),
            (pending, "when the batch comes"),
            (new, "unknown here"),
        ] {
            let verdict = judged(&[rank], &workers(2, 1.0));
            assert_eq!((verdict.stage, verdict.share), (Stage::None, None));
            assert!(verdict.text.contains(said), "{}", verdict.text);
        }
    }

    #[test]
    fn a_rank_without_workers_is_named_with_where_they_should_be() {
        let lonely = Rank { workers: Some(0), ..rank("run7 rank 0", &[("nobody", 1.0)]) };
        let causes = [lonely.wait_by_cause.clone()];
        let verdict = verdict(&Seen {
            ranks: &[lonely],
            causes: &causes,
            configured_workers: &["n1:7402".to_owned()],
            troubles: &["n1:9400: connection refused".to_owned()],
            ..Seen::default()
        });
        assert_eq!(verdict.text, "no worker: 100 % of the wait; run7 rank 0 has none");
        assert!(verdict.remedy.contains("n1:7402") && verdict.remedy.contains("n1:9400"));
    }
}
