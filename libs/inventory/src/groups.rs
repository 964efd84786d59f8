//! The control groups of this process, and what they limit.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::Machine;

/// What a container, or whatever else made control groups, leaves of a machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct GroupLimits {
    /// Cores' worth of processor time; `None` without a limit.
    pub cores: Option<f64>,
    /// Memory in bytes; `None` without a limit below the machine's memory.
    pub memory_bytes: Option<u64>,
}

/// A group of this process or one above it.
pub(crate) struct Group {
    pub(crate) folder: PathBuf,
    pub(crate) version: Version,
}

/// Version of control groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Version {
    V1,
    V2,
}

// === impl Machine ===

impl Machine {
    /// The least that each control group of this process allows.
    #[must_use]
    pub fn group_limits(&self) -> GroupLimits {
        let total = self.total_bytes().unwrap_or(u64::MAX);
        let groups = self.control_groups("cpu");
        let cores = groups.iter().filter_map(|group| self.cores_of(group)).min_by(f64::total_cmp);
        let groups = self.control_groups("memory");
        let memory = groups.iter().filter_map(|group| {
            let file = match group.version {
                Version::V1 => "memory.limit_in_bytes",
                Version::V2 => "memory.max",
            };
            // Without a limit version 1 has a number near 2^63.
            self.number(group.folder.join(file)).filter(|bytes| *bytes < total)
        });
        GroupLimits { cores, memory_bytes: memory.min() }
    }

    fn cores_of(&self, Group { folder, version }: &Group) -> Option<f64> {
        let (quota_us, period_us) = match version {
            Version::V1 => {
                let number = |file: &str| self.number::<f64>(folder.join(file));
                (number("cpu.cfs_quota_us")?, number("cpu.cfs_period_us")?)
            }
            Version::V2 => {
                let text = self.text(folder.join("cpu.max"))?;
                let (quota, period) = text.split_once(' ')?;
                (quota.parse().ok()?, period.parse().ok()?)
            }
        };
        (quota_us > 0.0 && period_us > 0.0).then(|| quota_us / period_us)
    }

    /// The groups of this process that a controller looks at, and those above them that can be seen.
    pub(crate) fn control_groups(&self, controller: &str) -> Vec<Group> {
        let groups = self.text("/proc/self/cgroup").unwrap_or_default();
        let mounts = self.text("/proc/self/mountinfo").unwrap_or_default();
        groups.lines().flat_map(|line| above(line, &mounts, controller)).collect()
    }
}

/// From a line `number:controllers:path` of /proc/self/cgroup.
fn above(line: &str, mounts: &str, controller: &str) -> Vec<Group> {
    let mut fields = line.splitn(3, ':').skip(1);
    let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else {
        return Vec::new();
    };
    let version = match controllers {
        "" => Version::V2,
        list if list.split(',').any(|other| other == controller) => Version::V1,
        _ => return Vec::new(),
    };
    let mount = mounts.lines().find_map(|line| version.mount(line, controller));
    let Some((root, mounted)) = mount else { return Vec::new() };
    // Of another namespace's path only the top is seen here.
    let group = mounted.join(Path::new(path).strip_prefix(root).unwrap_or(Path::new("")));
    let folders = group.ancestors().take_while(|folder| folder.starts_with(&mounted));
    folders.map(|folder| Group { folder: folder.to_owned(), version }).collect()
}

// === impl Version ===

impl Version {
    /// Root and mount point of this version's file system, from a line of /proc/self/mountinfo.
    fn mount<'a>(self, line: &'a str, controller: &str) -> Option<(&'a str, PathBuf)> {
        let (place, file_system) = line.split_once(" - ")?;
        let (kind, rest) = file_system.split_once(' ')?;
        let is_its_own = match self {
            Self::V1 => {
                kind == "cgroup" && rest.split([' ', ',']).any(|option| option == controller)
            }
            Self::V2 => kind == "cgroup2",
        };
        let mut fields = place.split(' ').skip(3);
        is_its_own.then_some((fields.next()?, PathBuf::from(fields.next()?)))
    }
}
