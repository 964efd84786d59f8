//! RDMA devices and their ports.

use headwater_inventory::{RdmaDevice, RdmaPort};

use crate::doctor::{Check, Patient};

pub(super) fn checks(patient: &Patient<'_>) -> Vec<Check> {
    let devices = &patient.inventory.rdma_devices;
    if devices.is_empty() && !patient.forces_card() {
        return Vec::new(); // Nobody asked for it.
    }
    let mut checks = vec![summary(patient)];
    for device in devices {
        checks.extend(device.ports.iter().map(|port| of_port(device, port)));
    }
    checks
}

fn summary(patient: &Patient<'_>) -> Check {
    let devices = &patient.inventory.rdma_devices;
    let ports = devices.iter().map(|device| device.ports.len()).sum::<usize>();
    let usable = devices.iter().map(|device| device.usable_ports().count()).sum::<usize>();
    let found = format!("{} devices, {usable} of {ports} ports usable", devices.len());
    if usable > 0 {
        return Check::ok("rdma", found);
    }
    if devices.is_empty() {
        return Check::wrong(
            "rdma",
            "no device in /sys/class/infiniband",
            "load the card's driver (mlx5_ib, efa) and show its devices to the container \
             (/dev/infiniband), or name other links too",
        );
    }
    let remedy = "see each port below; until then batches come over tcp from other hosts";
    Check::wrong("rdma", found, remedy)
}

fn of_port(device: &RdmaDevice, port: &RdmaPort) -> Check {
    let check = format!("rdma {} port {}", device.name, port.number);
    let rate = port.rate_gbit.map_or("unknown rate".to_owned(), |rate| format!("{rate} Gb/s"));
    let numa = device.pci.as_ref().and_then(|pci| pci.numa_node);
    let numa = numa.map_or(String::new(), |node| format!(", NUMA node {node}"));
    let RdmaPort { state, physical_state, link_layer, gids, .. } = port;
    let found = format!("{state} ({physical_state}), {link_layer}, {rate}{numa}");
    let ethernet = link_layer == "Ethernet";
    if state != "ACTIVE" {
        let remedy = match (ethernet, physical_state.as_str()) {
            (true, _) => "bring its network interface up; look at cable and switch port",
            (false, "LinkUp") => "the cable is in: a subnet manager must run on the fabric",
            (false, _) => "look at cable and switch port",
        };
        return Check::absent(check, found, remedy);
    }
    let Some(gid) = port.best_gid() else {
        let remedy = match ethernet {
            true => "give its network interface an IP address: RoCE v2 goes by it",
            false => "the subnet manager has to give it an address",
        };
        return Check::absent(check, format!("{found}, no GID"), remedy);
    };
    let kind = gid.kind.as_deref().unwrap_or("IB");
    let interface = gid.interface.as_ref().map_or(String::new(), |name| format!(" on {name}"));
    let found = format!(
        "{found}, {} GIDs, best {} {} ({kind}{interface})",
        gids.len(),
        gid.index,
        gid.value
    );
    if ethernet && gid.kind.as_deref() != Some("RoCE v2") {
        let remedy = "RoCE v1 is not routed: give its network interface an IP address for RoCE v2";
        return Check::absent(check, found, remedy);
    }
    Check::ok(check, found)
}
