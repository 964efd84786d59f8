//! Whether a link does what its port could.

use std::time::Duration;

use headwater_transport::links::{PortKind, Tuned};
use headwater_transport::{LinkError, LinkKind};

use super::control::Rates;
use crate::doctor::Check;

/// Share of a port's rate that one-sided writes have to reach; headers take some percent.
const RDMA_SHARE_MIN: f64 = 0.8;
/// Share of a port's rate that a stream has to reach,
const TCP_SHARE_MIN: f64 = 0.5;
/// up to this rate, in 1e9 bytes per second: what one core moves through a socket.
const TCP_CORE_GB_PER_S: f64 = 2.0;

/// Share of the best rate that a configured number has to reach: one second's rates differ by some
/// percent anyway.
const TUNED_SHARE_MIN: f64 = 0.85;

/// What was measured of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Figures {
    /// A small part there, and the word of its arrival back.
    pub(super) round_trip: Duration,
    /// 1e9 bytes per second.
    pub(super) gb_per_s: f64,
}

/// Compares a measurement with the ports of both ends.
pub(super) fn of(kind: LinkKind, figures: Figures, rates: Rates, same_host: bool) -> Check {
    let Figures { round_trip, gb_per_s } = figures;
    let round_trip_us = round_trip.as_secs_f64() * 1e6;
    let found = format!("round trip {round_trip_us:.0} us, {gb_per_s:.2} GB/s");
    let used = kind.facts().port;
    let rate = used.and_then(|port| match port {
        PortKind::Interface => rates.tcp,
        PortKind::Card => rates.rdma,
    });
    let Some(port) = rate.map(|gbit| gbit / 8.0) else {
        let why = if same_host { "within one host" } else { "the port's rate is not known" };
        return Check::ok(name(kind), format!("{found}, {why}"));
    };
    let share = gb_per_s / port;
    let found = format!("{found}, {:.0} % of the port's {port:.1} GB/s", share * 100.0);
    let (least, remedy) = match used {
        Some(PortKind::Card) => (
            RDMA_SHARE_MIN * port,
            "look at the card's PCIe width and generation (lspci -vv, LnkSta), at the MTU of the \
             port, and on Ethernet at pauses and lost packets (ethtool -S)",
        ),
        _ => (
            TCP_SHARE_MIN * port.min(TCP_CORE_GB_PER_S),
            "look at the interface's MTU, at lost packets (nstat TcpRetransSegs), at net.ipv4.\
             tcp_rmem and tcp_wmem, and at who else uses the network",
        ),
    };
    if gb_per_s >= least {
        Check::ok(name(kind), found)
    } else {
        Check::wrong(name(kind), found, remedy)
    }
}

/// Which number is best in the settings of a link, and whether the configured one comes near it; `None`: fewer than two
/// were measured. Within one host both ends share processors, so that figures say nothing of a card.
pub(super) fn of_tuned(
    kind: LinkKind,
    tuned: &Tuned,
    mut measured: Vec<(u32, Figures)>,
    wanted: u32,
    same_host: bool,
) -> Option<Check> {
    measured.sort_by_key(|(number, _)| *number);
    let best = measured.iter().map(|(_, figures)| figures.gb_per_s).fold(0.0, f64::max);
    let near = |rate: f64| rate >= TUNED_SHARE_MIN * best;
    // The fewest that are as good: each takes memory.
    let fewest = measured.iter().find(|(_, figures)| near(figures.gb_per_s))?.0;
    let of_wanted = measured.iter().find(|(number, _)| *number == wanted)?.1;
    if measured.len() < 2 {
        return None;
    }
    let rates = measured.iter().map(|(number, of)| format!("{number}: {:.2} GB/s", of.gb_per_s));
    let found = rates.collect::<Vec<_>>().join(", ") + &format!("; configured: {wanted}");
    let check = format!("{kind} {}", tuned.name);
    if same_host || near(of_wanted.gb_per_s) {
        return Some(Check::ok(check, found));
    }
    Some(Check::wrong(check, found, format!("set {} = {fewest}", tuned.key)))
}

