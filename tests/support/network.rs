//! Hosts of their own: network namespaces, each on a cable that can be pulled. Needs root.

use std::process::{Command, Stdio};

/// A namespace with one cable to this host.
pub struct Host {
    /// Its name.
    pub namespace: String,
    /// This host's end of the cable.
    cable: String,
    /// Address of this host on the cable.
    pub here: String,
    /// Address of the namespace.
    pub there: String,
}

/// Whether namespaces can be made here; says why not.
pub fn available() -> Result<(), String> {
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

impl Host {
    /// The `number`th of this test, below 200.
    pub fn new(number: u8) -> Self {
        // Tests run side by side: subnets and names follow from the process.
        let id = std::process::id();
        let subnet = format!("10.{}.{}", 64 + id % 64, (id / 64) as u8 ^ (number << 5));
        let namespace = format!("hw-{id}-{number}");
        let (cable, inner) = (format!("hw{number}h{id}"), format!("hw{number}n{id}"));
        let host =
            Self { here: format!("{subnet}.1"), there: format!("{subnet}.2"), namespace, cable };
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

    /// Pulls the cable: what is sent from now on is lost, and nobody is told.
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
    }
}
