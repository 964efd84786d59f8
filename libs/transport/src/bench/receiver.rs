//! The receiver's process, which measures.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout};
use std::sync::Arc;
use std::time::Instant;

use headwater_core::Region;
use tokio::sync::mpsc;

use super::orders::{Invitation, Order, Spent, cpu_time};
use super::report::{Figures, Report};
use super::{Plan, Way, raw};
use crate::contract::{
    Arrival, LeaseId, LinkKind, LinkOffer, PartPlace, PeerId, ReceiverLink, SessionKey, SlotId,
};
use crate::shm::{self, ShmListen};
use crate::slot::{DEFAULT_SHM_DIR, SlotMemory};
use crate::tcp::{self, TcpListen};

const PEER: PeerId = PeerId(1);

struct Bench {
    plan: Plan,
    parts: Vec<Arc<[Region]>>,
    shm: Arc<dyn ReceiverLink>,
    tcp: Arc<dyn ReceiverLink>,
    tls: Option<Arc<dyn ReceiverLink>>,
    arrivals: mpsc::UnboundedReceiver<Arrival>,
    raw: TcpStream,
    worker: Worker,
    next_lease: u64,
    source: Vec<u8>,
    target: Vec<u8>,
}

/// The other process; killed when dropped.
struct Worker {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

/// Part `i` of a measurement: parts of a batch in order, batches over the slots in turn.
pub(super) fn place(
    plan: &Plan,
    parts: &[Arc<[Region]>],
    first_slot: u32,
    first_lease: u64,
    i: u64,
) -> PartPlace {
    let (batch, part) = (i / parts.len() as u64, (i % parts.len() as u64) as usize);
    PartPlace {
        lease: LeaseId(first_lease + i),
        slot: SlotId(first_slot + (batch % u64::from(plan.slots)) as u32),
        regions: Arc::clone(&parts[part]),
    }
}

/// Measures every way. `start` starts the other process, which calls `worker` with the text it is
/// given, with its standard input and output piped.
///
/// # Errors
/// A link cannot be set up, or the other process fails.
pub async fn receiver(
    plan: &Plan,
    start: impl FnOnce(&str) -> io::Result<Child>,
) -> io::Result<Report> {
    let mut bench = Bench::set_up(plan, start).await?;
    let measured = |way: &Way| *way != Way::TcpTls || plan.tls.is_some();
    let ways = Way::ALL.into_iter().filter(measured);
    let mut ways: Vec<(Way, Vec<Figures>)> = ways.map(|way| (way, Vec::new())).collect();
    for round in 0..=plan.rounds {
        for (way, rounds) in &mut ways {
            let figures = bench.measure(*way).await?;
            if round > 0 {
                // The first round faults pages in and opens windows.
                rounds.push(figures);
            }
        }
    }
    Ok(Report { batch_bytes: plan.slot_bytes(), ways })
}

// === impl Bench ===

impl Bench {
    async fn set_up(
        plan: &Plan,
        start: impl FnOnce(&str) -> io::Result<Child>,
    ) -> io::Result<Self> {
        let (sender, arrivals) = mpsc::unbounded_channel();
        let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = TcpListen {
            bind: loopback,
            socket_buffer_bytes: plan.socket_buffer_bytes,
            ..TcpListen::default()
        };
        let shm = shm::listen(&ShmListen::default(), sender.clone()).await;
        let shm = shm.map_err(io::Error::other)?;
        let tcp = tcp::listen(&config, sender.clone()).await.map_err(io::Error::other)?;
        let tls = match &plan.tls {
            None => None,
            Some((tls, _)) => {
                let config = TcpListen { tls: Some(tls.clone()), ..config };
                Some(tcp::listen(&config, sender).await.map_err(io::Error::other)?)
            }
        };
        for slot in 0..plan.slots {
            let memory = SlotMemory::shared(Path::new(DEFAULT_SHM_DIR), plan.slot_bytes(), false);
            let memory = Arc::new(memory.map_err(io::Error::other)?);
            shm.add_slot(SlotId(slot), Arc::clone(&memory)).map_err(io::Error::other)?;
            for link in tls.iter().chain([&tcp]) {
                link.add_slot(SlotId(slot), Arc::clone(&memory)).map_err(io::Error::other)?;
            }
        }
        let raw = TcpListener::bind(loopback)?;
        let invitation = Invitation {
            shm: shm.offer(),
            tcp: tcp.offer(),
            tls: match &tls {
                None => LinkOffer { kind: LinkKind::Tcp, address: Vec::new() },
                Some(tls) => tls.offer(),
            },
            raw: raw.local_addr()?.to_string(),
            shm_key: SessionKey::random()?,
            tcp_key: SessionKey::random()?,
            tls_key: SessionKey::random()?,
            batch_samples: plan.batch_samples,
            part_samples: plan.part_samples,
            slots: plan.slots,
            first_slot: 0,
            socket_buffer_bytes: plan.socket_buffer_bytes.unwrap_or(0),
        };
        shm.admit(PEER, invitation.shm_key.clone());
        tcp.admit(PEER, invitation.tcp_key.clone());
        if let Some(tls) = &tls {
            tls.admit(PEER, invitation.tls_key.clone());
        }
        let worker = Worker::new(start(&invitation.encode())?)?;
        let (raw, _) = tokio::task::spawn_blocking(move || raw.accept()).await??;
        let parts: Vec<Arc<[Region]>> = plan.parts().into_iter().map(Arc::from).collect();
        let batch = vec![1; plan.slot_bytes() as usize];
        let (source, target, plan) = (batch.clone(), batch, plan.clone());
        let next_lease = 1;
        Ok(Self { plan, parts, shm, tcp, tls, arrivals, raw, worker, next_lease, source, target })
    }

