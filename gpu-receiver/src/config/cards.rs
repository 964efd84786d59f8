//! Which RDMA cards are near this rank.

use headwater_inventory::{Cores, Machine, RdmaDevice};

use super::{Device, ReceiverConfig};

/// Which GPUs a process sees, in the order of its own numbers: CUDA's variable.
pub(super) const VISIBLE: &str = "CUDA_VISIBLE_DEVICES";

// === impl ReceiverConfig ===

impl ReceiverConfig {
    /// Names of the cards of this machine that this rank tries first, the nearest to its batches' memory before others.
    #[must_use]
    pub fn near_cards(&self) -> Vec<String> {
        let (machine, own) = (Machine::this(), Cores::of_this_thread());
        let visible = std::env::var(VISIBLE).ok();
        near_cards(&machine, self.device.parsed().ok(), visible.as_deref(), &own, self.rank)
    }
}

/// Names of the fastest cards among those that are nearest to the rank's GPU. Where it has none, or it is not known
/// which: among those on the NUMA nodes of the cores that it may run on, or else among all. Each rank begins with
/// another one.
pub(super) fn near_cards(
    machine: &Machine,
    device: Option<Device>,
    visible: Option<&str>,
    own: &Cores,
    rank: u32,
) -> Vec<String> {
    let devices = machine.rdma_devices();
    let gpu = match device {
        Some(Device::Cuda(number)) => machine.visible_gpu(number, visible),
        _ => None,
    };
    let near = gpu.as_ref().and_then(|gpu| gpu.nearest(&devices)).map(|(_, near)| near);
    let near = near.unwrap_or_else(|| near_cores(machine, &devices, own));
    let fastest = near.iter().map(|device| rate(device)).fold(0.0, f64::max);
    let mut names: Vec<String> = near
        .into_iter()
        .filter(|device| rate(device) >= fastest)
        .map(|device| device.name.clone())
        .collect();
    if !names.is_empty() {
        let first = turn(rank as usize, names.len());
        names.rotate_left(first);
    }
    names
}

/// The cards that can be used on the NUMA nodes of these cores; all that can be used where there is none.
fn near_cores<'a>(
    machine: &Machine,
    devices: &'a [RdmaDevice],
    own: &Cores,
) -> Vec<&'a RdmaDevice> {
    let nodes = machine.nodes_of_cores(own);
    let usable: Vec<&RdmaDevice> = devices.iter().filter(|device| is_usable(device)).collect();
    let node = |device: &RdmaDevice| device.pci.as_ref().and_then(|pci| pci.numa_node);
    let is_near = |device: &RdmaDevice| node(device).is_some_and(|node| nodes.contains(&node));
    let near: Vec<&RdmaDevice> = usable.iter().copied().filter(|&device| is_near(device)).collect();
    if near.is_empty() { usable } else { near }
}

/// With which of `cards` cards a rank begins. Those of a host use all of them alike, whether its ranks take turns over
/// the sockets (0, 2, 4, 6 on one) or fill one after the other (0, 1, 2, 3).
fn turn(rank: usize, cards: usize) -> usize {
    // Every second number meets all of an odd number of cards anyway, and half of an even one.
    let rounds = if cards.is_multiple_of(2) { rank / cards } else { 0 };
    (rank + rounds) % cards
}

fn is_usable(device: &RdmaDevice) -> bool {
    device.usable_ports().next().is_some()
}

/// In 1e9 bits per second, of its fastest port.
fn rate(device: &RdmaDevice) -> f64 {
    device.usable_ports().filter_map(|port| port.rate_gbit).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use headwater_inventory::trees::{DGX_H100, unpack};

    use super::*;

    fn first_cards(device: Option<Device>, own: &str, ranks: &[u32]) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = unpack(DGX_H100, folder.path()).expect("a tree");
        let own = own.parse().expect("cores");
        let first = |&rank: &u32| near_cards(&machine, device, None, &own, rank).remove(0);
        ranks.iter().map(first).collect()
    }

    /// The DGX has five usable ports of 400 Gb/s on each node.
    #[test]
    fn ranks_without_a_gpu_spread_over_the_cards_of_their_own_socket() {
        let folder = tempfile::tempdir().expect("a folder");
        let machine = unpack(DGX_H100, folder.path()).expect("a tree");
        let devices = machine.rdma_devices();
        let node_of = |name: &str| {
            let device = devices.iter().find(|device| device.name == name).expect("a card");
            device.pci.as_ref().and_then(|pci| pci.numa_node)
        };
        for (own, node) in [("0-55", 0), ("60-70", 1)] {
            let all = near_cards(&machine, Some(Device::Cpu), None, &own.parse().unwrap(), 0);
            assert!(all.len() > 1 && all.iter().all(|name| node_of(name) == Some(node)), "{all:?}");
            for ranks in [[0, 1, 2, 3], [0, 2, 4, 6], [1, 3, 5, 7]] {
                let mut taken = first_cards(Some(Device::Cpu), own, &ranks);
                taken.sort();
                taken.dedup();
                assert_eq!(taken.len(), all.len().min(ranks.len()), "{ranks:?} on {own}");
            }
        }
        let both = near_cards(&machine, None, None, &"0-223".parse().unwrap(), 0);
        let unknown = near_cards(&machine, None, None, &Cores::default(), 0);
        assert_eq!(both, unknown, "all cards");
    }

    #[test]
    fn ranks_of_a_host_begin_with_each_card_as_often() {
        for cards in 1..=8 {
            for ranks in [(0..8).collect::<Vec<_>>(), (0..16).step_by(2).collect()] {
                let mut begun = vec![0; cards];
                ranks.iter().for_each(|&rank| begun[turn(rank, cards)] += 1);
                let (least, most) = (begun.iter().min(), begun.iter().max());
                assert!(most.unwrap() - least.unwrap() <= 1, "{ranks:?}: {begun:?}");
            }
        }
    }

    #[test]
    fn a_rank_with_a_gpu_takes_the_card_beside_it_wherever_it_runs() {
        assert_eq!(first_cards(Some(Device::Cuda(7)), "0-55", &[0, 7]), ["mlx5_11"; 2]);
    }
}
