//! A name is looked up anew at each look. Files of names stand for a name server, in a mount
//! namespace of their own, which takes root.

use std::path::Path;
use std::process::Command;

use headwater_discovery::Places;

/// Set in the process that has a namespace of its own: the folder of its files.
const FOLDER: &str = "HEADWATER_TEST_NAMES";
const ENTRY: &str = "dns:workers.headwater.test:7402";

fn write(folder: &Path, records: &[&str]) {
    let lines: String = records.iter().map(|at| format!("{at} workers.headwater.test\n")).collect();
    // Written in place: it is this very file that is mounted.
    std::fs::write(folder.join("hosts"), lines).unwrap();
}

fn look_while_records_change(folder: &Path) {
    let mut places = Places::parse(&[ENTRY]).unwrap();
    let mut look = |records: &[&str]| {
        write(folder, records);
        let sight = places.look();
        (sight.addresses, sight.troubles.len())
    };
    let found = |addresses: &[&str]| addresses.iter().map(|a| format!("{a}:7402")).collect();
    assert_eq!(look(&["127.0.0.2"]), (found(&["127.0.0.2"]), 0));
    // One joins, whichever order the records come in.
    let both: Vec<String> = found(&["127.0.0.2", "127.0.0.3"]);
    assert_eq!(look(&["127.0.0.3", "127.0.0.2"]), (both.clone(), 0));
    // The server forgets the name for a while: nobody is sent away, and that is reported.
    assert_eq!(look(&[]), (both, 1));
    assert_eq!(look(&["127.0.0.3"]), (found(&["127.0.0.3"]), 0));
}

#[test]
fn a_name_that_leads_elsewhere_later_is_followed() {
    if let Ok(folder) = std::env::var(FOLDER) {
        look_while_records_change(Path::new(&folder));
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), &[]);
    std::fs::write(folder.path().join("nsswitch.conf"), "hosts: files\n").unwrap();
    let mount = "cd \"$HEADWATER_TEST_NAMES\" && touch /etc/nsswitch.conf && \
                 mount --bind hosts /etc/hosts && mount --bind nsswitch.conf /etc/nsswitch.conf";
    let in_namespace = |then: &str| {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &format!("{mount} && {then}")]);
        command.env(FOLDER, folder.path());
        command
    };
    if !in_namespace("true").output().is_ok_and(|output| output.status.success()) {
        println!("SKIPPED: no mount namespace can be had here");
        return;
    }
    let program = std::env::current_exe().unwrap();
    let output = in_namespace(
        "exec \"$0\" names::a_name_that_leads_elsewhere_later_is_followed --exact --nocapture",
    )
    .arg(program)
    .output()
    .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let failed = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("1 passed"), "{said}\n{failed}");
}