/// A link that the other side could not open.
pub(super) fn closed(why: &str) -> Check {
    let remedy = "run `headwater doctor` there";
    Check::absent("link", format!("the other side: {why}"), remedy)
}

/// A link that could not be connected.
pub(super) fn refused(kind: LinkKind, error: &LinkError) -> Check {
    let remedy = "look at firewalls between the two hosts, and run `headwater doctor` on both";
    Check::wrong(name(kind), error.to_string(), remedy)
}

/// A link that connected, and failed while it was measured.
pub(super) fn broken(kind: LinkKind, reason: &str) -> Check {
    let remedy = "look at both hosts' kernel logs and at the switches between them (MTU, lost packets); \
                  until then leave the link out of receiver.links or augment.links";
    Check::wrong(name(kind), format!("it failed while it was measured: {reason}"), remedy)
}

pub(super) fn other_host(kind: LinkKind) -> Check {
    let remedy = "nothing is to be done: it is for workers on the receiver's host";
    Check::absent(name(kind), "the other side is another host", remedy)
}

fn name(kind: LinkKind) -> String {
    format!("link {kind}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Verdict;

    fn judged(kind: LinkKind, gb_per_s: f64, tcp: f64, rdma: f64) -> Verdict {
        let figures = Figures { round_trip: Duration::from_micros(90), gb_per_s };
        of(kind, figures, Rates { tcp: Some(tcp), rdma: Some(rdma) }, false).verdict
    }

    #[test]
    fn writes_have_to_come_near_the_ports_rate() {
        assert_eq!(judged(LinkKind::Rdma, 46.0, 25.0, 400.0), Verdict::Ok);
        assert_eq!(judged(LinkKind::Rdma, 24.0, 25.0, 400.0), Verdict::Wrong);
    }

    #[test]
    fn a_stream_has_to_reach_half_the_port_or_what_one_core_moves() {
        assert_eq!(judged(LinkKind::Tcp, 0.7, 10.0, 400.0), Verdict::Ok);
        assert_eq!(judged(LinkKind::Tcp, 0.6, 10.0, 400.0), Verdict::Wrong);
        assert_eq!(judged(LinkKind::Tcp, 1.1, 200.0, 400.0), Verdict::Ok);
        assert_eq!(judged(LinkKind::Tcp, 0.9, 200.0, 400.0), Verdict::Wrong);
    }

    #[test]
    fn more_queue_pairs_are_asked_for_only_where_they_help() {
        let of = |rates: &[(u32, f64)], same_host| {
            let figures = |gb_per_s| Figures { round_trip: Duration::from_micros(9), gb_per_s };
            let measured = rates.iter().map(|&(pairs, rate)| (pairs, figures(rate))).collect();
            let tuned = LinkKind::Rdma.facts().tuned.as_ref().expect("queue pairs");
            of_tuned(LinkKind::Rdma, tuned, measured, 1, same_host)
        };
        let rates = [(4, 24.0), (1, 12.0), (2, 23.0)];
        let check = of(&rates, false).expect("three were measured");
        assert_eq!(check.verdict, Verdict::Wrong);
        assert_eq!(check.found, "1: 12.00 GB/s, 2: 23.00 GB/s, 4: 24.00 GB/s; configured: 1");
        assert_eq!(check.remedy.as_deref(), Some("set links.rdma_queue_pairs = 2"));
        assert!(of(&rates, true).expect("three").is_ok(), "of one host");
        assert!(of(&[(1, 12.0), (2, 12.5), (4, 11.0)], false).expect("three").is_ok());
        assert_eq!(of(&[(1, 12.0)], false), None, "nothing to compare with");
    }

    #[test]
    fn without_a_known_rate_there_is_nothing_to_fall_short_of() {
        let figures = Figures { round_trip: Duration::from_micros(90), gb_per_s: 0.01 };
        let check = of(LinkKind::Tcp, figures, Rates::default(), false);
        assert_eq!(check.verdict, Verdict::Ok);
        assert!(check.found.contains("not known"), "{}", check.found);
    }
}