    async fn measure(&mut self, way: Way) -> io::Result<Figures> {
        let count = u64::from(self.plan.batches) * self.parts.len() as u64;
        let order = Order { way, batches: self.plan.batches, first_lease: self.next_lease };
        let link = match way {
            Way::Tcp => Some(Arc::clone(&self.tcp)),
            Way::TcpTls => self.tls.clone(),
            Way::ShmEmpty | Way::ShmFill => Some(Arc::clone(&self.shm)),
            Way::Memcpy | Way::RawSocket | Way::PrivateFill => None,
        };
        if let Some(link) = &link {
            self.next_lease += count;
            for i in 0..count {
                link.expect(PEER, place(&self.plan, &self.parts, 0, order.first_lease, i));
            }
        }
        let (start, cpu) = (Instant::now(), cpu_time());
        self.worker.order(order)?;
        match way {
            Way::Memcpy => raw::copy(&self.source, &mut self.target, order.batches),
            Way::RawSocket => raw::receive(&mut self.raw, &mut self.target, order.batches)?,
            Way::PrivateFill => {}
            Way::Tcp | Way::TcpTls | Way::ShmEmpty | Way::ShmFill => self.all_arrive(count).await?,
        }
        let mut wall = start.elapsed();
        let cpu = cpu_time().saturating_sub(cpu);
        let worker = self.worker.spent()?;
        if way == Way::PrivateFill {
            wall = worker.wall;
        }
        let bytes = self.parts.iter().flat_map(|part| part.iter()).map(|r| r.len_bytes);
        let gigabytes = bytes.sum::<u64>() as f64 * f64::from(order.batches) / 1e9;
        Ok(Figures {
            gb_per_s: gigabytes / wall.as_secs_f64(),
            cpu_s_per_gb: (cpu + worker.cpu).as_secs_f64() / gigabytes,
            part: wall / count as u32,
        })
    }

    async fn all_arrive(&mut self, count: u64) -> io::Result<()> {
        let mut left = count;
        while left > 0 {
            match self.arrivals.recv().await {
                Some(Arrival::Part { .. }) => left -= 1,
                Some(Arrival::Connected { .. }) => {}
                other => return Err(io::Error::other(format!("the bench worker: {other:?}"))),
            }
        }
        Ok(())
    }
}

// === impl Worker ===

impl Worker {
    fn new(mut child: Child) -> io::Result<Self> {
        let pipes = child.stdin.take().zip(child.stdout.take());
        let Some((orders, answers)) = pipes else {
            return Err(io::Error::other("the bench worker's input and output are not piped"));
        };
        Ok(Self { child, orders, answers: BufReader::new(answers) })
    }

    fn order(&mut self, order: Order) -> io::Result<()> {
        writeln!(self.orders, "{}", order.encode())
    }

    fn spent(&mut self) -> io::Result<Spent> {
        let mut line = String::new();
        self.answers.read_line(&mut line)?;
        Spent::decode(&line)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
