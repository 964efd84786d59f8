//! The suite fails where a behaviour is taken away: each is tried on a link with the fault that it
//! is there to find. Those of the rdma link stand in rdma.rs, since they need verbs.

use crate::support::{Cuda, Shm, Tcp};

fn tcp() -> Tcp {
    Tcp::default()
}

fn shm() -> Shm {
    Shm::default()
}

fn cuda() -> Cuda {
    Cuda::default()
}

crate::bites! {
    bytes_land_in_their_regions_and_nowhere_else finds tcp() => Shifts, shm() => Flips, cuda() => Shifts;
    many_parts_at_once_all_arrive_whole finds tcp() => Flips, shm() => LosesParts;
    one_peers_parts_arrive_in_the_order_of_commits finds tcp() => Reorders;
    two_writers_of_one_part_do_no_harm finds tcp() => Flips, shm() => LosesParts;
    empty_regions_are_delivered finds tcp() => LosesEmptyParts;
    a_part_larger_than_any_socket_buffer_arrives_whole finds tcp() => Flips;
    parts_of_the_most_regions_arrive_whole finds tcp() => Shifts, shm() => LosesParts;
    a_slot_added_later_is_written finds tcp() => IgnoresLaterSlots, shm() => IgnoresLaterSlots;
    a_removed_slot_is_let_go_of_and_the_others_stay finds shm() => KeepsRemovedSlots;
    a_foreign_key_is_refused finds tcp() => AcceptsAnyKey;
    an_ended_admission_is_refused finds tcp() => OnlySaysGone, shm() => OnlySaysGone;
    a_replayed_part_changes_nothing finds shm() => ExpectsAgain;
    a_part_of_another_peers_lease_changes_nothing finds tcp() => ExpectsOfEverybody, shm() => ExpectsOfEverybody;
    a_part_for_another_place_does_not_arrive finds tcp() => RepairsPlaces, shm() => RepairsPlaces;
    a_place_that_cannot_be_is_refused finds tcp() => RepairsPlaces, shm() => RepairsPlaces;
    a_lease_withdrawn_before_it_began_is_quiet finds tcp() => OnlySaysQuiet, shm() => OnlySaysQuiet;
    a_lease_withdrawn_before_the_worker_connects_is_quiet finds tcp() => OnlySaysQuiet, shm() => OnlySaysQuiet;
    a_lease_withdrawn_in_mid_part_ends_quiet_or_whole finds tcp() => OnlySaysQuiet, shm() => OnlySaysQuiet;
    a_delivered_lease_is_quiet finds tcp() => NeverSaysQuiet;
    a_worker_told_of_a_withdrawal_cannot_commit finds tcp() => DeafWorker, shm() => DeafWorker;
    an_abandoned_part_reports_nothing finds tcp() => ReportsBegunParts;
    a_lost_worker_is_gone_and_its_part_is_not_there finds tcp() => LosesGone, shm() => LosesGone;
    nothing_is_written_after_gone finds shm() => OnlySaysGone;
    a_slot_in_a_gpus_memory_is_written_there finds cuda() => Flips, cuda() => KeepsRemovedSlots;
    a_place_beyond_a_gpus_memory_is_refused finds cuda() => RepairsPlaces;
    a_worker_that_does_not_listen_writes_nothing_after_gone finds
        tcp() => OnlySaysGone, shm() => OnlySaysGone;
    a_part_on_its_way_writes_nothing_after_gone finds tcp() => OnlySaysGone;
    a_dropped_peer_is_gone_and_can_deliver_no_more finds tcp() => OnlySaysGone, shm() => OnlySaysGone;
    a_peer_dropped_before_it_connected_is_gone finds tcp() => LosesGone, shm() => LosesGone;
    a_lost_receiver_closes_its_workers finds tcp() => NeverCloses;
    buffers_are_bounded finds tcp() => OneBufferTooMany;
    a_cancelled_commit_leaves_the_link_in_step finds tcp() => Flips;
}
