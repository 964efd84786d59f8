//! Workers as jobs of SLURM, one each, besides workers that are there anyway.

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use headwater_config::AutoscaleConfig;

use super::jobs::{Job, Jobs, Steps};
use crate::slurm::said;

/// Jobs whose numbers are so far apart listen on the same ports.
const PORTS: u64 = 512;
const HEAD: &str =
    "# Workers that `headwater autoscale` has SLURM run; written again at every look.\n";

/// The user's jobs of one name.
pub(super) struct Slurm {
    config: AutoscaleConfig,
    pub(super) jobs: Jobs,
    /// Only looks.
    dry: bool,
}

// === impl Slurm ===

impl Slurm {
    /// `retry_pause`: time from a failed start to the next job. `dry`: jobs stay as they are.
    pub(super) fn new(config: &AutoscaleConfig, retry_pause: Duration, dry: bool) -> Self {
        Self { config: config.clone(), jobs: Jobs::new(retry_pause), dry }
    }

    /// Looks which jobs there are, and writes the file of workers. Says what makes them those that should be.
    ///
    /// # Errors
    /// SLURM cannot be asked now; it may be asked again. The file of workers cannot be written.
    pub(super) fn look(&mut self, now: Duration) -> Result<Steps> {
        let listed = self.list()?;
        if self.dry {
            self.jobs.adopt(&listed);
            self.jobs.want(listed.len() as u32);
            self.jobs.settle(now, listed);
            return Ok(Steps::default());
        }
        let before = self.jobs.foreign().clone();
        let steps = self.jobs.settle(now, listed);
        let name = &self.config.slurm_job_name;
        let foreign = self.jobs.foreign();
        if foreign.difference(&before).next().is_some() {
            let numbers: Vec<String> = foreign.iter().map(u64::to_string).collect();
            tracing::warn!(
                "jobs {} have the name `{name}`, and this controller did not submit them: they are left to whoever \
                 did. Give each controller a name of its own with autoscale.slurm_job_name",
                numbers.join(", ")
            );
        }
        for number in &steps.failed {
            tracing::warn!("job {number} ended before its worker answered: {}", ending(*number));
        }
        self.write()?;
        Ok(steps)
    }

    /// Submits and cancels jobs. Returns before their workers serve.
    ///
    /// # Errors
    /// SLURM refuses one of the steps; the next look says which are still to be done.
    pub(super) fn act(&mut self, steps: Steps) -> Result<()> {
        for _ in 0..steps.submit {
            match self.submit() {
                Ok(number) => self.jobs.on_submitted(number),
                Err(error) => {
                    self.jobs.on_unclear();
                    return Err(error);
                }
            }
        }
        for number in steps.cancel {
            tracing::info!(job = number, "a worker is ended");
            said(Command::new("scancel").arg(number.to_string()))?;
        }
        Ok(())
    }

    /// Addresses of `/metrics` of the jobs that run.
    pub(super) fn metrics(&self) -> Vec<String> {
        self.addresses(self.config.slurm_metrics_port)
    }

    /// `answers`: whether somebody answered at an address.
    pub(super) fn on_answers(&mut self, answers: impl Fn(&str) -> bool) {
        let port = self.config.slurm_metrics_port;
        self.jobs.on_answers(|job| address(job, port).is_some_and(|address| answers(&address)));
    }

    fn addresses(&self, port: u16) -> Vec<String> {
        self.jobs.running().filter_map(|job| address(job, port)).collect()
    }

    fn list(&self) -> Result<Vec<Job>> {
        let mut squeue = Command::new("squeue");
        squeue.args(["--me", "--noheader", "--states=PENDING,CONFIGURING,RUNNING"]);
        squeue.args(["--format=%i %t %R", "--name", &self.config.slurm_job_name]);
        Job::parse(&said(&mut squeue)?)
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

/// How a job ended, in SLURM's words.
fn ending(number: u64) -> String {
    let told =
        said(Command::new("scontrol").args(["--oneliner", "show", "job"]).arg(number.to_string()));
    let told = match told {
        Ok(told) => told,
        Err(error) => return format!("{error:#}"),
    };
    let fields = ["JobState", "Reason", "ExitCode", "StdErr"];
    let field =
        |name: &str| told.split_whitespace().find(|word| word.starts_with(&format!("{name}=")));
    fields.into_iter().filter_map(field).collect::<Vec<_>>().join(" ")
}

fn address(job: &Job, port: u16) -> Option<String> {
    let node = job.node.as_deref()?;
    Some(format!("{node}:{}", u64::from(port) + job.number % PORTS))
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
    fn ports_follow_from_the_jobs_number() {
        let jobs = Job::parse("1000 R n3\n3 R n4\n5 PD").unwrap();
        let addresses: Vec<_> = jobs.iter().map(|job| address(job, 7500)).collect();
        assert_eq!(addresses, [Some("n3:7988".to_owned()), Some("n4:7503".to_owned()), None]);
    }
}
