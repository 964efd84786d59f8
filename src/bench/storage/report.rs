//! Figures of all rounds, and how they are shown.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Figures, Way};

/// The figures of every way, one a round.
#[derive(Clone, Debug)]
pub(crate) struct Report {
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
    pub(crate) ways: Vec<Way>,
    /// Each in the order of the ways.
    pub(crate) rounds: Vec<Vec<Figures>>,
}

/// Medians over the rounds: units are in the keys.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) samples: u64,
    pub(crate) bytes: u64,
    pub(crate) rounds: usize,
    pub(crate) rows: Vec<Row>,
}

/// One way.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Row {
    pub(crate) way: String,
    pub(crate) samples_per_s: f64,
    pub(crate) bytes_per_s: f64,
    pub(crate) bytes_per_cpu_s: f64,
}

// === impl Report ===

impl Report {
    /// Medians over the rounds, for each figure separately.
    fn median(&self, way: Way) -> Figures {
        let at = self.ways.iter().position(|other| *other == way).unwrap_or_default();
        let of = |figure: fn(&Figures) -> f64| {
            median(self.rounds.iter().filter_map(|round| round.get(at)).map(figure))
        };
        Figures {
            samples_per_s: of(|figures| figures.samples_per_s),
            bytes_per_s: of(|figures| figures.bytes_per_s),
            bytes_per_cpu_s: of(|figures| figures.bytes_per_cpu_s),
        }
    }

    /// What `--json` prints.
    pub(crate) fn summary(&self) -> Summary {
        let row = |way: Way| {
            let figures = self.median(way);
            Row {
                way: way.name().to_owned(),
                samples_per_s: figures.samples_per_s,
                bytes_per_s: figures.bytes_per_s,
                bytes_per_cpu_s: figures.bytes_per_cpu_s,
            }
        };
        Summary {
            samples: self.samples,
            bytes: self.bytes,
            rounds: self.rounds.len(),
            rows: self.ways.iter().copied().map(row).collect(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (samples, megabytes) = (self.samples, self.bytes as f64 / 1e6);
        let rounds = self.rounds.len();
        writeln!(f, "{samples} samples in {megabytes:.0} MB, medians of {rounds} rounds")?;
        writeln!(f, "{:6} {:>12} {:>8} {:>14}", "way", "samples/s", "GB/s", "GB/CPU second")?;
        for &way in &self.ways {
            let Figures { samples_per_s, bytes_per_s, bytes_per_cpu_s } = self.median(way);
            let (gb, gb_per_cpu_s) = (bytes_per_s / 1e9, bytes_per_cpu_s / 1e9);
            writeln!(f, "{:6} {samples_per_s:12.0} {gb:8.2} {gb_per_cpu_s:14.2}", way.name())?;
        }
        let of = |way| self.median(way).bytes_per_cpu_s;
        if [Way::Map, Way::File].iter().all(|way| self.ways.contains(way)) {
            write!(f, "file / map, per CPU second: {:.2}", of(Way::File) / of(Way::Map))?;
        }
        Ok(())
    }
}

fn median(figures: impl Iterator<Item = f64>) -> f64 {
    let mut figures: Vec<f64> = figures.collect();
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn both_forms_show_the_median_of_each_way() {
        let figures = |factor: f64| Figures {
            samples_per_s: 10.0 * factor,
            bytes_per_s: 1e9 * factor,
            bytes_per_cpu_s: 2e9 * factor,
        };
        let round =
            |factor: f64| vec![figures(4.0 * factor), figures(3.0 * factor), figures(factor)];
        let rounds = vec![round(9.0), round(1.0), round(2.0)];
        let ways = vec![Way::Map, Way::File, Way::Grpc];
        let report = Report { samples: 7, bytes: 2_000_000, ways, rounds };
        let rows = &serde_json::to_value(report.summary()).unwrap()["rows"];
        assert_eq!(
            rows[1],
            json!({
                "way": "file", "samples_per_s": 60.0, "bytes_per_s": 6e9, "bytes_per_cpu_s": 12e9,
            })
        );
        let table = report.to_string();
        assert!(table.contains("grpc             20     2.00           4.00"), "{table}");
        assert!(table.ends_with("per CPU second: 0.75"), "{table}");
        let rounds = vec![vec![figures(1.0)]];
        let distant = Report { ways: vec![Way::Grpc], rounds, ..report }.to_string();
        assert!(!distant.contains("map") && distant.contains("grpc             10"), "{distant}");
    }
}
