//! How much memory may be taken, on recorded machines with control groups of both versions.

use std::path::Path;

use headwater_inventory::trees::unpack;

const MIB: u64 = 1 << 20;
/// A machine with 1000 MiB available.
const PLAIN: &str = "/proc/meminfo = MemTotal: 2048000 kB\\nMemAvailable: 1024000 kB\n";
const V2: &str = "\
/proc/self/cgroup = 0::/kubepods/pod1/worker
/proc/self/mountinfo = 22 1 0:20 / / rw - ext4 /dev/sda rw\\n\
30 22 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw
";
/// As a container sees it that has no namespace of control groups of its own.
const V1: &str = "\
/proc/self/cgroup = 9:cpu,cpuacct:/docker/abc\\n7:memory:/docker/abc\\n0::/docker/abc
/proc/self/mountinfo = 31 22 0:27 /docker/abc /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu,cpuacct\\n\
32 22 0:28 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory
";

/// Mebibytes that may be taken, and the file that says so.
fn room(tree: &str) -> (u64, String) {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = unpack(tree, folder.path()).expect("a tree");
    let room = machine.memory_room().expect("some file says something");
    (room.free_bytes / MIB, room.from.display().to_string())
}

fn group(version: [&str; 3], folder: &str, limit: &str, used: u64, files: u64) -> String {
    let [max, current, file] = version;
    format!(
        "{folder}/{max} = {limit}\n{folder}/{current} = {}\n\
         {folder}/memory.stat = anon 1\\n{file} {}\\nactive_anon 7\n",
        used * MIB,
        files * MIB
    )
}

const FILES_V2: [&str; 3] = ["memory.max", "memory.current", "inactive_file"];
const FILES_V1: [&str; 3] =
    ["memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"];

#[test]
fn without_a_limit_the_machine_says_it() {
    assert_eq!(room(PLAIN), (1000, "/proc/meminfo".into()));
    let unlimited = group(FILES_V2, "/sys/fs/cgroup/kubepods/pod1/worker", "max", 5, 0);
    assert_eq!(room(&[PLAIN, V2, &unlimited].concat()), (1000, "/proc/meminfo".into()));
}

#[test]
fn the_tightest_group_above_the_process_counts_less_what_it_uses_beside_files() {
    let worker = "/sys/fs/cgroup/kubepods/pod1/worker";
    let pod = "/sys/fs/cgroup/kubepods/pod1";
    let mut tree =
        [PLAIN, V2, &group(FILES_V2, worker, &(800 * MIB).to_string(), 300, 100)].concat();
    assert_eq!(room(&tree), (600, format!("{worker}/memory.max")));
    tree += &group(FILES_V2, pod, &(500 * MIB).to_string(), 450, 50);
    assert_eq!(room(&tree), (100, format!("{pod}/memory.max")));
    // A group beside them is none of its own.
    tree += &group(FILES_V2, "/sys/fs/cgroup/kubepods/pod2", &MIB.to_string(), 0, 0);
    assert_eq!(room(&tree).0, 100);
}

#[test]
fn the_first_version_of_control_groups_counts_too_and_its_unlimited_is_no_limit() {
    let folder = "/sys/fs/cgroup/memory";
    let limited = group(FILES_V1, folder, &(256 * MIB).to_string(), 200, 64);
    assert_eq!(
        room(&[PLAIN, V1, &limited].concat()),
        (120, format!("{folder}/memory.limit_in_bytes"))
    );
    let unlimited = group(FILES_V1, folder, "9223372036854771712", 200, 64);
    assert_eq!(room(&[PLAIN, V1, &unlimited].concat()).0, 1000);
}

#[test]
fn a_group_that_uses_more_than_it_may_leaves_nothing() {
    let worker = "/sys/fs/cgroup/kubepods/pod1/worker";
    let over = group(FILES_V2, worker, &(100 * MIB).to_string(), 150, 0);
    assert_eq!(room(&[PLAIN, V2, &over].concat()).0, 0);
}

#[test]
fn this_machine_has_room_for_something_and_no_more_than_it_has() {
    let machine = headwater_inventory::Machine::this();
    let room = machine.memory_room().expect("Linux says it");
    let available = machine.available_bytes().expect("Linux says it");
    // Both move while they are read.
    assert!(room.free_bytes > 0 && room.free_bytes < 2 * available, "{room:?}, {available}");
    assert!(Path::new(&room.from).exists(), "{room:?}");
}

/// Cores' worth and mebibytes that control groups allow.
fn limits(tree: &str) -> (Option<f64>, Option<u64>) {
    let folder = tempfile::tempdir().expect("a folder");
    let limits = unpack(tree, folder.path()).expect("a tree").group_limits();
    (limits.cores, limits.memory_bytes.map(|bytes| bytes / MIB))
}

#[test]
fn limits_are_the_least_of_all_groups_above_the_process() {
    assert_eq!(limits(PLAIN), (None, None));
    let (pod, worker) = ("/sys/fs/cgroup/kubepods/pod1", "/sys/fs/cgroup/kubepods/pod1/worker");
    let max = format!("{worker}/cpu.max = max 100000\n{pod}/cpu.max = 250000 100000\n");
    let memory = group(FILES_V2, pod, &(700 * MIB).to_string(), 5, 0);
    assert_eq!(limits(&[PLAIN, V2, &max, &memory].concat()), (Some(2.5), Some(700)));
    let cpu = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us = 150000\n\
               /sys/fs/cgroup/cpu/cpu.cfs_period_us = 100000\n";
    let unlimited = group(FILES_V1, "/sys/fs/cgroup/memory", "9223372036854771712", 5, 0);
    assert_eq!(limits(&[PLAIN, V1, cpu, &unlimited].concat()), (Some(1.5), None));
    let no_quota = "/sys/fs/cgroup/cpu/cpu.cfs_quota_us = -1\n\
                    /sys/fs/cgroup/cpu/cpu.cfs_period_us = 100000\n";
    assert_eq!(limits(&[PLAIN, V1, no_quota].concat()), (None, None));
}
