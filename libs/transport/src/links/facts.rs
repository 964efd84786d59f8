//! What others have to know of a link.

use headwater_dylib::Dylib;
use headwater_inventory::Library;

use super::LinkKind;
use super::config::LinksConfig;

/// How much a link is wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Demand {
    /// As one of several: it is not taken where it would be no better than the others.
    #[default]
    AmongOthers,
    /// It is the only one that the configuration names.
    Only,
    /// To be measured, over whatever there is.
    Measured,
}

/// What others have to know of a link.
#[derive(Debug)]
pub struct LinkFacts {
    /// It is taken where a configuration names no links.
    pub is_usual: bool,
    /// Every machine can have it; where it cannot be opened, something is wrong.
    pub is_everywhere: bool,
    /// It gets through wherever the control stream does: it is never left out of what a worker is offered.
    pub is_fallback: bool,
    /// Both ends are on one host.
    pub is_within_host: bool,
    /// Nobody else can read what is on its way: it does not leave the host, or it encrypts where that is asked for.
    pub keeps_private: bool,
    /// Workers render in the slot itself.
    pub renders_in_slot: bool,
    /// Slots must be memory that other processes can map.
    pub needs_shared_slots: bool,
    /// Slots may be in a GPU's memory.
    pub takes_device_slots: bool,
    /// Slots must be, and workers import them: a GPU's memory must be made to be exported.
    pub imports_slots: bool,
    /// A GPU of a worker that was killed may go on writing to slots that it had leases on when it went. A slot with such
    /// a lease must not be used again: it must be made anew.
    pub may_write_after_gone: bool,
    /// It is not available without an RDMA card.
    pub needs_card: bool,
    /// Links that use the same cards: where one of them is offered before it, it is not offered. It would register
    /// every slot once more.
    pub superseded_by: &'static [LinkKind],
    /// The port with whose rate it is compared; `None`: it uses none.
    pub port: Option<PortKind>,
    /// The library that it opens while the program runs.
    pub library: Option<LinkLibrary>,
    /// A number in its settings that has to be tried out.
    pub tuned: Option<Tuned>,
}

/// Whose port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// A network interface's, through the kernel.
    Interface,
    /// An RDMA card's, by one-sided writes.
    Card,
}

/// A port of an RDMA card.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CardPort {
    /// `mlx5_0`.
    pub device: String,
    /// Number of the port, from 1.
    pub port: u8,
    /// Index of its address.
    pub gid_index: u8,
}

/// A library that a link opens while the program runs.
#[derive(Debug)]
pub struct LinkLibrary {
    /// What it is called in reports.
    pub name: &'static str,
    /// Its file names.
    pub dylib: &'static Dylib,
    /// What it says of itself; `None`: another library has its name.
    pub version: fn(&Library) -> Option<String>,
    /// How to install it.
    pub remedy: &'static str,
}

/// A number in a link's settings that has to be tried out.
#[derive(Debug)]
pub struct Tuned {
    /// What it counts.
    pub name: &'static str,
    /// Its key.
    pub key: &'static str,
    /// Numbers to try, beside the one that is configured.
    pub tried: &'static [u32],
    /// The number in these settings.
    pub of: fn(&LinksConfig) -> u32,
    /// The same settings with another number.
    pub with: fn(LinksConfig, u32) -> LinksConfig,
}

// === impl LinkFacts ===

impl LinkFacts {
    /// Whether a network card may write to slots in a GPU's memory (`receiver.gpudirect`).
    #[must_use]
    pub fn writes_by_card(&self) -> bool {
        self.takes_device_slots && !self.imports_slots
    }

    /// Those of a link that the program was built without.
    pub(super) const ABSENT: Self = Self {
        is_usual: false,
        is_everywhere: false,
        is_fallback: false,
        is_within_host: false,
        keeps_private: false,
        renders_in_slot: false,
        needs_shared_slots: false,
        takes_device_slots: false,
        imports_slots: false,
        may_write_after_gone: false,
        needs_card: false,
        superseded_by: &[],
        port: None,
        library: None,
        tuned: None,
    };
}
