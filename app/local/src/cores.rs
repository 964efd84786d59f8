//! How many threads render on the cores that a process may use.

use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::thread::available_parallelism;

use headwater_inventory::Cores;

const CGROUPS: &str = "/sys/fs/cgroup";
const OWN_CGROUPS: &str = "/proc/self/cgroup";
const ONLINE: &str = "/sys/devices/system/cpu/online";

/// Room for threads that render, on cores that ranks run on too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Room {
    /// Cores' worth of time that there is: the affinity, or the cgroup's quota where that is less.
    usable: usize,
    /// Ranks that run on these cores.
    ranks: usize,
}

// === impl Room ===

impl Room {
    /// That on this process's `cores`, where `ranks` ranks of the job are on this host.
    pub(crate) fn on(cores: &Cores, ranks: u32) -> Self {
        let usable = available_parallelism().map_or(1, NonZeroUsize::get);
        let allowed = if cores.is_empty() { usable } else { cores.len() };
        // Where this thread is kept to fewer than the process, it is no quota that limits.
        let is_quota = usable < Cores::of_this_thread().len();
        let usable = if is_quota { usable } else { allowed };
        Self::of(usable, allowed, cores_of_job().unwrap_or(allowed), ranks)
    }

    /// Where a quota limits, it is all the ranks'. Else a rank that may run on `allowed` of `all` cores
    /// of the job is taken to share these with as many of the others.
    fn of(usable: usize, allowed: usize, all: usize, ranks: u32) -> Self {
        let ranks = ranks.max(1) as usize;
        let share = (ranks * allowed).div_ceil(all.max(allowed).max(1));
        Self { usable, ranks: if usable < allowed { ranks } else { share } }
    }

    /// Threads of a worker that renders for all ranks on these cores: one for each core, less one for
    /// each rank; one at least.
    pub(crate) fn threads(self) -> usize {
        self.usable.saturating_sub(self.ranks).max(1)
    }

    /// Threads of a worker that renders for one of them.
    pub(crate) fn threads_of_one(self) -> usize {
        (self.usable.saturating_sub(self.ranks) / self.ranks.max(1)).max(1)
    }
}

/// How many cores the cgroup has that this process is in; without one, the machine.
fn cores_of_job() -> Option<usize> {
    let groups = fs::read_to_string(OWN_CGROUPS).unwrap_or_default();
    let read = |path: &Path| Cores::try_from(fs::read_to_string(path).ok()?).ok();
    let known = |cores: &Cores| !cores.is_empty();
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
    fn a_worker_has_the_cores_that_the_ranks_leave() {
        // 128 cores, 8 ranks that may use all of them: 120 are left.
        let threads = |usable, allowed, ranks| {
            let room = Room::of(usable, allowed, 128, ranks);
            (room.threads(), room.threads_of_one())
        };
        assert_eq!(threads(128, 128, 8), (120, 15));
        // Each rank is bound to 16 of them.
        assert_eq!(threads(16, 16, 8), (15, 15));
        // Four of them share a socket.
        assert_eq!(threads(64, 64, 8), (60, 15));
        // A quota of 12 cores holds for all ranks, whatever their affinity.
        assert_eq!(threads(12, 128, 8), (4, 1));
        assert_eq!(threads(2, 128, 8), (1, 1));
        assert_eq!(threads(128, 128, 0), (127, 127));
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
}
