//! Paths between two ports that do not carry what the rdma link sends, on emulated verbs.

#[path = "../../../tests/support/emulation.rs"]
mod emulation;
mod support;

use std::time::Duration;

use headwater_transport::conformance::Harness as _;
use headwater_transport::{LinkError, PeerId, SessionKey};
use tokio::sync::mpsc;

/// Most bytes of a packet that the emulated network takes.
const PATH_BYTES: &str = "EMULATED_VERBS_PATH_BYTES";

fn on_verbs(test: &str, settings: &[(&str, &str)], connect: impl AsyncFnOnce()) {
    emulation::on_verbs(test, settings, || {
        let runtime = tokio::runtime::Runtime::new().expect("threads");
        runtime.block_on(connect());
    });
}

/// A worker connects over two pairs.
async fn connected(within: Duration) -> Result<(), LinkError> {
    let mut harness = support::Rdma::new(2);
    harness.connect.handshake_timeout = within;
    let (arrivals, _reported) = mpsc::unbounded_channel();
    let listening = harness.listen(arrivals).await;
    let key = SessionKey::random().expect("random numbers");
    listening.link.admit(PeerId(1), key.clone());
    let offer = listening.link.offer([127, 0, 0, 1].into());
    harness.connect(&offer, &key).await.map(drop)
}

#[test]
fn a_path_that_loses_packets_of_the_ports_size_is_not_taken() {
    let test = "a_path_that_loses_packets_of_the_ports_size_is_not_taken";
    on_verbs(test, &[(PATH_BYTES, "1500")], async || {
        let error = connected(Duration::from_secs(1)).await.unwrap_err();
        assert!(matches!(error, LinkError::Setup { .. }), "{error}");
        assert!(
            error.to_string().contains("16384 bytes") && error.to_string().contains("MTU"),
            "{error}"
        );
    });
}

#[test]
fn a_path_that_takes_packets_of_the_ports_size_is_taken() {
    let test = "a_path_that_takes_packets_of_the_ports_size_is_taken";
    on_verbs(test, &[(PATH_BYTES, "4096")], async || {
        connected(Duration::from_secs(60)).await.expect("all packets get through");
    });
}
