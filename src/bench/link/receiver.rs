//! The receiver's process, which measures.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::process::Child;
use std::sync::Arc;
use std::time::Instant;

use headwater_core::Region;
use headwater_transport::links::Workload;
use headwater_transport::{Arrival, LeaseId, PartPlace, PeerId, SlotId};
use tokio::sync::mpsc;

use super::ends::{self, Listening};
use super::orders::{Invitation, Order, cpu_time};
use super::plan::Plan;
use super::report::{Figures, Report};
use super::talk::ReceiverTalk;
use super::tools::Yard;
use super::ways::Way;
use super::{raw, tools};

struct Bench {
    plan: Plan,
    parts: Vec<Arc<[Region]>>,
    links: Vec<Listening>,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    raw: TcpStream,
    worker: ReceiverTalk,
    next_lease: u64,
    source: Vec<u8>,
    target: Vec<u8>,
}

/// Part `i` of a measurement: parts of a batch in order, batches over the slots in turn.
pub(super) fn place(plan: &Plan, parts: &[Arc<[Region]>], first_lease: u64, i: u64) -> PartPlace {
    let (batch, part) = (i / parts.len() as u64, (i % parts.len() as u64) as usize);
    PartPlace {
        lease: LeaseId(first_lease + i),
        slot: SlotId((batch % u64::from(plan.slots)) as u32),
        regions: Arc::clone(&parts[part]),
    }
}

/// Measures every way. `start` starts the other process, which calls `worker` with the text it is
/// given, with its standard input and output piped.
///
/// # Errors
/// A link cannot be set up, or the other process fails.
pub(crate) async fn receiver(
    plan: &Plan,
    start: impl FnOnce(&str) -> io::Result<Child>,
) -> io::Result<Report> {
    let (mut bench, mut absent) = Bench::set_up(plan, start).await?;
    let ways = Way::all().into_iter().filter(|way| bench.has(*way));
    let mut ways: Vec<(Way, Vec<Figures>)> = ways.map(|way| (way, Vec::new())).collect();
    for round in 0..=plan.rounds {
        let mut failed = Vec::new();
        for (way, rounds) in &mut ways {
            match bench.measure(*way).await {
                // The first round faults pages in and opens windows.
                Ok(_) if round == 0 => {}
                Ok(figures) => rounds.push(figures),
                // A program that is not installed, or does not work here.
                Err(error) if matches!(way, Way::Reference(_)) => {
                    absent.push(error.to_string());
                    failed.push(*way);
                }
                Err(error) => return Err(error),
            }
        }
        ways.retain(|(way, _)| !failed.contains(way));
    }
    let compared = ways.iter().filter_map(|(way, _)| Some((*way, bench.about(*way)?)));
    let compared = compared.collect();
    Ok(Report { batch_bytes: plan.slot_bytes(), ways, compared, absent })
}

// === impl Bench ===

impl Bench {
    async fn set_up(
        plan: &Plan,
        start: impl FnOnce(&str) -> io::Result<Child>,
    ) -> io::Result<(Self, Vec<String>)> {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let (mut links, mut absent) = ends::listen(plan, &sender).await?;
        let raw = TcpListener::bind(("127.0.0.1", 0))?;
        let invitation = Invitation {
            links: links.iter().map(Listening::invite).collect(),
            raw: raw.local_addr()?.to_string(),
            batch_samples: plan.batch_samples,
            part_samples: plan.part_samples,
            slots: plan.slots,
        };
        let mut worker = ReceiverTalk::new(start(&invitation.encode())?)?;
        let ends: Vec<_> = links.iter().map(|listening| Arc::clone(&listening.link)).collect();
        for (route, reason) in worker.until_ready(&ends)? {
            links.retain(|listening| listening.route != route);
            absent.push(reason);
        }
        let (raw, _) = tokio::task::spawn_blocking(move || raw.accept()).await??;
        let parts: Vec<Arc<[Region]>> = plan.parts().into_iter().map(Arc::from).collect();
        let batch = vec![1; plan.slot_bytes() as usize];
        let (source, target, plan) = (batch.clone(), batch, plan.clone());
        let next_lease = 1;
        let bench = Self { plan, parts, links, arrivals, raw, worker, next_lease, source, target };
        Ok((bench, absent))
    }

