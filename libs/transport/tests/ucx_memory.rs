//! What the ucx link does to memory, over the transports that UCX finds on this machine.

mod support;

use headwater_transport::LinkKind;
use headwater_transport::links::ucx;
use support::counts::batches_need_no_registration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_registered_once_and_copies_of_sockets_are_owned_to() {
    if !support::has_ucx() {
        return;
    }
    let harness = support::Ucx::default();
    let counts = batches_need_no_registration(&harness, LinkKind::Ucx).await;
    let of = |name| counts.of(name, LinkKind::Ucx).expect("counted");
    // The counter of bytes has both directions, of one process here.
    let arrived = of("headwater_link_bytes_total") / 2;
    let copied = of("headwater_link_copied_bytes_total");
    // Over sockets the receiver's processor moves every byte; a card's transport does not use it.
    let has_card = ucx::detect(true).is_ok();
    assert_eq!(copied, if has_card { 0 } else { arrived });
}
