//! The encrypted tcp link keeps the same contract.

use crate::support;

headwater_transport::conformance_suite!(support::Tcp::encrypted());
