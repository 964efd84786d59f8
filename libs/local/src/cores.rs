//! Processor cores: which ones a process may use, and how many threads render on them.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

const CGROUPS: &str = "/sys/fs/cgroup";
const OWN_CGROUPS: &str = "/proc/self/cgroup";
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Numbers of cores, written as the kernel does: `0-3,8`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Cores {
    numbers: BTreeSet<usize>,
}

// === impl Cores ===

impl Cores {
    /// Those that the calling thread may run on.
    ///
    /// # Errors
    /// The system does not say, as on machines of more than 1,024 cores.
    pub fn of_this_thread() -> io::Result<Self> {
        let set = sched_getaffinity(None)?;
        Ok(Self { numbers: (0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).collect() })
    }

    /// Keeps the calling thread, and those that it starts from now on, to these cores.
    pub(crate) fn bind_this_thread(&self) -> io::Result<()> {
        let mut set = CpuSet::new();
        self.numbers.iter().filter(|&&core| core < CpuSet::MAX_CPU).for_each(|&c| set.set(c));
        Ok(sched_setaffinity(None, &set)?)
    }

    fn len(&self) -> usize {
        self.numbers.len()
    }
}

impl fmt::Display for Cores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(usize, usize)> = Vec::new();
        for &core in &self.numbers {
            match runs.last_mut() {
                Some((_, last)) if *last + 1 == core => *last = core,
                _ => runs.push((core, core)),
            }
        }
        let run = |(first, last): (usize, usize)| {
            if first == last { first.to_string() } else { format!("{first}-{last}") }
        };
        f.write_str(&runs.into_iter().map(run).collect::<Vec<_>>().join(","))
    }
}

impl From<Cores> for String {
    fn from(cores: Cores) -> Self {
        cores.to_string()
    }
}

impl TryFrom<String> for Cores {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no list of cores such as 0-3,8");
        let mut numbers = BTreeSet::new();
        for run in text.trim().split(',').filter(|run| !run.is_empty()) {
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
            let (first, last) = (number(first)?, number(last)?);
            if last < first || last - first > CpuSet::MAX_CPU {
                return Err(wrong());
            }
            numbers.extend(first..=last);
        }
        Ok(Self { numbers })
    }
}

/// Threads that may render on this thread's cores beside the ranks of this host: one for each core
/// that this process may use (its affinity, its cgroup's quota), less one for each rank that runs on
/// the same cores; one at least. `ranks` is how many there are on this host.
#[must_use]
pub fn threads_for(cores: &Cores, ranks: u32) -> usize {
    let usable = available_parallelism().map_or(1, NonZeroUsize::get);
    let all = cores_of_job().filter(|all| *all >= cores.len()).unwrap_or(cores.len());
    let ranks = ranks_on(usable, cores.len(), all, ranks);
    usable.saturating_sub(ranks).max(1)
}

/// How many of the ranks run on the `allowed` cores of one of them. All, where these are the job's
/// cores or a quota is what limits; else as many as its share of `all` cores.
fn ranks_on(usable: usize, allowed: usize, all: usize, ranks: u32) -> usize {
    let ranks = ranks.max(1) as usize;
    match usable < allowed {
        true => ranks,
        false => (ranks * allowed).div_ceil(all.max(1)),
    }
}

/// How many cores the cgroup has that this process is in; without one, the machine.
fn cores_of_job() -> Option<usize> {
    let groups = fs::read_to_string(OWN_CGROUPS).unwrap_or_default();
    let read = |path: &Path| Cores::try_from(fs::read_to_string(path).ok()?).ok();
    let known = |cores: &Cores| cores.len() > 0;
    let found = files_of(&groups).iter().find_map(|path| read(path).filter(known));
    found.or_else(|| read(Path::new(ONLINE))).map(|cores| cores.len())
}

/// Files that may name the cores of a cgroup, the nearest first; `groups` is `/proc/self/cgroup`.
fn files_of(groups: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else { continue };
        let (top, file) = match controllers {
            "" => (CGROUPS.to_owned(), "cpuset.cpus.effective"),
            "cpuset" => (format!("{CGROUPS}/cpuset"), "cpuset.effective_cpus"),
            _ => continue,
        };
        let group = Path::new(group.trim_start_matches('/'));
        files.extend(group.ancestors().map(|group| Path::new(&top).join(group).join(file)));
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_read_and_written_as_the_kernel_does() {
        let read = |text: &str| Cores::try_from(text.to_owned());
        for text in ["0", "0-3", "0-3,8", "1,3,5-7,1023"] {
            assert_eq!(read(text).unwrap().to_string(), text);
        }
        assert_eq!(read("3,1,2,\n").unwrap().to_string(), "1-3");
        for wrong in ["x", "3-1", "0-", "0-99999999"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_worker_has_the_cores_that_the_ranks_leave() {
        // 128 cores, 8 ranks that may use all of them: 120 are left.
        assert_eq!(ranks_on(128, 128, 128, 8), 8);
        // Each rank is bound to 16 of them: 15 are left of those.
        assert_eq!(ranks_on(16, 16, 128, 8), 1);
        // Four of them share a socket.
        assert_eq!(ranks_on(64, 64, 128, 8), 4);
        // A quota of 12 cores holds for all ranks, whatever their affinity.
        assert_eq!(ranks_on(12, 128, 128, 8), 8);
        assert_eq!(ranks_on(2, 2, 2, 0), 1);
    }

    #[test]
    fn a_cgroups_cores_are_looked_for_upwards() {
        let file = |path: &str| PathBuf::from(format!("/sys/fs/cgroup/{path}"));
        let second = files_of("0::/slurm/job_1\n");
        let names =
            ["slurm/job_1/", "slurm/", ""].map(|g| file(&format!("{g}cpuset.cpus.effective")));
        assert_eq!(second, names);
        let first = files_of("4:memory:/a\n3:cpuset:/a\n");
        assert_eq!(first, ["a/", ""].map(|g| file(&format!("cpuset/{g}cpuset.effective_cpus"))));
    }

    #[test]
    fn a_thread_may_be_kept_to_fewer_cores() {
        let bound = std::thread::spawn(|| {
            let all = Cores::of_this_thread().unwrap();
            let first = all.numbers.first().copied();
            let one = Cores { numbers: first.into_iter().collect() };
            one.bind_this_thread().unwrap();
            let inherited = std::thread::spawn(|| Cores::of_this_thread().unwrap());
            (one, inherited.join().unwrap())
        });
        let (one, inherited) = bound.join().unwrap();
        assert_eq!(one, inherited);
    }
}
