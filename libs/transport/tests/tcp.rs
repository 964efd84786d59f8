//! The tcp link keeps the contract.

use crate::support;

headwater_transport::conformance_suite!(support::Tcp::default());
