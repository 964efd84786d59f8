//! Which address of a port packets are sent from.

use super::verbs::{Device, GidState, PortState};
use super::wire::{Gid, common_bits};

/// Index and address of the entry of the port's table that is best. `wanted`: the index is given;
/// `towards`: the address to reach.
pub(super) fn choose(
    device: &Device,
    port: u8,
    state: &PortState,
    wanted: Option<u8>,
    towards: Option<&Gid>,
) -> Option<(u8, Gid)> {
    let usable = |index: u8| {
        let gid = device.gid(port, index).ok().filter(|state| state.gid != Gid::default())?;
        Some((index, gid))
    };
    if let Some(index) = wanted {
        return usable(index).map(|(index, state)| (index, state.gid));
    }
    let all = 0..u8::try_from(state.gids).unwrap_or(u8::MAX);
    let best = all.filter_map(usable).min_by_key(|(index, gid)| {
        // On InfiniBand the first is the port's own, link-local or not.
        let rank = match state.ethernet {
            false => Rank::default(),
            true => {
                let is_roce_v1 =
                    gid.is_roce_v1.unwrap_or_else(|| is_roce_v1(device.name(), port, *index));
                rank(gid, is_roce_v1, is_here(gid.interface), towards)
            }
        };
        (rank, *index)
    });
    best.map(|(index, state)| (index, state.gid))
}

/// Least for the best.
#[derive(Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rank {
    /// Of a network interface that this process does not see: another container's.
    is_elsewhere: bool,
    is_roce_v1: bool,
    /// Bits that are not those of the address to be reached.
    other_bits: u32,
    /// 0: IPv4; 2: link-local.
    scope: u8,
}

fn rank(gid: &GidState, is_roce_v1: bool, is_here: bool, towards: Option<&Gid>) -> Rank {
    let address = &gid.gid;
    let link_local = address[0] == 0xfe && address[1] == 0x80;
    let ipv4 = address[..10] == [0; 10] && address[10..12] == [0xff; 2];
    let scope = match (ipv4, link_local) {
        (true, _) => 0,
        (false, false) => 1,
        (false, true) => 2,
    };
    let other_bits = towards.map_or(0, |other| 128 - common_bits(address, other));
    Rank { is_elsewhere: !is_here, is_roce_v1, other_bits, scope }
}

/// Whether the interface of this index is of this process's network; 0 is none that is known.
fn is_here(interface: u32) -> bool {
    if interface == 0 {
        return true;
    }
    let Ok(interfaces) = std::fs::read_dir("/sys/class/net") else { return true };
    interfaces.flatten().any(|found| {
        let index = std::fs::read_to_string(found.path().join("ifindex")).unwrap_or_default();
        index.trim().parse() == Ok(interface)
    })
}

/// Whether the entry speaks RoCE v1, which no router passes; by the kernel's word, where the library has
/// none.
fn is_roce_v1(device: &str, port: u8, index: u8) -> bool {
    let path = format!("/sys/class/infiniband/{device}/ports/{port}/gid_attrs/types/{index}");
    std::fs::read_to_string(path).is_ok_and(|kind| kind.starts_with("IB/RoCE v1"))
}
