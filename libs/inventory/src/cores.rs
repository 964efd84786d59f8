//! Processor cores: which ones a thread may use, which ones belong to a NUMA node, which ones a key asks for.
//!
//! Formats: `cpuset(7)` and `taskset(1)` for lists, Documentation/ABI/stable/sysfs-devices-node of the
//! Linux sources for nodes.

use std::collections::BTreeSet;
use std::fmt;
use std::io;
use std::str::FromStr;

use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use serde::{Deserialize, Serialize};

use crate::Machine;

const NODES: &str = "/sys/devices/system/node";

/// Numbers of cores, written as the kernel and `taskset` do: `0-3,8`, or `0-30:2` for every second one.
/// None: they are not known, and any will do.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Cores {
    numbers: BTreeSet<usize>,
}

/// What a key such as `augment.cpus` asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CoresWanted {
    /// An empty text: threads stay where they are.
    AsTheyAre,
    /// `auto`: those near a device.
    Near,
    /// These.
    Listed(Cores),
}

// === impl Cores ===

impl Cores {
    /// Those that the calling thread may run on; none on machines of more than 1,024 cores.
    #[must_use]
    pub fn of_this_thread() -> Self {
        let Ok(set) = sched_getaffinity(None) else { return Self::default() };
        Self { numbers: numbers(set).collect() }
    }

    /// Those that any thread of this process may run on: OpenMP with `OMP_PROC_BIND` keeps the main thread to one core.
    #[must_use]
    pub fn of_this_process() -> Self {
        let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
        let ids = tasks.filter_map(|task| task.file_name().to_string_lossy().parse().ok());
        // One that has ended meanwhile has none.
        let sets = ids.filter_map(Pid::from_raw).filter_map(|id| sched_getaffinity(Some(id)).ok());
        // Where the threads cannot be listed, this one's are known.
        let all = sets.flat_map(numbers).chain(Self::of_this_thread().numbers);
        Self { numbers: all.collect() }
    }

    /// Keeps the calling thread, and those that it starts from now on, to these cores.
    ///
    /// # Errors
    /// The system does not allow any of them.
    pub fn bind_this_thread(&self) -> io::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let mut set = CpuSet::new();
        self.numbers.iter().filter(|&&core| core < CpuSet::MAX_CPU).for_each(|&c| set.set(c));
        Ok(sched_setaffinity(None, &set)?)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Whether they are not known.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.numbers.is_empty()
    }

    /// Those that are in both.
    #[must_use]
    pub fn and(&self, other: &Self) -> Self {
        Self { numbers: self.numbers.intersection(&other.numbers).copied().collect() }
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

impl FromStr for Cores {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no list of cores such as 0-3,8");
        let number = |text: &str| text.trim().parse::<usize>().map_err(|_| wrong());
        let mut numbers = BTreeSet::new();
        for run in text.trim().split(',').filter(|run| !run.is_empty()) {
            let (run, step) = run.split_once(':').unwrap_or((run, "1"));
            let (first, last) = run.split_once('-').unwrap_or((run, run));
            let (first, last, step) = (number(first)?, number(last)?, number(step)?);
            if last < first || last - first > CpuSet::MAX_CPU || step == 0 {
                return Err(wrong());
            }
            numbers.extend((first..=last).step_by(step));
        }
        Ok(Self { numbers })
    }
}

impl TryFrom<String> for Cores {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

fn numbers(set: CpuSet) -> impl Iterator<Item = usize> {
    (0..CpuSet::MAX_CPU).filter(move |&core| set.is_set(core))
}

// === impl CoresWanted ===

impl FromStr for CoresWanted {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.trim() {
            "" => Ok(Self::AsTheyAre),
            "auto" => Ok(Self::Near),
            list => list.parse().map(Self::Listed),
        }
    }
}

