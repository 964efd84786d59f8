//! Hosts of their own: network namespaces, each on a cable that can be pulled. Needs root.

use std::process::{Command, Stdio};
use std::sync::{Mutex, OnceLock};

/// A namespace with one cable to this host.
pub struct Host {
    /// Its number in this process.
    number: u8,
    /// Its name.
    pub namespace: String,
    /// This host's end of the cable.
    cable: String,
    /// Address of this host on the cable.
    pub here: String,
    /// Address of the namespace.
    pub there: String,
}

/// Hosts that a process has at a time: more have no subnet.
const HOSTS_MAX: u8 = 8;
/// Numbers of those that there are, a bit each.
static NUMBERS: Mutex<u8> = Mutex::new(0);

/// Whether namespaces can be made here; says why not.
pub fn available() -> Result<(), String> {
    // Once for all tests of a process, which run side by side.
    static AVAILABLE: OnceLock<Result<(), String>> = OnceLock::new();
    AVAILABLE.get_or_init(probe).clone()
}

fn probe() -> Result<(), String> {
    if !rustix::process::getuid().is_root() {
        return Err("not root".to_owned());
    }
    let probe = format!("hw-probe-{}", std::process::id());
    if !ip(&["netns", "add", &probe]) {
        return Err("`ip netns add` fails: is iproute2 installed?".to_owned());
    }
    ip(&["netns", "del", &probe]);
    Ok(())
}

fn ip(arguments: &[&str]) -> bool {
    let status = Command::new("ip").args(arguments).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn must(arguments: &[&str]) {
    assert!(ip(arguments), "ip {} failed", arguments.join(" "));
}

/// A number that no host of this process has. Its owner gives it back.
fn free_number() -> u8 {
    let mut numbers = NUMBERS.lock().expect("no panic");
    let number = numbers.trailing_ones() as u8;
    *numbers |= 1_u8.checked_shl(number.into()).unwrap_or_default();
    drop(numbers);
    assert!(number < HOSTS_MAX, "a process has {HOSTS_MAX} hosts at a time at most");
    number
}

impl Host {
    pub fn new() -> Self {
        // Tests run side by side, in processes and within one: subnets and names follow from the
        // process and the number.
        let (id, number) = (std::process::id(), free_number());
        let subnet = format!("10.{}.{}", 64 + id % 64, (id / 64) as u8 ^ (number << 5));
        let namespace = format!("hw-{id}-{number}");
        let (cable, inner) = (format!("hw{number}h{id}"), format!("hw{number}n{id}"));
        let host = Self {
            number,
            here: format!("{subnet}.1"),
            there: format!("{subnet}.2"),
            namespace,
            cable,
        };
        must(&["netns", "add", &host.namespace]);
        let peer = ["peer", "name", &inner, "netns", &host.namespace];
        must(&[&["link", "add", &host.cable, "type", "veth"], &peer[..]].concat());
        must(&["addr", "add", &format!("{}/24", host.here), "dev", &host.cable]);
        must(&["link", "set", &host.cable, "up"]);
        let within = |arguments: &[&str]| {
            must(&[&["-n", &host.namespace], arguments].concat());
        };
        within(&["addr", "add", &format!("{}/24", host.there), "dev", &inner]);
        within(&["link", "set", &inner, "up"]);
        within(&["link", "set", "lo", "up"]);
        within(&["route", "add", "default", "via", &host.here]);
        host
    }

    /// Pulls the cable: what is sent from now on is lost, and nobody learns of it.
    pub fn pull(&self) {
        must(&["link", "set", &self.cable, "down"]);
    }

    /// Puts it back.
    pub fn plug(&self) {
        must(&["link", "set", &self.cable, "up"]);
        must(&["-n", &self.namespace, "route", "replace", "default", "via", &self.here]);
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        ip(&["link", "del", &self.cable]);
        ip(&["netns", "del", &self.namespace]);
        if let Ok(mut numbers) = NUMBERS.lock() {
            *numbers &= !(1 << self.number);
        }
    }
}
