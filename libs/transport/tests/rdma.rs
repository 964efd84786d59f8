//! The rdma link keeps the contract, over one queue pair and over several.
//!
//! Needs an RDMA port: `make test-rdma` runs it in a kernel with soft-RoCE, `make test` on verbs that
//! are emulated (`tests/emulated_verbs`) and says so. Fails without one, so that nothing else passes for
//! RDMA.

mod support;

mod one_pair {
    headwater_transport::conformance_suite!(crate::support::Rdma::new(1));
}

mod four_pairs {
    headwater_transport::conformance_suite!(crate::support::Rdma::new(4));
}

/// What no other link has, or has in this way: a receiver that destroys no queue pair before it says
/// `Gone` is found, and so is one whose card writes elsewhere.
mod bites {
    use crate::support::Rdma;

    crate::bites! {
        a_worker_that_does_not_listen_writes_nothing_after_gone finds Rdma::new(1) => OnlySaysGone;
        a_part_on_its_way_writes_nothing_after_gone finds Rdma::new(4) => OnlySaysGone;
        a_slot_in_a_gpus_memory_is_written_there finds
            Rdma::new(1) => WritesToTheHost, Rdma::new(1) => Shifts,
            Rdma::new(1) => KeepsRemovedSlots;
        a_place_beyond_a_gpus_memory_is_refused finds Rdma::new(1) => RepairsPlaces;
    }
}
