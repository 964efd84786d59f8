//! Threads of a worker and of a receiver run on the cores that the configuration names, and the trainer's do not.

use std::collections::BTreeSet;
use std::fs;

use headwater_core::{Dtype, Recipe};
use headwater_receiver::{DatasetUse, Receiver, ReceiverConfig};

use crate::emulation;
use crate::support::data;
use crate::support::fleet::Fleet;

/// Names of a process's threads, each with the cores that it may run on.
fn threads(pid: u32) -> BTreeSet<(String, String)> {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).expect("a process");
    let thread = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).ok()?;
        let field = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            line.map(|value| value.trim().to_owned())
        };
        Some((field("Name:")?, field("Cpus_allowed_list:")?))
    };
    tasks.flatten().filter_map(thread).collect()
}

/// The last core that this thread may use, and all of them.
fn last_core() -> (String, String) {
    let status = fs::read_to_string("/proc/thread-self/status").expect("this thread");
    let all = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
    let all = all.expect("cores").trim().to_owned();
    let last = all.rsplit(['-', ',']).next().expect("a core").to_owned();
    (last, all)
}

#[test]
fn all_threads_of_a_worker_run_on_the_cores_that_it_is_given() {
    let (core, _) = last_core();
    let mut fleet = Fleet::without_workers(data("photos/photos-000003.tar"));
    fleet.add_worker(&format!("cpus = \"{core}\""));
    let found = threads(fleet.worker(0).pid());
    assert!(found.iter().any(|(name, _)| name == "render-0"), "{found:?}");
    assert!(found.iter().all(|(_, cores)| *cores == core), "{found:?}");
    assert!(!found.iter().any(|(name, _)| name == "render-1"), "one core, one thread that renders");
}

#[test]
fn a_receivers_threads_run_on_its_cores_and_the_trainers_stay() {
    // Other tests have receivers too, whose threads have the same name.
    let test = "cores::a_receivers_threads_run_on_its_cores_and_the_trainers_stay";
    emulation::alone(test, || {
        let (core, all) = last_core();
        let mut fleet = Fleet::start(data("photos/photos-000003.tar"), 1);
        let workers = vec![fleet.worker(0).address.clone()];
        let config =
            ReceiverConfig { workers, batch_samples: 4, cpus: core.clone(), ..fleet.config() };
        let dataset = DatasetUse { name: "photos".into(), weight: None };
        let recipe = Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset");
        let receiver = Receiver::open(config, recipe, &[dataset]).expect("a receiver");
        receiver.next_batch().expect("a batch").expect("one at least");
        let found = threads(std::process::id());
        let own = found.iter().filter(|(name, _)| name == "hw-receiver");
        assert!(own.clone().count() > 0, "{found:?}");
        assert!(own.clone().all(|(_, cores)| *cores == core), "{found:?}");
        assert_eq!(last_core().1, all, "the trainer's thread");
    });
}
