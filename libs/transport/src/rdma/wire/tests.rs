//! Bytes there and back, and bytes that are none of these.

use super::*;

fn endpoint(pairs: u32) -> Endpoint {
    let pair = |i| QueuePairAddress { number: 0x00ab_cd00 + i, first_packet: 0x00ff_ffff - i };
    let gid = std::array::from_fn(|i| i as u8);
    let path = Path { gid, gid_index: 0, port: 0, lid: 7, mtu: 5, ethernet: true };
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
fn messages_survive_the_wire_and_fit_their_buffers() {
    let lease = LeaseId(0x0102_0304_0506_0708);
    let memory = RemoteMemory { address: 1 << 40, len_bytes: 1 << 33, key: 9 };
    let down = [
        ToWorker::Standing,
        ToWorker::Slot { slot: SlotId(9), memory },
        ToWorker::Forget { slot: SlotId(9) },
        ToWorker::Expect { lease, fingerprint: u64::MAX - 1 },
        ToWorker::Withdraw { lease },
        ToWorker::Bye,
    ];
    for message in down {
        assert!(message.encode().len() <= MESSAGE_MAX_BYTES);
        assert_eq!(ToWorker::decode(&message.encode()), Some(message));
    }
    for message in [ToReceiver::Quiet { lease }, ToReceiver::Bye] {
        assert_eq!(ToReceiver::decode(&message.encode()), Some(message));
    }
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
    assert_eq!(changed(38 + 20, 0), None, "no pair");
    assert_eq!(changed(38 + 20, 17), None, "too many pairs");
    assert_eq!(changed(38 + 21 + 3, 1), None, "a number of more than 24 bits");
    assert_eq!(Answer::decode(&[]), None);
    assert_eq!(ToWorker::decode(&[4, 1, 2]), None);
    assert_eq!(ToReceiver::decode(&[9; 9]), None);
}
