//! The tcp link keeps the contract.

mod support;

headwater_transport::conformance_suite!(support::Tcp::default());
