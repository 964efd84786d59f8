//! `tests/rdma/hosts.sh`, for the first ten minutes on two hosts with cards: here both are this one, and an `ssh`
//! stands in that starts a shell. On emulated verbs: the figures say nothing of a card.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use crate::emulation;

/// Calls every host 127.0.0.1, and runs the command there.
const SSH: &str = r#"#!/bin/bash
if [ "$1" = -G ]; then echo "hostname 127.0.0.1"; exit; fi
while [ "${1:0:1}" = - ]; do shift 2; done
shift
exec sh -c "$*"
"#;

/// The script between two names of this host; `program` is what it runs on them.
fn hosts(folder: &Path, program: &str, port: u16) -> (Output, String) {
    let ssh = folder.join("ssh");
    fs::write(&ssh, SSH).expect("a file");
    fs::set_permissions(&ssh, fs::Permissions::from_mode(0o755)).expect("its mode");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/rdma/hosts.sh");
    let path = std::env::var("PATH").expect("a path");
    let output = Command::new(script)
        .args(["someone@one", "other"])
        .env("PATH", format!("{}:{path}", folder.display()))
        .env("HEADWATER", program)
        .env("HOSTS_PORT", port.to_string())
        .env("LD_LIBRARY_PATH", emulation::verbs())
        .env("TMPDIR", folder)
        .output()
        .expect("bash");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    (output, said)
}

/// A port that nobody has now.
fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    listener.local_addr().expect("its number").port()
}

#[test]
fn a_table_shows_each_link_both_ways_and_rdma_with_several_queue_pairs() {
    let folder = tempfile::tempdir().expect("a folder");
    let (output, said) = hosts(folder.path(), env!("CARGO_BIN_EXE_headwater"), free_port());
    if said.contains("locked memory") && said.contains("rdma link is not available") {
        return eprintln!("SKIP: the limit of locked memory lets nobody take the rdma link");
    }
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}{errors}");
    assert!(said.contains("== someone@one (127.0.0.1)\nkernel "), "{said}");
    for ends in ["| someone@one | other |", "| other | someone@one |"] {
        let row = |link: &str| {
            let found =
                said.lines().find(|line| line.starts_with(&format!("{ends} {link} | ok | ")));
            found.unwrap_or_else(|| panic!("no {link} in {said}{errors}")).to_owned()
        };
        assert!(row("rdma").contains("round trip "), "{said}");
        row("tcp");
        let pairs = row("rdma queue pairs");
        for number in ["1: ", "2: ", "4: ", "configured: 1"] {
            assert!(pairs.contains(number), "{pairs}");
        }
    }
    let left = fs::read_dir(folder.path()).expect("the folder").count();
    assert_eq!(left, 1, "nothing but ssh is left behind");
}

#[test]
fn a_program_that_is_not_there_is_named_in_the_table() {
    let folder = tempfile::tempdir().expect("a folder");
    let (output, said) = hosts(folder.path(), "/nowhere/headwater", free_port());
    assert_eq!(output.status.code(), Some(1), "{said}");
    let row = said.lines().find(|line| line.starts_with("| someone@one | other | - | FAILED"));
    assert!(row.is_some_and(|row| row.contains("/nowhere/headwater")), "{said}");
}
