//! What recorded machines are read as.

use std::net::IpAddr;

use headwater_inventory::trees::{self, unpack};
use headwater_inventory::{Distance, Limit, Machine};
use tempfile::TempDir;

fn machine(tree: &str) -> (TempDir, Machine) {
    let folder = tempfile::tempdir().expect("a folder");
    let machine = unpack(tree, folder.path()).expect("a tree");
    (folder, machine)
}

fn nearest(machine: &Machine) -> Vec<(String, Distance, Vec<String>)> {
    let devices = machine.rdma_devices();
    let gpus = machine.gpus();
    let pairs = gpus.iter().map(|gpu| {
        let (distance, devices) = gpu.nearest(&devices).expect("an RDMA device");
        let names = devices.into_iter().map(|device| device.name.clone()).collect();
        (gpu.pci.address.clone(), distance, names)
    });
    pairs.collect()
}

/// The manual's table says which device is which GPU's default.
#[test]
fn each_gpu_of_a_dgx_has_the_nearest_device_that_its_manual_says() {
    let (_folder, machine) = machine(trees::DGX_H100);
    let manual = ["mlx5_0", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9", "mlx5_10", "mlx5_11"];
    let near = nearest(&machine);
    assert_eq!(near.len(), 8);
    for ((_, distance, devices), expected) in near.iter().zip(manual) {
        assert_eq!(devices, &[expected]);
        assert!(matches!(distance, Distance::Switch { .. }), "{distance}");
    }
    assert_eq!(near[0].0, "0000:1b:00.0");
    assert!(machine.gpus().iter().all(|gpu| gpu.model.as_deref() == Some("NVIDIA H100 80GB HBM3")));
    assert!(machine.gpus().iter().all(|gpu| gpu.driver.as_deref() == Some("nvidia")));
    let driver = machine.nvidia_driver().expect("a driver");
    assert_eq!((driver.version.as_str(), driver.open), ("535.161.08", false));
    assert!(machine.has_module("nvidia_peermem") && !machine.has_module("nvidia"));
}

#[test]
fn a_port_that_is_down_is_no_way_out() {
    let (_folder, machine) = machine(trees::DGX_H100);
    let devices = machine.rdma_devices();
    let names: Vec<&str> = devices.iter().map(|device| device.name.as_str()).collect();
    assert_eq!(names[..4], ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3"]);
    assert_eq!(names[10..], ["mlx5_10", "mlx5_11"]);
    let usable: Vec<bool> = devices.iter().map(|d| d.usable_ports().next().is_some()).collect();
    assert_eq!(usable.iter().filter(|usable| !**usable).count(), 2);
    let port = &devices[2].ports[0];
    assert_eq!((port.state.as_str(), port.physical_state.as_str()), ("DOWN", "Disabled"));
    assert_eq!(devices[0].ports[0].rate_gb_per_s(), Some(50.0));
    assert_eq!(devices[0].pci.as_ref().expect("on PCI").numa_node, Some(0));
}

/// RoCE v2 over IPv4, which the kernel put fourth.
#[test]
fn the_address_on_ethernet_is_that_of_roce_v2_over_ipv4() {
    let (_folder, machine) = machine(trees::ROCE);
    let devices = machine.rdma_devices();
    let port = &devices[0].ports[0];
    assert_eq!(port.link_layer, "Ethernet");
    assert_eq!(port.gids.len(), 4, "the zero one is left out");
    let gid = port.best_gid().expect("an address");
    assert_eq!((gid.index, gid.kind.as_deref()), (3, Some("RoCE v2")));
    assert_eq!(gid.interface.as_deref(), Some("ens1f0np0"));
    let near = nearest(&machine);
    assert_eq!(near[0].1, Distance::NumaNode);
    assert_eq!(near[1].1, Distance::System);
    assert!(machine.nvidia_driver().expect("a driver").open);
}

/// Every device of a Grace tray has a host bridge of its own: only NUMA nodes tell them apart.
#[test]
fn devices_behind_bridges_of_their_own_are_near_by_numa_node() {
    let (_folder, machine) = machine(trees::GB200_TRAY);
    let near = nearest(&machine);
    let near: Vec<_> =
        near.iter().map(|(gpu, d, names)| (&gpu[..4], *d, names.join(" "))).collect();
    let (first, second) = ("mlx5_0 mlx5_1".to_owned(), "mlx5_4 mlx5_5".to_owned());
    let node = Distance::NumaNode;
    assert_eq!(near[..2], [("0008", node, first.clone()), ("0009", node, first)]);
    assert_eq!(near[2..], [("0018", node, second.clone()), ("0019", node, second)]);
}

#[test]
fn a_machine_without_any_of_it_has_none() {
    let (_folder, machine) = machine(trees::PLAIN);
    assert_eq!((machine.rdma_devices().len(), machine.gpus().len()), (0, 0));
    assert_eq!(machine.nvidia_driver(), None);
    assert_eq!(machine.huge_pages(), None);
    assert_eq!(machine.kernel().expect("a kernel").version, (6, 1));
    let limits = machine.limits().expect("limits");
    assert!(limits.may_lock_all, "all capabilities are there");
    let eight_mib = Limit { soft: Some(8 << 20), hard: Some(8 << 20) };
    assert_eq!(limits.locked_bytes, eight_mib);
    assert_eq!(machine.processor().expect("one").cores, 2);
    let empty = Machine::recorded("/nonexistent");
    assert_eq!((empty.rdma_devices().len(), empty.kernel(), empty.limits()), (0, None, None));
}

#[test]
fn an_address_lies_behind_the_interface_of_its_longest_prefix() {
    let (_folder, machine) = machine(trees::ROCE);
    let to = |address: &str| {
        let address: IpAddr = address.parse().expect("an address");
        machine.interface_to(address).map(|found| (found.name, found.rate_gbit, found.mtu_bytes))
    };
    let fast = Some(("ens1f0np0".to_owned(), Some(100.0), Some(9000)));
    let slow = Some(("eno1".to_owned(), Some(10.0), Some(1500)));
    assert_eq!(to("192.168.100.7"), fast);
    assert_eq!(to("::ffff:192.168.100.7"), fast);
    assert_eq!(to("192.168.101.7"), slow);
    assert_eq!(to("fe80::1"), fast);
    assert_eq!(to("2001:db8:1::1"), slow);
    assert_eq!(to("2002::1"), None);
    assert_eq!(to("127.0.0.1"), Some(("lo".to_owned(), None, None)));
}
