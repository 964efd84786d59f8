//! Which parts are kept and which go: plain state, without locks or waiting.
//!
//! A part that every session of its stream has is spare, and goes before all that are not; among equals
//! the one that was used least recently goes first. One that somebody reads stays.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use headwater_core::streams::{StreamNews, Streams};
use headwater_core::{Digest, PartKey};
use headwater_transport::PartMemory;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

use super::{End, Made};
use crate::metrics;

/// Keys of evicted parts that are remembered, with the sessions that had them.
const EVICTED_MAX: usize = 1 << 14;

#[derive(Default)]
pub(super) struct Kept {
    entries: HashMap<PartKey, Entry>,
    /// Parts that are kept, in the order in which they go: spare ones, then by their last use.
    order: BTreeSet<(bool, u64, PartKey)>,
    /// Parts that were kept once, by the time when they went.
    evicted: HashMap<PartKey, (u64, Vec<u64>)>,
    evicted_order: BTreeMap<u64, PartKey>,
    /// Sessions of each stream.
    streams: Streams,
    free: Vec<PartMemory>,
    /// All memory, free or not.
    taken_bytes: u64,
    /// Bytes that links read.
    lent_bytes: u64,
    clock: u64,
}

enum Entry {
    Making(InMaking),
    Kept(KeptPart),
}

struct InMaking {
    number: u64,
    stream: Digest,
    had: Vec<u64>,
    waiters: BTreeMap<u64, oneshot::Sender<End>>,
    unwanted: CancellationToken,
}

struct KeptPart {
    made: Made,
    stream: Digest,
    /// Sessions that have it.
    had: Vec<u64>,
    wanted: bool,
    used: u64,
}

/// What there is of a part.
pub(super) enum Found {
    Kept(Made),
    Waits { waiter: u64 },
    Makes { waiter: u64, making: u64, unwanted: CancellationToken, again: bool },
}

/// What there is for a part that wants memory.
pub(super) enum Taken {
    Memory(PartMemory),
    /// There is room: counted already.
    Allocate,
    /// Look again when this is dropped.
    Evicted(Made),
    /// As `Evicted`.
    Unmapped(PartMemory),
    Nothing,
}

// === impl Kept ===

impl Kept {
    pub(super) fn enter(&mut self, stream: Digest, session: u64) {
        self.streams.enter(stream, session);
    }

    pub(super) fn leave(&mut self, stream: Digest, session: u64) {
        self.streams.leave(stream, session);
        let of_stream = self.entries.iter().filter_map(|(key, entry)| match entry {
            Entry::Kept(part) if part.stream == stream => Some(*key),
            _ => None,
        });
        let keys: Vec<PartKey> = of_stream.collect();
        keys.into_iter().for_each(|key| self.place(key, None));
    }

    pub(super) fn heard(
        &mut self,
        stream: Digest,
        session: u64,
        step_and_width: (u64, u32),
        (heartbeat, now): (Duration, Duration),
    ) -> StreamNews {
        self.streams.heard(stream, session, step_and_width, heartbeat, now)
    }

    pub(super) fn claim(
        &mut self,
        key: PartKey,
        stream: Digest,
        end: oneshot::Sender<End>,
    ) -> Found {
        let now = self.tick();
        match self.entries.get_mut(&key) {
            Some(Entry::Kept(part)) => {
                let made = part.made.clone();
                self.place(key, Some(now));
                Found::Kept(made)
            }
            Some(Entry::Making(making)) => {
                making.waiters.insert(now, end);
                Found::Waits { waiter: now }
            }
            None => {
                let evicted = self.evicted.remove(&key);
                let again = evicted.is_some();
                let had = evicted.map_or_else(Vec::new, |(at, had)| {
                    self.evicted_order.remove(&at);
                    had
                });
                let (unwanted, waiters) = (CancellationToken::new(), [(now, end)].into());
                let making =
                    InMaking { number: now, stream, had, waiters, unwanted: unwanted.clone() };
                self.entries.insert(key, Entry::Making(making));
                Found::Makes { waiter: now, making: now, unwanted, again }
            }
        }
    }

