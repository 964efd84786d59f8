//! The worker's process.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use headwater_core::Region;
use headwater_transport::links::ConnectOptions;
use headwater_transport::{LinkError, PartBuffer, PartPlace, WorkerLink};

use super::ends::{self, PARTS_AT_ONCE};
use super::orders::{Invitation, Order, Spent, cpu_time};
use super::plan::Plan;
use super::raw;
use super::talk::WorkerTalk;
use super::ways::{Route, Way};

/// Distance of writes in bytes that gives each page memory of its own.
const PAGE_BYTES: usize = 4096;

struct Worker {
    plan: Plan,
    parts: Vec<Arc<[Region]>>,
    links: Vec<(Route, Arc<dyn WorkerLink>)>,
    raw: TcpStream,
    /// As large as all slots, so that it is not closer to the processor's caches than they are.
    memory: Vec<u8>,
}

/// Serves the orders on standard input until its end. `invitation` is what `receiver` handed to
/// its starter.
///
/// # Errors
/// The invitation or an order is not understood, or a link fails.
pub(crate) async fn worker(invitation: &str, own: &ConnectOptions) -> io::Result<()> {
    let invitation = Invitation::decode(invitation);
    let invitation = invitation.ok_or_else(|| io::Error::other("not an invitation"))?;
    let talk = WorkerTalk;
    let mut worker = Worker::connect(&invitation, own, &talk).await?;
    talk.ready()?;
    while let Some(order) = talk.next()? {
        let (start, cpu) = (Instant::now(), cpu_time());
        worker.obey(order).await?;
        talk.spent(Spent { wall: start.elapsed(), cpu: cpu_time().saturating_sub(cpu) })?;
    }
    Ok(())
}

// === impl Worker ===

impl Worker {
    async fn connect(
        invitation: &Invitation,
        own: &ConnectOptions,
        talk: &WorkerTalk,
    ) -> io::Result<Self> {
        let plan = invitation.plan();
        let mut links = Vec::new();
        for invited in &invitation.links {
            match ends::connect(invited, own, talk).await {
                Ok(link) => links.push((invited.route, link)),
                Err(error) if invited.route.kind.facts().is_everywhere => {
                    return Err(io::Error::other(error));
                }
                Err(error) => talk.without(invited.route, &error)?,
            }
        }
        let parts = plan.parts().into_iter().map(Arc::from).collect();
        let memory = vec![1; plan.slot_bytes() as usize * plan.slots as usize];
        let raw = TcpStream::connect(&invitation.raw)?;
        Ok(Self { plan, parts, links, raw, memory })
    }

    async fn obey(&mut self, order: Order) -> io::Result<()> {
        match order.way {
            Way::Memcpy | Way::Reference(_) => Ok(()),
            Way::RawSocket => {
                let batch = &self.memory[..self.plan.slot_bytes() as usize];
                raw::send(&mut self.raw, batch, order.batches)
            }
            Way::Link(_) if !order.way.is_empty() => {
                self.push(self.link(order)?, order).await.map_err(io::Error::other)
            }
            Way::Link(_) | Way::Fill(_) => {
                let fill = !order.way.is_empty();
                self.render(self.link(order)?, order, fill).await.map_err(io::Error::other)
            }
            Way::PrivateFill => {
                self.fill_memory(order.batches);
                Ok(())
            }
        }
    }

    fn link(&self, order: Order) -> io::Result<&Arc<dyn WorkerLink>> {
        let found = self.links.iter().find(|(route, _)| order.way.route() == Some(*route));
        let none = || io::Error::other(format!("no link for {}", order.way.name()));
        found.map(|(_, link)| link).ok_or_else(none)
    }

    /// Parts one after another, each in its slot.
    async fn render(
        &self,
        link: &Arc<dyn WorkerLink>,
        order: Order,
        fill: bool,
    ) -> Result<(), LinkError> {
        for i in 0..u64::from(order.batches) * self.parts.len() as u64 {
            let mut part = link.begin(self.place(order, i)).await?;
            if fill {
                part.regions_mut().into_iter().for_each(|region| region.fill(i as u8));
            }
            link.commit(part).await?;
        }
        Ok(())
    }

    /// Some parts at a time, unrendered.
    async fn push(&self, link: &Arc<dyn WorkerLink>, order: Order) -> Result<(), LinkError> {
        let count = u64::from(order.batches) * self.parts.len() as u64;
        // Memory that is registered with a card has pages of its own from the beginning.
        let touched = !link.kind().facts().needs_card;
        let mut running = tokio::task::JoinSet::new();
        for i in 0..count {
            if running.len() == PARTS_AT_ONCE {
                running.join_next().await.expect("some are running").expect("no panic")?;
            }
            let (link, place) = (Arc::clone(link), self.place(order, i));
            running.spawn(async move {
                let mut part = link.begin(place).await?;
                if touched {
                    touch(&mut part);
                }
                link.commit(part).await
            });
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
        super::receiver::place(&self.plan, &self.parts, order.first_lease, i)
    }
}

/// Memory that was never written is the same page of zeros over and over. A processor reads it
/// from its cache, so it is sent faster than any rendered part.
fn touch(part: &mut PartBuffer) {
    for region in part.regions_mut() {
        region.iter_mut().step_by(PAGE_BYTES).for_each(|byte| *byte = 1);
    }
}
