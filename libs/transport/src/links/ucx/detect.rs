//! Whether this machine has UCX, and a way that is worth taking.

use std::sync::Arc;

use super::context::Context;
use crate::link::terms::{LinkError, LinkKind};

/// Where Linux lists RDMA devices, EFA's among them.
const RDMA_DEVICES: &str = "/sys/class/infiniband";
const SOCKETS: &str = "UCX's own sockets are no substitute: they end a receiver's process when a \
                       worker dies in mid-write. Take the tcp link, or name UCX_TLS=tcp and the \
                       ucx link alone to try them all the same";

/// Whether this machine has UCX, and which transports it would take.
///
/// # Errors
/// What is missing, with the remedy.
pub fn detect(rdma_only: bool) -> Result<String, LinkError> {
    open(rdma_only, &[]).map(|context| context.describe())
}

/// Whether `UCX_TLS` names the transports to take. Over its sockets UCX emulates one-sided writes,
/// and the emulation ends the process that is written to when its peer dies in mid-write (seen with
/// 1.13.1: `ucp_progress_rma_cmpl` hands an error to `ucp_request_send`, which calls that fatal):
/// it must be opted into.
#[must_use]
pub fn transports_chosen() -> bool {
    is_set("UCX_TLS")
}

fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}

/// `devices`: the only ones that are opened, where they can be and the environment names no others.
pub(super) fn open(rdma_only: bool, devices: &[String]) -> Result<Arc<Context>, LinkError> {
    if !devices.is_empty() && !is_set("UCX_NET_DEVICES") {
        let named = Context::open(devices);
        match named.map(|context| (context.has_rdma(), context)) {
            Ok((true, context)) => {
                tracing::info!(
                    found = context.describe(),
                    "UCX opens the devices near this rank only"
                );
                return Ok(context);
            }
            Ok((false, _)) => {
                tracing::info!(?devices, "UCX has no RDMA transport over these devices")
            }
            Err(reason) => tracing::info!(?devices, reason, "UCX cannot open these devices alone"),
        }
    }
    open_all(rdma_only)
}

fn open_all(rdma_only: bool) -> Result<Arc<Context>, LinkError> {
    let devices = || std::fs::read_dir(RDMA_DEVICES).into_iter().flatten();
    if rdma_only && devices().next().is_none() {
        // UCX stays in the process once it is loaded: not for nothing.
        return Err(LinkKind::Ucx.setup(format!("no RDMA device in {RDMA_DEVICES}; {SOCKETS}")));
    }
    let context = Context::open(&[]).map_err(|reason| LinkKind::Ucx.setup(reason))?;
    if rdma_only && !context.has_rdma() {
        let found = context.describe();
        return Err(LinkKind::Ucx.setup(format!(
            "no transport over an RDMA card ({found}): install UCX with ib, and look at UCX_TLS, \
             UCX_NET_DEVICES and the card's port; {SOCKETS}"
        )));
    }
    tracing::debug!(found = context.describe(), "UCX is there");
    Ok(context)
}
