//! Which processes are watched: addresses as written, a directory of targets, hosts of a SLURM job.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use headwater_core::escape_control;
use headwater_discovery::{Places, expand};
use headwater_telemetry::{FoundTargets, JOB_LABEL, TargetGroup, read_targets};

use crate::slurm::said;

/// Time between two looks at name servers, Kubernetes and SLURM; the directory is read each time.
const LOOK_AGAIN: Duration = Duration::from_secs(10);
/// Most processes that are watched.
const TARGETS_MAX: usize = 4096;

/// A process that may show its metrics.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Target {
    /// `host:port`.
    pub(crate) address: String,
    labels: BTreeMap<String, String>,
    /// There may be no process: it is one of the ports that a host's ranks could have.
    pub(crate) is_guess: bool,
    /// Another user may have named it, in the directory of targets: it is not shown the token's hash.
    pub(crate) is_foreign: bool,
}

/// What one look shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    pub(crate) targets: Vec<Target>,
    /// A sentence each.
    pub(crate) troubles: Vec<String>,
}

/// Where to look for processes.
#[derive(Clone, Debug, Default)]
pub(crate) struct Sources {
    /// Addresses as in `receiver.workers`.
    pub(crate) addresses: Vec<String>,
    /// The directory of targets, and whether it was asked for: only then it has to be there.
    pub(crate) folder: Option<(PathBuf, bool)>,
    /// Only processes of this job.
    pub(crate) job: Option<String>,
    /// Where ranks of a SLURM job of that name show their metrics.
    pub(crate) slurm: Option<SlurmPorts>,
}

/// Ports on each host of a SLURM job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SlurmPorts {
    pub(crate) first: u16,
    pub(crate) count: u16,
}

/// Looks again and again.
#[derive(Debug)]
pub(crate) struct Finder {
    sources: Sources,
    places: Places,
    /// What name servers, Kubernetes and SLURM said, and when.
    slow: Option<(Instant, Found)>,
    /// Hosts of the SLURM job when it was seen last.
    hosts: Vec<String>,
}

// === impl Target ===

impl Target {
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), ..Self::default() }
    }

    pub(crate) fn label(&self, name: &str) -> Option<&str> {
        self.labels.get(name).map(String::as_str)
    }
}

// === impl Finder ===

impl Finder {
    /// # Errors
    /// An address that is none.
    pub(crate) fn new(sources: Sources) -> Result<Self> {
        let places = Places::parse(&sources.addresses)?;
        Ok(Self { sources, places, slow: None, hosts: Vec::new() })
    }

    /// Looks. Blocks: names are resolved, and commands run.
    pub(crate) fn look(&mut self) -> Found {
        let (mut found, foreign) = self.look_at_folder();
        let slow = match self.slow.take() {
            Some((at, slow)) if at.elapsed() < LOOK_AGAIN => (at, slow),
            _ => (Instant::now(), self.look_around()),
        };
        found.targets.extend(slow.1.targets.iter().cloned());
        found.troubles.extend(slow.1.troubles.iter().cloned());
        self.slow = Some(slow);
        // The directory comes first: it has labels. What others say there replaces nothing.
        found.targets.extend(foreign);
        let mut seen = HashSet::new();
        found.targets.retain(|target| seen.insert(target.address.clone()));
        if found.targets.len() > TARGETS_MAX {
            let all = found.targets.len();
            found.troubles.push(format!("{all} targets: only the first {TARGETS_MAX} are watched"));
            found.targets.truncate(TARGETS_MAX);
        }
        found
    }

