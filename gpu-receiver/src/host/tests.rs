//! Messages between a trial and the service, over a real socket.

use std::io::{Read as _, Seek as _, Write as _};
use std::os::fd::AsFd;

use headwater_transport::packets::PacketSocket;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

use super::frames::{self, Inbox};
use super::messages::{Answer, Ask, Sample};
use headwater_proto::augment::{Provenance, Substitution};

fn pair() -> [PacketSocket; 2] {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let (one, other) =
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).expect("a pair");
    [one, other].map(|fd| PacketSocket::from_fd(fd).expect("a runtime"))
}

fn provenance(number: i64) -> Provenance {
    let reason = format!("\u{fc}ber \"{number}\"");
    let substituted =
        (number % 3 == 0).then_some(Substitution { used_index: number as u32, reason });
    Provenance { key: "k".repeat(number as usize), label: -number, substituted }
}

#[tokio::test]
async fn messages_of_many_packets_come_whole_and_in_order() {
    let [service, trial] = pair();
    let provenances: Vec<Provenance> = (0..2000).map(provenance).collect();
    let samples = provenances.iter().map(Sample::from).collect();
    let amaxes = [f32::INFINITY, f32::NAN, 1.5];
    let fp8_amaxes = amaxes.map(f32::to_bits).to_vec();
    let batch = Answer::Batch { ask: 7, slot: 3, samples, fp8_amaxes };
    let gone = Answer::Gone { ask: 8, reason: String::new() };
    let sent = async {
        frames::send(&service, &batch, None).await.expect("sent");
        frames::send(&service, &gone, None).await.expect("sent");
    };
    let heard = async {
        let mut inbox = Inbox::default();
        let mut heard = Vec::new();
        for _ in 0..2 {
            let (answer, fd) = inbox.receive(&trial).await.expect("whole").expect("there");
            assert!(fd.is_none());
            heard.push(answer);
        }
        heard
    };
    let ((), heard) = tokio::join!(sent, heard);
    assert_eq!(heard, [batch, gone]);
    let Answer::Batch { samples, .. } = &heard[0] else { unreachable!() };
    let back: Vec<Provenance> = samples.iter().cloned().map(Provenance::from).collect();
    assert_eq!(back, provenances);
}

#[tokio::test]
async fn a_descriptor_comes_with_its_message() {
    let [service, trial] = pair();
    let mut file = tempfile::tempfile().expect("a file");
    file.write_all(b"pixels").expect("written");
    let slot = Answer::Slot { slot: 0, len_bytes: 6 };
    frames::send(&service, &slot, Some(file.as_fd())).await.expect("sent");
    let (answer, fd) =
        Inbox::default().receive::<Answer>(&trial).await.expect("whole").expect("there");
    assert_eq!(answer, slot);
    let mut same = std::fs::File::from(fd.expect("a descriptor"));
    let mut text = String::new();
    same.rewind().expect("a file");
    same.read_to_string(&mut text).expect("read");
    assert_eq!(text, "pixels");
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    for packet in [&b""[..], b"\x02{}", b"\x00{}", b"\x00{\"want\":{}}"] {
        let [service, trial] = pair();
        trial.send(packet, None).await.expect("sent");
        let heard = Inbox::default().receive::<Ask>(&service).await;
        match packet {
            // As the end of the stream.
            b"" => assert!(heard.expect("the end").is_none()),
            _ => assert_eq!(heard.expect_err("no message").kind(), std::io::ErrorKind::InvalidData),
        }
    }
}
