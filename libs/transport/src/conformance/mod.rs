//! The suite that every kind of link passes: one function per behaviour of the contract, generic
//! over a [`Harness`] that makes the two ends. Built with the feature `conformance`.
//!
//! `conformance_suite!(harness)` makes a test of each.

mod death;
mod delivery;
mod device;
mod limits;
mod refusal;
#[allow(unsafe_code)] // Vouches for memory that stands for a GPU's.
mod window;
mod withdrawal;
mod world;

use std::sync::Arc;

use async_trait::async_trait;
use tokio::sync::mpsc;

use crate::link::contract::{ReceiverLink, WorkerLink};
use crate::link::terms::{Arrival, LinkError, LinkOffer, SessionKey};
use crate::memory::slot::SlotMemory;
use crate::memory::window::DeviceWindow;

pub use death::*;
pub use delivery::*;
pub use device::*;
pub use limits::*;
pub use refusal::*;
pub use window::{HostImports, HostWindow};
pub use withdrawal::*;
pub use world::{HERE, Peer, World, fill, holds, pattern, region};

/// Makes the ends of one kind of link.
#[async_trait]
pub trait Harness: Send + Sync {
    /// A receiver that reports on `arrivals`.
    async fn listen(&self, arrivals: mpsc::UnboundedSender<Arrival>) -> Arc<dyn ReceiverLink>;

    /// A worker that connects as `key`.
    async fn connect(
        &self,
        offer: &LinkOffer,
        key: &SessionKey,
    ) -> Result<Arc<dyn WorkerLink>, LinkError>;

    /// Memory for a slot of this kind of link.
    fn slot(&self, len_bytes: u64) -> Arc<SlotMemory>;

    /// The memory of [`Harness::slot`] as one of a GPU, for a link that knows no other; `None`: it is the host's.
    fn window(&self, _memory: &Arc<SlotMemory>) -> Option<Arc<dyn DeviceWindow>> {
        None
    }

    /// Buffers that one worker link gives out at a time; `None` where a buffer is the slot itself.
    fn buffers(&self) -> Option<usize>;
}

/// A test per behaviour, in the module where it stands. The argument is an expression that makes
/// the harness.
#[macro_export]
macro_rules! conformance_suite {
    ($harness:expr) => {
        $crate::conformance_suite!(@tests $harness;
            bytes_land_in_their_regions_and_nowhere_else,
            many_parts_at_once_all_arrive_whole,
            one_peers_parts_arrive_in_the_order_of_commits,
            two_writers_of_one_part_do_no_harm,
            empty_regions_are_delivered,
            a_part_larger_than_any_socket_buffer_arrives_whole,
            parts_of_the_most_regions_arrive_whole,
            a_slot_added_later_is_written,
            a_slot_in_a_gpus_memory_is_written_there,
            a_place_beyond_a_gpus_memory_is_refused,
            a_removed_slot_is_let_go_of_and_the_others_stay,
            a_foreign_key_is_refused,
            an_ended_admission_is_refused,
            a_replayed_part_changes_nothing,
            a_part_of_another_peers_lease_changes_nothing,
            a_part_for_another_place_does_not_arrive,
            a_place_that_cannot_be_is_refused,
            a_lease_withdrawn_before_it_began_is_quiet,
            a_lease_withdrawn_before_the_worker_connects_is_quiet,
            a_lease_withdrawn_in_mid_part_ends_quiet_or_whole,
            a_delivered_lease_is_quiet,
            a_worker_told_of_a_withdrawal_cannot_commit,
            an_abandoned_part_reports_nothing,
            a_lost_worker_is_gone_and_its_part_is_not_there,
            nothing_is_written_after_gone,
            a_worker_that_does_not_listen_writes_nothing_after_gone,
            a_part_on_its_way_writes_nothing_after_gone,
            a_dropped_peer_is_gone_and_can_deliver_no_more,
            a_peer_dropped_before_it_connected_is_gone,
            a_lost_receiver_closes_its_workers,
            buffers_are_bounded,
            a_cancelled_commit_leaves_the_link_in_step,
        );
    };
    (@tests $harness:expr; $($name:ident),+ $(,)?) => {
        $(
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() {
                let harness = $harness;
                let test = $crate::conformance::$name(&harness);
                let limit = std::time::Duration::from_secs(120);
                tokio::time::timeout(limit, test).await.expect("the test hangs");
            }
        )+
    };
}
