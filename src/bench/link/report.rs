//! Figures, and how they are shown.

use std::fmt;
use std::time::Duration;

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
    /// In the order of [`Way::ALL`], one entry a round; without those that were not measured.
    pub(crate) ways: Vec<(Way, Vec<Figures>)>,
    /// What the programs that others wrote were made to do.
    pub(crate) compared: Vec<(Way, String)>,
    /// A sentence on each link and program that is not here.
    pub(crate) absent: Vec<String>,
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
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = self.batch_bytes as f64 / 1e6;
        writeln!(f, "batches of {megabytes:.1} MB between two processes, medians")?;
        writeln!(f, "{:19} {:>8} {:>8} {:>10}", "way", "GB/s", "CPU s/GB", "us/part")?;
        for (way, _) in &self.ways {
            let Some(figures) = self.median(*way) else { continue };
            let Figures { gb_per_s, cpu_s_per_gb, part } = figures;
            let part_us = part.as_secs_f64() * 1e6;
            let name = way.name();
            match way {
                Way::ShmEmpty => writeln!(f, "{name:19} {:>8} {:>8} {part_us:>10.1}", "-", "-")?,
                // Its start, of which filling all that memory is a part, takes more than the rest.
                Way::IbWriteAsLink => {
                    writeln!(f, "{name:19} {gb_per_s:>8.2} {:>8} {:>10}", "-", "-")?
                }
                Way::IbWrite | Way::UcxPut => {
                    writeln!(f, "{name:19} {gb_per_s:>8.2} {cpu_s_per_gb:>8.3} {:>10}", "-")?;
                }
                _ => writeln!(f, "{name:19} {gb_per_s:>8.2} {cpu_s_per_gb:>8.3} {part_us:>10.1}")?,
            }
        }
        for (way, what) in &self.compared {
            writeln!(f, "{}: {what}", way.name())?;
        }
        for absent in &self.absent {
            writeln!(f, "not measured: {absent}")?;
        }
        let pairs = [
            ("tcp / raw socket", Way::Tcp, Way::RawSocket),
            ("tcp with tls / tcp", Way::TcpTls, Way::Tcp),
            ("rdma / ib_write_bw", Way::Rdma, Way::IbWrite),
            ("rdma / ib_write_bw-as-link", Way::Rdma, Way::IbWriteAsLink),
            ("ucx / ucx_perftest", Way::Ucx, Way::UcxPut),
            ("shm fill / private fill", Way::ShmFill, Way::PrivateFill),
        ];
        let ratios =
            pairs.map(|(name, way, to)| Some(format!("{name}: {:.2}", self.ratio(way, to)?)));
        write!(f, "{}", ratios.into_iter().flatten().collect::<Vec<_>>().join("\n"))
    }
}
