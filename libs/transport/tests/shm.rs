//! The shm link keeps the contract.

mod support;

headwater_transport::conformance_suite!(support::Shm::default());
