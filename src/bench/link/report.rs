//! Figures, and how they are shown.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ways::Way;

/// One measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figures {
    /// 1e9 bytes per second.
    pub(crate) gb_per_s: f64,
    /// Processor seconds of both processes per 1e9 bytes.
    pub(crate) cpu_s_per_gb: f64,
    /// Wall time of one part.
    pub(crate) part: Duration,
}

/// The measurements of every way.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    /// Bytes of one batch.
    pub(crate) batch_bytes: u64,
    /// In the order of [`Way::all`], with one entry per round. Ways that were not measured are
    /// left out.
    pub(crate) ways: Vec<(Way, Vec<Figures>)>,
    /// What the programs that others wrote were made to do.
    pub(crate) compared: Vec<(Way, String)>,
    /// A sentence on each link and program that is not here.
    pub(crate) absent: Vec<String>,
}

/// Medians over the rounds, as `--json` prints them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Summary {
    /// Bytes of one batch.
    pub(crate) batch_bytes: u64,
    pub(crate) rows: Vec<Row>,
    pub(crate) ratios: Vec<Ratio>,
    /// What the programs that others wrote were made to do.
    pub(crate) compared: Vec<String>,
    /// A sentence on each link and program that is not here.
    pub(crate) absent: Vec<String>,
}

/// One way. Figures that it does not have are null.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) way: String,
    /// Whether it is what links are compared with.
    pub(crate) is_yardstick: bool,
    pub(crate) bytes_per_s: Option<f64>,
    pub(crate) cpu_s_per_gb: Option<f64>,
    /// Microseconds.
    pub(crate) part_us: Option<f64>,
}

/// The throughput of one way relative to another's in the same round.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Ratio {
    pub(crate) name: String,
    pub(crate) ratio: f64,
}

// === impl Report ===

impl Report {
    /// The round of median throughput.
    #[must_use]
    pub(crate) fn median(&self, way: Way) -> Option<Figures> {
        let (_, rounds) = self.ways.iter().find(|(other, _)| *other == way)?;
        let mut rounds = rounds.clone();
        rounds.sort_by(|a, b| a.gb_per_s.total_cmp(&b.gb_per_s));
        rounds.get(rounds.len() / 2).copied()
    }

    /// Median over rounds of the throughput of one way relative to another's in the same round.
    #[must_use]
    pub(crate) fn ratio(&self, way: Way, to: Way) -> Option<f64> {
        let rounds = |wanted: Way| self.ways.iter().find(|(way, _)| *way == wanted);
        let ((_, ours), (_, theirs)) = (rounds(way)?, rounds(to)?);
        let mut ratios: Vec<f64> =
            ours.iter().zip(theirs).map(|(a, b)| a.gb_per_s / b.gb_per_s).collect();
        ratios.sort_by(f64::total_cmp);
        ratios.get(ratios.len() / 2).copied()
    }

    /// Medians over the rounds.
    #[must_use]
    pub(crate) fn summary(&self) -> Summary {
        let rows = self.ways.iter().filter_map(|(way, _)| Some(row(*way, self.median(*way)?)));
        let ratio =
            |(name, way, to): (String, Way, Way)| Some(Ratio { name, ratio: self.ratio(way, to)? });
        let compared = self.compared.iter().map(|(way, what)| format!("{}: {what}", way.name()));
        Summary {
            batch_bytes: self.batch_bytes,
            rows: rows.collect(),
            ratios: Way::pairs().into_iter().filter_map(ratio).collect(),
            compared: compared.collect(),
            absent: self.absent.clone(),
        }
    }
}

fn row(way: Way, Figures { gb_per_s, cpu_s_per_gb, part }: Figures) -> Row {
    let reference = match way {
        Way::Reference(reference) => Some(reference),
        _ => None,
    };
    let costs = !way.is_empty() && reference.is_none_or(|reference| reference.counts_cpu);
    Row {
        way: way.name(),
        is_yardstick: way.route().is_none(),
        bytes_per_s: (!way.is_empty()).then_some(gb_per_s * 1e9),
        cpu_s_per_gb: costs.then_some(cpu_s_per_gb),
        part_us: reference.is_none().then_some(part.as_secs_f64() * 1e6),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let summary = self.summary();
        let megabytes = self.batch_bytes as f64 / 1e6;
        writeln!(f, "batches of {megabytes:.1} MB between two processes, medians")?;
        writeln!(f, "{:19} {:>8} {:>8} {:>10}", "way", "GB/s", "CPU s/GB", "us/part")?;
        for Row { way, bytes_per_s, cpu_s_per_gb, part_us, .. } in &summary.rows {
            let speed = shown(bytes_per_s.map(|bytes| bytes / 1e9), 2);
            let (cpu, part) = (shown(*cpu_s_per_gb, 3), shown(*part_us, 1));
            writeln!(f, "{way:19} {speed:>8} {cpu:>8} {part:>10}")?;
        }
        for compared in &summary.compared {
            writeln!(f, "{compared}")?;
        }
        for absent in &summary.absent {
            writeln!(f, "not measured: {absent}")?;
        }
        let ratios =
            summary.ratios.iter().map(|Ratio { name, ratio }| format!("{name}: {ratio:.2}"));
        write!(f, "{}", ratios.collect::<Vec<_>>().join("\n"))
    }
}

fn shown(figure: Option<f64>, decimals: usize) -> String {
    figure.map_or_else(|| "-".to_owned(), |figure| format!("{figure:.decimals$}"))
}

#[cfg(test)]
mod tests {
    use headwater_transport::LinkKind;

    use super::*;
    use crate::bench::link::ways::Route;

    #[test]
    fn both_forms_have_the_median_round_and_leave_out_what_a_way_does_not_have() {
        let round = |gb_per_s: f64| Figures {
            gb_per_s,
            cpu_s_per_gb: 1.0 / gb_per_s,
            part: Duration::from_micros(500),
        };
        let link = |kind| Way::Link(Route { kind, encrypted: false });
        let report = Report {
            batch_bytes: 33_400_000,
            ways: vec![
                (Way::RawSocket, [1.0, 4.0, 2.0].map(round).to_vec()),
                (link(LinkKind::Tcp), [2.0, 2.0, 3.0].map(round).to_vec()),
                (link(LinkKind::Shm), [9.0; 3].map(round).to_vec()),
            ],
            compared: Vec::new(),
            absent: vec!["rdma: no port".to_owned()],
        };
        let summary = report.summary();
        let speeds: Vec<_> = summary.rows.iter().map(|row| row.bytes_per_s).collect();
        assert_eq!(speeds, [Some(2e9), Some(2e9), None]);
        let yardsticks: Vec<bool> = summary.rows.iter().map(|row| row.is_yardstick).collect();
        assert_eq!(yardsticks, [true, false, false]);
        assert_eq!((summary.ratios.len(), summary.ratios[0].ratio), (1, 1.5));
        let text = report.to_string();
        assert!(text.contains("tcp                     2.00    0.500      500.0"), "{text}");
        assert!(text.contains("shm-empty                  -        -      500.0"), "{text}");
        assert!(text.ends_with("not measured: rdma: no port\ntcp / raw socket: 1.50"), "{text}");
    }
}