    /// Forgets who waited; the token of a making that nobody waits for now.
    pub(super) fn waits_no_more(&mut self, key: PartKey, waiter: u64) -> Option<CancellationToken> {
        let Some(Entry::Making(making)) = self.entries.get_mut(&key) else { return None };
        making.waiters.remove(&waiter)?;
        if !making.waiters.is_empty() {
            return None;
        }
        // Whoever asks from now on has it made anew.
        let unwanted = making.unwanted.clone();
        self.entries.remove(&key);
        Some(unwanted)
    }

    /// A making has ended; whoever waits for it.
    pub(super) fn made(
        &mut self,
        key: PartKey,
        number: u64,
        made: Option<Made>,
    ) -> Vec<oneshot::Sender<End>> {
        match self.entries.get(&key) {
            Some(Entry::Making(making)) if making.number == number => {}
            // Nobody waited for it any more.
            _ => return Vec::new(),
        }
        let Some(Entry::Making(making)) = self.entries.remove(&key) else { return Vec::new() };
        let InMaking { stream, had, waiters, .. } = making;
        if let Some(made) = made {
            let used = self.tick();
            self.order.insert((true, used, key));
            let part = KeptPart { made, stream, had, wanted: true, used };
            self.entries.insert(key, Entry::Kept(part));
            self.report();
        }
        waiters.into_values().collect()
    }

    pub(super) fn delivered(&mut self, key: PartKey, session: u64) {
        if let Some(Entry::Kept(part)) = self.entries.get_mut(&key)
            && !part.had.contains(&session)
        {
            part.had.push(session);
            self.place(key, None);
        }
    }

    pub(super) fn lend(&mut self, bytes: u64, most: u64) -> bool {
        let may = self.lent_bytes + bytes <= most;
        self.lent_bytes += if may { bytes } else { 0 };
        may
    }

    pub(super) fn take_back(&mut self, bytes: u64) {
        self.lent_bytes -= bytes;
    }

    /// Memory of `bytes`, where there are `most` in all.
    pub(super) fn take(&mut self, bytes: u64, most: u64) -> Taken {
        let fits = |memory: &PartMemory| (bytes..=bytes * 2).contains(&memory.len_bytes());
        if let Some(at) = self.free.iter().position(fits) {
            return Taken::Memory(self.free.swap_remove(at));
        }
        if self.taken_bytes + bytes <= most {
            self.taken_bytes += bytes;
            self.report();
            return Taken::Allocate;
        }
        if let Some(memory) = self.free.pop() {
            self.forget(memory.len_bytes());
            return Taken::Unmapped(memory);
        }
        self.evict().map_or(Taken::Nothing, Taken::Evicted)
    }

    pub(super) fn give_back(&mut self, memory: PartMemory) {
        self.free.push(memory);
        self.report();
    }

    /// Memory is the system's again.
    pub(super) fn forget(&mut self, bytes: u64) {
        self.taken_bytes -= bytes;
        self.report();
    }

    fn evict(&mut self) -> Option<Made> {
        let is_read = |key: &PartKey| match self.entries.get(key) {
            Some(Entry::Kept(part)) => part.made.part.is_shared(),
            _ => true,
        };
        let victim = *self.order.iter().find(|(_, _, key)| !is_read(key))?;
        self.order.remove(&victim);
        let key = victim.2;
        let Some(Entry::Kept(part)) = self.entries.remove(&key) else { return None };
        metrics::part_evicted(part.wanted);
        self.remember(key, part.had);
        Some(part.made)
    }

    fn remember(&mut self, key: PartKey, had: Vec<u64>) {
        if self.evicted_order.len() >= EVICTED_MAX
            && let Some((_, oldest)) = self.evicted_order.pop_first()
        {
            self.evicted.remove(&oldest);
        }
        let now = self.tick();
        self.evicted.insert(key, (now, had));
        self.evicted_order.insert(now, key);
    }

    /// Puts a part where it belongs in the order in which parts go.
    fn place(&mut self, key: PartKey, used: Option<u64>) {
        let Some(Entry::Kept(part)) = self.entries.get_mut(&key) else { return };
        self.order.remove(&(part.wanted, part.used, key));
        part.wanted = self.streams.sessions(part.stream).any(|one| !part.had.contains(&one));
        part.used = used.unwrap_or(part.used);
        self.order.insert((part.wanted, part.used, key));
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn report(&self) {
        let free: u64 = self.free.iter().map(PartMemory::len_bytes).sum();
        metrics::share(self.order.len(), self.taken_bytes - free);
    }
}
