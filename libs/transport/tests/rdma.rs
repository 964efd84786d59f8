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