    /// What this user's files say, and the targets of other users' files.
    fn look_at_folder(&self) -> (Found, Vec<Target>) {
        let nothing = (Found::default(), Vec::new());
        let Some((folder, is_asked_for)) = &self.sources.folder else { return nothing };
        match read_targets(folder) {
            Ok(FoundTargets { groups, mut troubles }) => {
                let jobs = groups.iter().filter_map(|group| group.labels.get(JOB_LABEL).cloned());
                troubles.extend(unknown(self.sources.job.as_deref(), &jobs.collect()));
                let of_job = groups.into_iter().filter(|group| {
                    let job = group.labels.get(JOB_LABEL);
                    job.is_none() || self.sources.job.is_none() || job == self.sources.job.as_ref()
                });
                let targets = of_job.flat_map(|TargetGroup { targets, labels, is_own }| {
                    targets.into_iter().map(move |address| Target {
                        labels: labels.clone(),
                        is_foreign: !is_own,
                        ..Target::new(&escape_control(&address))
                    })
                });
                let (foreign, targets) = targets.partition(|target| target.is_foreign);
                (Found { targets, troubles }, foreign)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && !is_asked_for => nothing,
            Err(error) => {
                let trouble = format!("targets directory {}: {error}", folder.display());
                (Found { targets: Vec::new(), troubles: vec![trouble] }, Vec::new())
            }
        }
    }

    fn look_around(&mut self) -> Found {
        let sight = self.places.look();
        let mut found = Found {
            targets: sight.addresses.iter().map(|address| Target::new(address)).collect(),
            troubles: sight.troubles.iter().map(ToString::to_string).collect(),
        };
        if let (Some(ports), Some(job)) = (self.sources.slurm, &self.sources.job) {
            match job_hosts(job) {
                Ok(hosts) => self.hosts = hosts,
                Err(error) => found.troubles.push(format!("job `{job}`: {error:#}")),
            }
            found.targets.extend(self.hosts.iter().flat_map(|host| ports.of_host(host)));
        }
        found
    }
}

// === impl SlurmPorts ===

impl SlurmPorts {
    /// Where ranks of a host may be. The first one is expected, the others are guesses.
    fn of_host(self, host: &str) -> impl Iterator<Item = Target> {
        let ports = self.first..=self.first.saturating_add(self.count.saturating_sub(1));
        ports.map(move |port| Target {
            is_guess: port != self.first,
            ..Target::new(&format!("{host}:{port}"))
        })
    }
}

/// What to say where a job is asked for, and only other ones are there.
pub(crate) fn unknown(job: Option<&str>, known: &BTreeSet<String>) -> Option<String> {
    let job = job.filter(|job| !known.is_empty() && !known.contains(*job))?;
    let known: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
    Some(format!("job `{job}` is not known here, only {}", known.join(", ")))
}

/// The hosts on which this user's job of a number runs, or those of a name.
fn job_hosts(job: &str) -> Result<Vec<String>> {
    let is_number = job.bytes().all(|byte| byte.is_ascii_digit());
    let mut squeue = Command::new("squeue");
    squeue.args(["--me", "--noheader", "--states=RUNNING", "--format=%N"]);
    squeue.args([if is_number { "--jobs" } else { "--name" }, job]);
    let hosts = hosts(&said(&mut squeue)?)?;
    (!hosts.is_empty()).then_some(hosts).context("SLURM runs no job of this name or number")
}

/// Host lists, one a line.
fn hosts(text: &str) -> Result<Vec<String>> {
    let lists = text.lines().map(str::trim).filter(|list| !list.is_empty());
    let mut hosts: Vec<String> = Vec::new();
    for list in lists {
        hosts.extend(expand(list)?);
    }
    let mut seen = HashSet::new();
    hosts.retain(|host| seen.insert(host.clone()));
    Ok(hosts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finder(sources: Sources) -> Finder {
        Finder::new(sources).expect("addresses")
    }

    fn addresses(found: &Found) -> Vec<&str> {
        found.targets.iter().map(|target| target.address.as_str()).collect()
    }

    #[test]
    fn a_job_has_its_own_ranks_and_what_all_jobs_share() {
        let folder = tempfile::tempdir().expect("a folder");
        let write = |name: &str, address: &str, labels: &str| {
            let text = format!("[{{\"targets\": [\"{address}\"], \"labels\": {{{labels}}}}}]");
            std::fs::write(folder.path().join(name), text).expect("a file");
        };
        write("a.json", "a:1", "\"tier\": \"receiver\", \"headwater_job\": \"mine\"");
        write("b.json", "b:1", "\"tier\": \"receiver\", \"headwater_job\": \"other\"");
        write("c.json", "c:1", "\"tier\": \"augment\"");
        let sources = Sources {
            addresses: vec!["n[1-2]:9400".to_owned(), "c:1".to_owned()],
            folder: Some((folder.path().to_owned(), false)),
            ..Sources::default()
        };
        let all = finder(sources.clone()).look();
        assert_eq!(addresses(&all), ["a:1", "b:1", "c:1", "n1:9400", "n2:9400"]);
        assert_eq!(all.targets[2].label("tier"), Some("augment"), "the file's labels are kept");
        let mine = finder(Sources { job: Some("mine".to_owned()), ..sources }).look();
        assert_eq!(addresses(&mine), ["a:1", "c:1", "n1:9400", "n2:9400"]);
        assert!(mine.troubles.is_empty(), "{:?}", mine.troubles);
        let nobodys = Some("77".to_owned());
        let folder = Some((folder.path().to_owned(), false));
        let nobodys = finder(Sources { job: nobodys, folder, ..Sources::default() }).look();
        assert_eq!(nobodys.troubles, ["job `77` is not known here, only `mine`, `other`"]);
    }

    #[test]
    fn what_other_users_name_is_foreign_unless_it_is_configured() {
        use std::fs::Permissions;
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("a.json");
        let text = "[{\"targets\": [\"a:1\", \"b:1\"], \"labels\": {\"tier\": \"receiver\"}}]";
        std::fs::write(&file, text).expect("a file");
        std::fs::set_permissions(&file, Permissions::from_mode(0o666)).expect("a mode");
        let sources = Sources {
            addresses: vec!["b:1".to_owned()],
            folder: Some((folder.path().to_owned(), false)),
            ..Sources::default()
        };
        let found = finder(sources).look();
        let foreign =
            found.targets.iter().map(|target| (target.address.as_str(), target.is_foreign));
        assert_eq!(foreign.collect::<Vec<_>>(), [("b:1", false), ("a:1", true)]);
    }

    #[test]
    fn a_directory_has_to_be_there_only_if_it_was_asked_for() {
        let folder = |is_asked_for| {
            let folder = Some(("/nowhere/targets".into(), is_asked_for));
            finder(Sources { folder, ..Sources::default() }).look().troubles
        };
        assert!(folder(false).is_empty());
        assert!(folder(true)[0].starts_with("targets directory /nowhere/targets: No such file"));
    }

    #[test]
    fn every_port_of_a_jobs_host_is_tried_and_the_first_one_expected() {
        assert_eq!(hosts("n[1-2],gpu7\n\nn2\n").unwrap(), ["n1", "n2", "gpu7"]);
        let ports = SlurmPorts { first: 9400, count: 2 };
        let targets: Vec<Target> = ports.of_host("n1").collect();
        let places = targets.iter().map(|target| (target.address.as_str(), target.is_guess));
        assert_eq!(places.collect::<Vec<_>>(), [("n1:9400", false), ("n1:9401", true)]);
    }
}