    /// Whether the machine has what the way needs. A yardstick needs a link that is compared with it.
    fn has(&self, way: Way) -> bool {
        match way {
            Way::Memcpy => true,
            Way::Link(route) | Way::Fill(route) => {
                self.links.iter().any(|listening| listening.route == route)
            }
            Way::RawSocket | Way::Reference(_) | Way::PrivateFill => {
                Way::pairs().into_iter().any(|(_, link, other)| other == way && self.has(link))
            }
        }
    }

    /// What a program of others is made to do, if it measures this way.
    fn about(&self, way: Way) -> Option<String> {
        let Way::Reference(reference) = way else { return None };
        (reference.run)(&self.workload()).ok()?.about
    }

    fn workload(&self) -> Workload<'_> {
        let lengths = || self.parts[0].iter().map(|region| region.len_bytes);
        let parts_bytes = lengths().sum::<u64>() * ends::PARTS_AT_ONCE as u64;
        Workload {
            options: &self.plan.options,
            tcp_port: 0,
            bytes: self.bytes(),
            region_bytes: lengths().max().unwrap_or(1),
            memory_bytes: self.plan.slots_bytes() + parts_bytes,
        }
    }

    /// Bytes of one measurement.
    fn bytes(&self) -> u64 {
        let regions = self.parts.iter().flat_map(|part| part.iter());
        regions.map(|region| region.len_bytes).sum::<u64>() * u64::from(self.plan.batches)
    }

    async fn measure(&mut self, way: Way) -> io::Result<Figures> {
        let batches = self.plan.batches;
        let count = u64::from(batches) * self.parts.len() as u64;
        let bytes = self.bytes();
        if let Way::Reference(reference) = way {
            return tools::measure(reference, self.workload()).map(Figures::of);
        }
        let order = Order { way, batches, first_lease: self.next_lease };
        let route = self.links.iter().find(|listening| Some(listening.route) == way.route());
        let peer = route.map(|listening| listening.peer);
        if let Some(Listening { link, peer, .. }) = route {
            self.next_lease += count;
            for i in 0..count {
                link.expect(*peer, place(&self.plan, &self.parts, order.first_lease, i));
            }
        }
        let (start, cpu) = (Instant::now(), cpu_time());
        self.worker.order(order)?;
        match (way, peer) {
            (Way::Memcpy, _) => raw::copy(&self.source, &mut self.target, batches),
            (Way::RawSocket, _) => raw::receive(&mut self.raw, &mut self.target, batches)?,
            (_, Some(peer)) => self.all_arrive(peer, count).await?,
            (_, None) => {}
        }
        let mut wall = start.elapsed();
        let cpu = cpu_time().saturating_sub(cpu);
        let worker = self.worker.spent()?;
        if way == Way::PrivateFill {
            wall = worker.wall;
        }
        let gigabytes = bytes as f64 / 1e9;
        Ok(Figures {
            gb_per_s: gigabytes / wall.as_secs_f64(),
            cpu_s_per_gb: (cpu + worker.cpu).as_secs_f64() / gigabytes,
            part: wall / count as u32,
        })
    }

    async fn all_arrive(&mut self, measured: PeerId, count: u64) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            match self.arrivals.recv().await {
                Some(Arrival::Part { .. }) => left -= 1,
                Some(Arrival::Connected { .. }) => {}
                // The rest of a link that the worker could not connect.
                Some(Arrival::Gone { peer, .. }) if peer != measured => {}
                other => return Err(io::Error::other(format!("the bench worker: {other:?}"))),
            }
        }
        Ok(())
    }
}

// === impl Figures ===

impl Figures {
    fn of(yard: Yard) -> Self {
        let Yard { moved, cpu } = yard;
        let cpu_s_per_gb = cpu.as_secs_f64() / (moved.bytes as f64 / 1e9);
        Self { gb_per_s: moved.gb_per_s, cpu_s_per_gb, part: std::time::Duration::ZERO }
    }
}