impl CoresWanted {
    /// Those of the wanted cores that are among the `allowed` ones; `None`: threads stay where they are. `near`
    /// gives those near the device.
    ///
    /// # Errors
    /// The cores near the device are not known, or none of the wanted ones is allowed; why.
    pub fn among(
        &self,
        allowed: &Cores,
        near: impl FnOnce() -> Result<Cores, String>,
    ) -> Result<Option<Cores>, String> {
        let (wanted, whose) = match self {
            Self::AsTheyAre => return Ok(None),
            Self::Near => (near()?, "the cores near the device"),
            Self::Listed(cores) => (cores.clone(), "these cores"),
        };
        if allowed.is_empty() {
            return Ok(Some(wanted));
        }
        let both = wanted.and(allowed);
        if both.is_empty() {
            return Err(format!(
                "this process may run on {allowed}, and on none of {whose}, {wanted}"
            ));
        }
        Ok(Some(both))
    }
}

// === impl Machine ===

impl Machine {
    /// The cores of a NUMA node; `None`: there is no such node, or it has memory only.
    #[must_use]
    pub fn cores_of_node(&self, node: u32) -> Option<Cores> {
        let cores: Cores = self.text(format!("{NODES}/node{node}/cpulist"))?.parse().ok()?;
        (!cores.is_empty()).then_some(cores)
    }

    /// The NUMA nodes that some of these cores belong to.
    #[must_use]
    pub fn nodes_of_cores(&self, cores: &Cores) -> Vec<u32> {
        let names = self.names(NODES).into_iter();
        let nodes = names.filter_map(|name| name.strip_prefix("node")?.parse().ok());
        let has_one = |node: &u32| {
            self.cores_of_node(*node).is_some_and(|of_node| !of_node.and(cores).is_empty())
        };
        nodes.filter(has_one).collect()
    }

    /// The cores of a device's NUMA node.
    ///
    /// # Errors
    /// They are not known; why, with the device's name.
    pub fn cores_near(&self, name: &str, numa_node: Option<u32>) -> Result<Cores, String> {
        let node = numa_node
            .ok_or_else(|| format!("the firmware does not say which NUMA node {name} is on"))?;
        self.cores_of_node(node)
            .ok_or_else(|| format!("NUMA node {node}, which {name} is on, has no cores"))
    }
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
        assert_eq!(read("0-6:2,9").unwrap().to_string(), "0,2,4,6,9");
        for wrong in ["x", "3-1", "0-", "0-99999999", "0-3:0"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_thread_may_be_kept_to_fewer_cores() {
        let bound = std::thread::spawn(|| {
            let all = Cores::of_this_thread();
            let first = all.numbers.first().copied();
            let one = Cores { numbers: first.into_iter().collect() };
            one.bind_this_thread().unwrap();
            let inherited = std::thread::spawn(Cores::of_this_thread);
            (one, inherited.join().unwrap())
        });
        let (one, inherited) = bound.join().unwrap();
        assert_eq!(one, inherited);
        let own = std::thread::spawn(move || {
            one.bind_this_thread().unwrap();
            Cores::of_this_process()
        });
        let all = Cores::of_this_thread();
        assert_eq!(all.and(&own.join().unwrap()), all, "other threads may run there");
    }

    #[test]
    fn what_is_wanted_is_cut_to_what_is_allowed() {
        let cores = |text: &str| text.parse::<Cores>().unwrap();
        let among = |wanted: &str, allowed: &str| {
            let wanted: CoresWanted = wanted.parse().unwrap();
            let found = wanted.among(&cores(allowed), || Ok(cores("16-31")));
            found.map(|cores| cores.map(|cores| cores.to_string()))
        };
        assert_eq!(among("", "0-7"), Ok(None));
        assert_eq!(among("0-7,16", "4-31"), Ok(Some("4-7,16".into())));
        assert_eq!(among("auto", "24-40"), Ok(Some("24-31".into())));
        assert_eq!(among("0-7", ""), Ok(Some("0-7".into())), "not known what is allowed");
        let refused = among("40", "0-7").unwrap_err();
        assert_eq!(refused, "this process may run on 0-7, and on none of these cores, 40");
        assert!(among("auto", "0-7").unwrap_err().contains("near the device, 16-31"));
        assert!("near".parse::<CoresWanted>().is_err());
    }
}
