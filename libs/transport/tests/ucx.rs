//! The ucx link keeps the contract, over the transports that UCX finds on this machine: sockets,
//! where there is no RDMA card.

mod support;
mod ucx_exit;

use headwater_transport::LinkError;
use headwater_transport::links::ucx;

/// `None`, loudly, where UCX is not installed.
fn harness() -> Option<support::Ucx> {
    support::has_ucx().then(support::Ucx::default)
}

headwater_transport::conformance_suite!(match harness() {
    Some(harness) => harness,
    None => return,
});

/// Sockets are no RDMA: whoever asks for RDMA and has only sockets gets an error that names what
/// was found.
#[test]
fn without_an_rdma_card_a_demand_for_one_is_refused() {
    if std::fs::read_dir("/sys/class/infiniband").is_ok_and(|mut devices| devices.next().is_some())
    {
        eprintln!("SKIP: there is an RDMA card");
        return;
    }
    let refused = ucx::detect(true);
    let Err(LinkError::Setup { reason, .. }) = &refused else { panic!("{refused:?}") };
    assert!(reason.contains("RDMA"), "{reason}");
}
