//! The worker's process.

use std::io::{self, BufRead, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use headwater_core::Region;

use super::orders::{Invitation, Order, Spent, cpu_time};
use super::{Plan, Way, raw};
use crate::contract::{LinkError, PartPlace, WorkerLink};
use crate::shm::{self, ShmConnect};
use crate::tcp::{self, ConnectTls, TcpConnect};

/// Parts that are on their way at a time over the tcp link.
const TCP_PARTS_AT_ONCE: usize = 4;

struct Worker {
    plan: Plan,
    parts: Vec<Arc<[Region]>>,
    first_slot: u32,
    shm: Arc<dyn WorkerLink>,
    tcp: Arc<dyn WorkerLink>,
    tls: Option<Arc<dyn WorkerLink>>,
    raw: TcpStream,
    /// As much as all slots: what is filled is no nearer to the processor than they are.
    memory: Vec<u8>,
}

/// Serves the orders on standard input until its end. `invitation` is what `receiver` handed to
/// its starter; `tls` is used where an encrypted link is measured too.
///
/// # Errors
/// The invitation or an order is not understood, or a link fails.
pub async fn worker(invitation: &str, tls: Option<ConnectTls>) -> io::Result<()> {
    let invalid = |what: &str| io::Error::other(format!("not {what}"));
    let invitation = Invitation::decode(invitation).ok_or_else(|| invalid("an invitation"))?;
    let mut worker = Worker::connect(&invitation, tls).await?;
    for line in io::stdin().lock().lines() {
        let line = line?;
        let order = Order::decode(&line).ok_or_else(|| invalid("an order"))?;
        let (start, cpu) = (Instant::now(), cpu_time());
        worker.obey(order).await?;
        let spent = Spent { wall: start.elapsed(), cpu: cpu_time().saturating_sub(cpu) };
        writeln!(io::stdout(), "{}", spent.encode())?;
    }
    Ok(())
}

// === impl Worker ===

impl Worker {
    async fn connect(invitation: &Invitation, tls: Option<ConnectTls>) -> io::Result<Self> {
        let plan = invitation.plan();
        let config = TcpConnect {
            socket_buffer_bytes: plan.socket_buffer_bytes,
            staging_buffers: TCP_PARTS_AT_ONCE + 2,
            ..TcpConnect::default()
        };
        let shm = shm::connect(&invitation.shm, &invitation.shm_key, &ShmConnect::default()).await;
        let tcp = tcp::connect(&invitation.tcp, &invitation.tcp_key, &config).await;
        let tls = match invitation.tls.address.is_empty() {
            true => None,
            false => {
                let config = TcpConnect { tls, ..config };
                let link = tcp::connect(&invitation.tls, &invitation.tls_key, &config).await;
                Some(link.map_err(io::Error::other)?)
            }
        };
        let parts = plan.parts().into_iter().map(Arc::from).collect();
        let memory = vec![1; plan.slot_bytes() as usize * plan.slots as usize];
        Ok(Self {
            shm: shm.map_err(io::Error::other)?,
            tcp: tcp.map_err(io::Error::other)?,
            tls,
            raw: TcpStream::connect(&invitation.raw)?,
            first_slot: invitation.first_slot,
            plan,
            parts,
            memory,
        })
    }

    async fn obey(&mut self, order: Order) -> io::Result<()> {
        match order.way {
            Way::Memcpy => Ok(()),
            Way::RawSocket => {
                let batch = &self.memory[..self.plan.slot_bytes() as usize];
                raw::send(&mut self.raw, batch, order.batches)
            }
            Way::Tcp => self.push(&self.tcp, order).await.map_err(io::Error::other),
            Way::TcpTls => match &self.tls {
                Some(tls) => self.push(tls, order).await.map_err(io::Error::other),
                None => Err(io::Error::other("no encrypted link was offered")),
            },
            Way::ShmEmpty => self.render(order, false).await.map_err(io::Error::other),
            Way::ShmFill => self.render(order, true).await.map_err(io::Error::other),
            Way::PrivateFill => {
                self.fill_memory(order.batches);
                Ok(())
            }
        }
    }

    /// Parts one after another, each in its slot.
    async fn render(&self, order: Order, fill: bool) -> Result<(), LinkError> {
        for i in 0..u64::from(order.batches) * self.parts.len() as u64 {
            let mut part = self.shm.begin(self.place(order, i)).await?;
            if fill {
                part.regions_mut().into_iter().for_each(|region| region.fill(i as u8));
            }
            self.shm.commit(part).await?;
        }
        Ok(())
    }

    /// Some parts at a time, unrendered.
    async fn push(&self, link: &Arc<dyn WorkerLink>, order: Order) -> Result<(), LinkError> {
        let count = u64::from(order.batches) * self.parts.len() as u64;
        let mut running = tokio::task::JoinSet::new();
        for i in 0..count {
            if running.len() == TCP_PARTS_AT_ONCE {
                running.join_next().await.expect("some are running").expect("no panic")?;
            }
            let (link, place) = (Arc::clone(link), self.place(order, i));
            running.spawn(async move { link.commit(link.begin(place).await?).await });
        }
        while let Some(done) = running.join_next().await {
            done.expect("no panic")?;
        }
        Ok(())
    }

    fn fill_memory(&mut self, batches: u32) {
        let slot_bytes = self.plan.slot_bytes() as usize;
        for i in 0..batches as usize * self.parts.len() {
            let slot = i / self.parts.len() % self.plan.slots as usize;
            for region in self.parts[i % self.parts.len()].iter() {
                let start = slot * slot_bytes + region.offset_bytes as usize;
                self.memory[start..start + region.len_bytes as usize].fill(i as u8);
            }
            std::hint::black_box(&mut self.memory);
        }
    }

    fn place(&self, order: Order, i: u64) -> PartPlace {
        super::receiver::place(&self.plan, &self.parts, self.first_slot, order.first_lease, i)
    }
}
