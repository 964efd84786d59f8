//! What is read of the machine that the tests run on, beside what other programs say of it.

use std::process::Command;

use headwater_inventory::Machine;

/// What a program prints; `None` where it is not installed.
fn printed(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).env("LC_ALL", "C").output().ok()?;
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn gpus_are_those_that_lspci_lists() {
    let Some(listed) = printed("lspci", &["-D", "-n", "-d", "10de:"]) else {
        eprintln!("SKIP: lspci is not installed");
        return;
    };
    // `0000:1b:00.0 0302: 10de:2330 (rev a1)`
    let display = listed.lines().filter(|line| {
        line.split_whitespace().nth(1).is_some_and(|class| matches!(class, "0300:" | "0302:"))
    });
    let mut expected: Vec<&str> =
        display.filter_map(|line| line.split_whitespace().next()).collect();
    expected.sort_unstable();
    let gpus = Machine::this().gpus();
    let found: Vec<&str> = gpus.iter().map(|gpu| gpu.pci.address.as_str()).collect();
    assert_eq!(found, expected);
}

#[test]
fn rdma_devices_are_those_that_verbs_list() {
    let Some(listed) = printed("ibv_devices", &[]) else {
        eprintln!("SKIP: ibv_devices is not installed");
        return;
    };
    // Two lines of heading, then name and number of each.
    let mut expected: Vec<&str> =
        listed.lines().skip(2).filter_map(|line| line.split_whitespace().next()).collect();
    expected.sort_unstable();
    let devices = Machine::this().rdma_devices();
    let mut found: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    found.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn limits_are_those_that_the_shell_has() {
    let limits = Machine::this().limits().expect("limits");
    let said = printed("sh", &["-c", "ulimit -Sn; ulimit -Hn; ulimit -Sl; ulimit -Hl"]);
    let said = said.expect("a shell");
    let said: Vec<Option<u64>> = said.lines().map(|line| line.trim().parse().ok()).collect();
    let kib = |limit: Option<u64>| limit.map(|bytes| bytes / 1024);
    let (files, locked) = (limits.open_files, limits.locked_bytes);
    assert_eq!(said, [files.soft, files.hard, kib(locked.soft), kib(locked.hard)]);
}

#[test]
fn memory_and_processor_are_those_that_programs_say() {
    let machine = Machine::this();
    let cores = printed("getconf", &["_NPROCESSORS_ONLN"]).expect("getconf");
    let processor = machine.processor().expect("a processor");
    assert_eq!(processor.cores.to_string(), cores.trim());
    #[cfg(target_arch = "x86_64")]
    assert_eq!(processor.has(&["avx2"]), std::arch::is_x86_feature_detected!("avx2"));
    let release = printed("uname", &["-r"]).expect("uname");
    assert_eq!(machine.kernel().expect("a kernel").text, release.trim());
}

#[test]
fn the_way_out_is_the_interface_that_ip_says() {
    let said = printed("ip", &["-o", "route", "get", "192.0.2.1"]);
    let words: Vec<String> =
        said.iter().flat_map(|text| text.split_whitespace()).map(str::to_owned).collect();
    let name = words.iter().position(|word| word == "dev").and_then(|at| words.get(at + 1));
    let found = Machine::this().interface_to([192, 0, 2, 1].into());
    match name {
        Some(name) => assert_eq!(found.map(|found| found.name).as_ref(), Some(name)),
        None => eprintln!("SKIP: no ip program, or no route"),
    }
}
