//! Bytes there and back, and bytes that are none of these.

use super::*;
use crate::link::messages::ToWorker;
use crate::memory::place::SlotId;

/// As it comes over the wire.
fn port(ethernet: bool) -> Path {
    Path {
        gid: Gid::default(),
        gid_index: 0,
        port: 0,
        lid: 7,
        mtu: 5,
        ethernet,
        needs_grh: true,
        traffic_class: 0,
        service_level: 0,
    }
}

/// An InfiniBand port in the subnet of this number.
fn in_subnet(number: u8, needs_grh: bool) -> Path {
    let mut path = Path { needs_grh, ..port(false) };
    path.gid[7] = number;
    path.gid[15] = 9;
    path
}

#[test]
fn a_global_route_is_taken_on_ethernet_and_where_either_end_needs_it() {
    let (plain, picky) = (in_subnet(1, false), in_subnet(1, true));
    assert!(!plain.has_global_route(&plain));
    assert!(plain.has_global_route(&picky) && picky.has_global_route(&plain));
    let ethernet = Path { needs_grh: false, ..port(true) };
    assert!(ethernet.has_global_route(&ethernet));
}

#[test]
fn ports_of_two_kinds_or_two_subnets_do_not_reach_each_other() {
    let one = in_subnet(1, false);
    assert_eq!(one.check_reach(&in_subnet(1, true)), Ok(()));
    let reason = one.check_reach(&in_subnet(2, false)).unwrap_err();
    assert!(reason.contains("0000000000000001 and 0000000000000002"), "{reason}");
    let reason = one.check_reach(&port(true)).unwrap_err();
    assert!(reason.contains("Ethernet") && reason.contains("rdma_device"), "{reason}");
    let far = Path { gid: [9; 16], ..port(true) };
    assert_eq!(port(true).check_reach(&far), Ok(()), "routers pass RoCE v2");
}

#[test]
fn offers_survive_the_wire_and_texts_are_none() {
    let offer = Offer { ethernet: true, gid: [7; 16], description: "mlx5_0 port 1".into() };
    assert_eq!(Offer::decode(&offer.encode()), Some(offer));
    assert_eq!(Offer::decode(b"mlx5_0 port 1 (Ethernet), GID 3"), None);
}

fn endpoint(pairs: u32) -> Endpoint {
    let pair = |i| QueuePairAddress { number: 0x00ab_cd00 + i, first_packet: 0x00ff_ffff - i };
    let gid = std::array::from_fn(|i| i as u8);
    let path = Path { gid, ..port(true) };
    Endpoint { path, pairs: (0..pairs).map(pair).collect() }
}

#[test]
fn endpoints_survive_the_wire() {
    let probe = RemoteMemory { address: u64::MAX - 4096, len_bytes: 4096, key: 0xdead_beef };
    for pairs in [1, 4, QUEUE_PAIRS_MAX] {
        let request = Request {
            version: VERSION,
            key: std::array::from_fn(|i| 200 - i as u8),
            endpoint: endpoint(pairs),
        };
        assert_eq!(Request::decode(&request.encode()), Some(Ok(request)));
        let accepted = Answer::Accepted { endpoint: endpoint(pairs), probe };
        assert_eq!(Answer::decode(&accepted.encode()), Some(accepted));
    }
    let refused = Answer::Refused { reason: "no".into() };
    assert_eq!(Answer::decode(&refused.encode()), Some(refused));
}

#[test]
fn every_word_fits_a_message_buffer() {
    let terms = RemoteMemory { address: 1 << 40, len_bytes: 1 << 33, key: 9 };
    let longest = ToWorker::Slot { slot: SlotId(9), terms };
    assert!(longest.encode().len() <= MESSAGE_MAX_BYTES);
    assert_eq!(ToWorker::decode(&longest.encode()), Some(longest));
}

#[test]
fn foreign_bytes_are_no_endpoint() {
    let good = Request { version: VERSION, key: [3; 32], endpoint: endpoint(2) }.encode();
    assert_eq!(Request::decode(b"GET / HTTP/1.1\r\n"), None);
    assert_eq!(Request::decode(&good[..good.len() - 1]), None);
    assert_eq!(Request::decode(&[&good[..], &[0]].concat()), None);
    let changed = |at: usize, to: u8| {
        let mut bytes = good.clone();
        bytes[at] = to;
        Request::decode(&bytes)
    };
    assert_eq!(changed(4, 9), Some(Err(9)), "another version says so");
    assert_eq!(changed(38 + 18, 6), None, "no such size of packets");
    assert_eq!(changed(38 + 19, 4), None, "a flag that is not known");
    assert_eq!(changed(38 + 20, 0), None, "no pair");
    assert_eq!(changed(38 + 20, 17), None, "too many pairs");
    assert_eq!(changed(38 + 21 + 3, 1), None, "a number of more than 24 bits");
    assert_eq!(Answer::decode(&[]), None);
}
