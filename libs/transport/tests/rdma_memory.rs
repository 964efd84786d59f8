//! What the rdma link does to memory. Needs an RDMA port, as tests/rdma.rs does.

mod support;

use headwater_transport::LinkKind;
use support::counts::batches_need_no_registration;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_are_registered_once_and_no_byte_is_copied_on_the_receiver() {
    let harness = support::Rdma::new(2);
    let counts = batches_need_no_registration(&harness, LinkKind::Rdma).await;
    let of = |name| counts.of(name, LinkKind::Rdma);
    let moved = of("headwater_link_bytes_total").expect("bytes");
    assert!(moved > 0);
    assert_eq!(of("headwater_link_copied_bytes_total"), Some(0), "of {moved} bytes");
}
