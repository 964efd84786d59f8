//! Workers as jobs of SLURM, one each, besides workers that are there anyway.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use headwater_config::AutoscaleConfig;

use super::backend::Backend;
use crate::slurm::said;

/// Jobs whose numbers are so far apart listen on the same ports.
const PORTS: u64 = 512;
const HEAD: &str =
    "# Workers that `headwater autoscale` has SLURM run; written again at every look.\n";

/// The jobs.
pub(super) struct Jobs {
    config: AutoscaleConfig,
    /// Workers that are there anyway.
    base: u32,
    /// Jobs that should be there; none before the first look.
    wanted: Option<u32>,
    running: Vec<Job>,
}

/// A job that waits or runs.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Job {
    number: u64,
    /// Its node; none while it waits.
    node: Option<String>,
}

// === impl Jobs ===

impl Jobs {
    pub(super) fn new(config: &AutoscaleConfig, base: u32) -> Self {
        Self { config: config.clone(), base, wanted: None, running: Vec::new() }
    }

    /// Has as many jobs there as there should be.
    fn settle(&mut self) -> Result<()> {
        let mut jobs = self.look()?;
        let wanted = *self.wanted.get_or_insert(jobs.len() as u32) as usize;
        while jobs.len() < wanted {
            jobs.push(Job { number: self.submit()?, node: None });
        }
        // Those that wait go first, of the others the youngest: the old ones have sessions.
        jobs.sort_by_key(|job| (job.node.is_none(), job.number));
        for job in jobs.split_off(wanted.min(jobs.len())) {
            tracing::info!(job = job.number, "a worker is ended");
            said(Command::new("scancel").arg(job.number.to_string()))?;
        }
        self.running = jobs.into_iter().filter(|job| job.node.is_some()).collect();
        self.write()
    }

    fn look(&self) -> Result<Vec<Job>> {
        let mut squeue = Command::new("squeue");
        squeue.args(["--me", "--noheader", "--states=PENDING,CONFIGURING,RUNNING"]);
        squeue.args(["--format=%i %t %N", "--name", &self.config.slurm_job_name]);
        parse(&said(&mut squeue)?)
    }

    fn submit(&self) -> Result<u64> {
        let AutoscaleConfig { slurm_script, slurm_options, slurm_job_name, .. } = &self.config;
        let mut sbatch = Command::new("sbatch");
        sbatch.args(["--parsable", "--job-name", slurm_job_name]).args(slurm_options);
        sbatch.env("HW_WORKER_PORT", self.config.slurm_port.to_string());
        sbatch.env("HW_WORKER_METRICS_PORT", self.config.slurm_metrics_port.to_string());
        let answer = said(sbatch.arg(slurm_script))?;
        // NUMBER or NUMBER;CLUSTER.
        let number = answer.trim().split(';').next().and_then(|number| number.parse().ok());
        let number = number.with_context(|| format!("sbatch says `{}`, no job", answer.trim()))?;
        tracing::info!(job = number, "a worker is submitted");
        Ok(number)
    }

    fn addresses(&self, port: u16) -> Vec<String> {
        let place = |job: &Job| {
            let node = job.node.as_deref()?;
            Some(format!("{node}:{}", u64::from(port) + job.number % PORTS))
        };
        self.running.iter().filter_map(place).collect()
    }

    /// Whole at once: receivers read it at any time.
    fn write(&self) -> Result<()> {
        let path = &self.config.slurm_workers_file;
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        let mut text = HEAD.to_owned();
        for address in self.addresses(self.config.slurm_port) {
            let _ = writeln!(text, "{address}");
        }
        if std::fs::read_to_string(path).is_ok_and(|there| there == text) {
            return Ok(());
        }
        replace(path, &text).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Backend for Jobs {
    fn asked(&mut self) -> Result<u32> {
        self.settle()?;
        Ok(self.base + self.wanted.unwrap_or(0))
    }

    fn ask(&mut self, workers: u32) -> Result<()> {
        self.wanted = Some(workers.saturating_sub(self.base));
        self.settle()
    }

    fn metrics(&self) -> Vec<String> {
        self.addresses(self.config.slurm_metrics_port)
    }
}

/// Lines `NUMBER STATE NODE` of squeue; a job that waits has no node.
fn parse(text: &str) -> Result<Vec<Job>> {
    let job = |line: &str| {
        let mut words = line.split_whitespace();
        let number = words.next()?.parse().ok()?;
        let runs = words.next()? == "R";
        let node = words.next().filter(|_| runs).map(str::to_owned);
        Some(Job { number, node })
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    lines.map(|line| job(line).with_context(|| format!("squeue says `{line}`"))).collect()
}

fn replace(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    std::io::Write::write_all(&mut file, text.as_bytes())?;
    // Ranks of other users read it too.
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.as_file().set_permissions(readable)?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_job_that_waits_has_no_node() {
        let jobs = parse("17 R n3\n18 PD \n19 CF n4\n\n").unwrap();
        let found: Vec<_> = jobs.iter().map(|job| (job.number, job.node.as_deref())).collect();
        assert_eq!(found, [(17, Some("n3")), (18, None), (19, None)]);
        assert!(parse("seventeen R n3").is_err());
    }

    #[test]
    fn ports_follow_from_the_jobs_number() {
        let mut jobs = Jobs::new(&AutoscaleConfig::default(), 0);
        jobs.running = parse("1000 R n3\n3 R n4").unwrap();
        assert_eq!(jobs.addresses(7500), ["n3:7988", "n4:7503"]);
    }
}
