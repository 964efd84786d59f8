//! The encrypted tcp link keeps the same contract.

mod support;

headwater_transport::conformance_suite!(support::Tcp::encrypted());
