//! Host lists expand as SLURM's own program expands them.

use std::process::Command;

use headwater_discovery::{HOSTS_MAX, expand};
use proptest::prelude::*;

fn words(list: &str) -> String {
    expand(list).unwrap_or_else(|error| panic!("{error}")).join(" ")
}

/// What `scontrol show hostnames` prints; `None` where SLURM is not installed.
fn scontrol(list: &str, dir: &std::path::Path) -> Option<String> {
    // It wants a cluster's configuration even for this, but contacts nobody.
    let conf = dir.join("slurm.conf");
    std::fs::write(&conf, "ClusterName=x\nSlurmctldHost=localhost\nNodeName=localhost\n").unwrap();
    let show = Command::new("scontrol")
        .args(["show", "hostnames", list])
        .env("SLURM_CONF", conf)
        .output()
        .ok()?;
    let names = String::from_utf8(show.stdout).unwrap();
    Some(names.split_whitespace().collect::<Vec<_>>().join(" "))
}

#[test]
fn lists_and_ranges_expand_in_their_order() {
    assert_eq!(words("n[0,3-5],gpu[001-004]"), "n0 n3 n4 n5 gpu001 gpu002 gpu003 gpu004");
    assert_eq!(words("n[3,1],b,n1"), "n3 n1 b n1");
    assert_eq!(words("n[1-2].pod, login"), "n1.pod n2.pod login");
}

#[test]
fn zeros_are_kept_as_the_lower_end_has_them() {
    assert_eq!(words("n[08-11]"), "n08 n09 n10 n11");
    assert_eq!(words("n[9-010]"), "n9 n10");
    assert_eq!(words("n[001-2]"), "n001 n002");
}

#[test]
fn several_ranges_multiply_and_the_last_runs_fastest() {
    assert_eq!(words("r[0-1]n[08-09]"), "r0n08 r0n09 r1n08 r1n09");
    assert_eq!(words("t[0-1][2-3]"), "t02 t03 t12 t13");
}

#[test]
fn a_list_that_is_wrong_is_named_with_the_remedy() {
    let odd = [
        ("n[5-3]", "from its lower to its higher"),
        ("n[]", "a number or a range"),
        ("n[1-2,]", "a number or a range"),
        ("n[a-c]", "a number or a range"),
        ("n[1-[2]]", "a number or a range"),
        ("n[+1]", "a number or a range"),
        ("n[1", "close the bracket"),
        ("n1]", "has no `]`"),
        ("n 1", "has no ` `"),
        ("n1,,n2", "name a host"),
        ("", "name a host"),
        ("n[0-70000]", "65536"),
        ("n[0-18446744073709551615]", "a number or a range"),
        ("n[0-255]m[0-255]k[0-1]", "65536"),
        ("n[0-999999999999]", "65536"),
    ];
    for (list, remedy) in odd {
        let error = expand(list).expect_err(list).to_string();
        assert!(error.contains(&format!("`{list}`")) && error.contains(remedy), "{error}");
    }
    assert_eq!(expand("n[0-255]m[0-255]").unwrap().len(), HOSTS_MAX);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn lists_expand_as_scontrol_expands_them(
        patterns in prop::collection::vec(
            ("[a-z]{1,4}", prop::collection::vec((0u32..120, 0u32..12, 0usize..4), 0..3), "[a-z-]{0,2}"),
            1..4,
        ),
    ) {
        let list: Vec<String> = patterns.iter().map(|(stem, ranges, between)| {
            let range = |(low, more, width): &(u32, u32, usize)| match more {
                0 => format!("{low:0width$}"),
                _ => format!("{low:0width$}-{:0width$}", low + more),
            };
            match ranges.as_slice() {
                [] => stem.clone(),
                [one] => format!("{stem}[{}]", range(one)),
                [one, two, ..] if between.is_empty() => format!("{stem}[{},{}]", range(one), range(two)),
                [one, two, ..] => format!("{stem}[{}]{between}[{}]", range(one), range(two)),
            }
        }).collect();
        let list = list.join(",");
        let dir = tempfile::tempdir().unwrap();
        match scontrol(&list, dir.path()) {
            Some(theirs) => prop_assert_eq!(words(&list), theirs, "{}", list),
            None => eprintln!("SKIP: no scontrol here to compare host lists with"),
        }
    }
}
