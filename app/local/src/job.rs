//! What the launcher says: which job this process is of, and how many of its ranks are on this host.

use std::fs;

/// Variables that name the job, those of schedulers and of torchrun; ranks of one job have the same.
const NAMES: [&str; 8] = [
    "SLURM_JOB_ID",
    "SLURM_STEP_ID",
    "PBS_JOBID",
    "LSB_JOBID",
    "TORCHELASTIC_RUN_ID",
    "PMIX_NAMESPACE",
    "MASTER_ADDR",
    "MASTER_PORT",
];
/// Variables that say how many ranks of the job there are on this host.
const LOCAL_RANKS: [&str; 4] = [
    "LOCAL_WORLD_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
];
/// SLURM's: `8(x2),4`, ranks of each node; and which node this is.
const SLURM_RANKS: &str = "SLURM_STEP_TASKS_PER_NODE";
const SLURM_NODE: &str = "SLURM_NODEID";

/// What tells the job from others of the same user: the launcher's names of it; without one, the
/// process group, as a shell makes it. `variable` looks a variable of the environment up.
///
/// An empty variable is not set.
pub(crate) fn identity(variable: impl Fn(&str) -> Option<String>) -> String {
    let set = |name: &str| variable(name).filter(|value| !value.trim().is_empty());
    let named = NAMES.iter().filter_map(|name| Some(format!("{name}={}", set(name)?)));
    let named: Vec<String> = named.collect();
    if !named.is_empty() {
        return named.join(" ");
    }
    // A path may mean something else in a container.
    format!("group {} {}", rustix::process::getpgrp().as_raw_nonzero(), namespace("mnt"))
}

/// The kernel's name of one of this process's namespaces.
pub(crate) fn namespace(kind: &str) -> String {
    let link = fs::read_link(format!("/proc/self/ns/{kind}"));
    link.map(|link| link.display().to_string()).unwrap_or_default()
}

/// How many ranks of the job are on this host, as the launcher says; 1 where none does. `variable`
/// looks a variable of the environment up.
pub fn local_ranks(variable: impl Fn(&str) -> Option<String>) -> u32 {
    let number = |name: &&str| variable(name)?.trim().parse().ok();
    let slurm = || {
        let node = variable(SLURM_NODE)?.trim().parse().ok()?;
        tasks_of_node(&variable(SLURM_RANKS)?, node)
    };
    LOCAL_RANKS.iter().find_map(number).or_else(slurm).unwrap_or(1)
}

/// The `node`th number of a list as `8(x2),4`.
fn tasks_of_node(list: &str, node: usize) -> Option<u32> {
    let mut first = 0;
    for entry in list.split(',') {
        let (tasks, times) = match entry.split_once("(x") {
            Some((tasks, times)) => (tasks, times.strip_suffix(')')?.parse().ok()?),
            None => (entry, 1),
        };
        first += times;
        if node < first {
            return tasks.trim().parse().ok();
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said<'a>(pairs: &'a [(&str, &str)]) -> impl Fn(&str) -> Option<String> + 'a {
        move |name| Some(pairs.iter().find(|(known, _)| *known == name)?.1.to_owned())
    }

    #[test]
    fn launchers_say_how_many_ranks_a_host_has() {
        assert_eq!(local_ranks(said(&[])), 1);
        assert_eq!(local_ranks(said(&[("LOCAL_WORLD_SIZE", "8")])), 8);
        let slurm = |node| {
            local_ranks(said(&[("SLURM_STEP_TASKS_PER_NODE", "8(x2),4"), ("SLURM_NODEID", node)]))
        };
        assert_eq!([slurm("0"), slurm("1"), slurm("2"), slurm("3")], [8, 8, 4, 1]);
    }

    #[test]
    fn a_job_is_known_by_its_launcher_else_by_its_process_group() {
        let torchrun = identity(said(&[("TORCHELASTIC_RUN_ID", "a"), ("MASTER_PORT", "29500")]));
        assert_eq!(torchrun, "TORCHELASTIC_RUN_ID=a MASTER_PORT=29500");
        let empty = [("TORCHELASTIC_RUN_ID", "a"), ("MASTER_PORT", ""), ("SLURM_JOB_ID", " ")];
        assert_eq!(identity(said(&empty)), "TORCHELASTIC_RUN_ID=a", "an empty variable is not set");
        let shell = identity(said(&[]));
        assert!(shell.starts_with("group ") && shell.contains("mnt:["), "{shell}");
    }
}
