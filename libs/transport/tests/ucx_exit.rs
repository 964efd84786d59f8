//! A process with ucx links ends as it says: UCX's own end does not meet its threads. Over the transports
//! that UCX finds on this machine.

use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

use headwater_transport::conformance::{World, region};

use crate::support;

/// Says to this program that it is the one to end, and how.
const ROLE: &str = "HEADWATER_TEST_UCX_EXIT";
/// Ends of each kind.
const ROUNDS: usize = 6;

/// Delivers a part over ucx, and ends the process with status 3: with all links open, or just dropped.
async fn deliver_and_exit(drops: bool) -> ! {
    let harness = support::Ucx::default();
    let mut world = World::new(&harness).await;
    let (slot, _memory) = world.add_slot(1 << 20);
    let peers = [world.worker().await, world.worker().await, world.worker().await];
    for peer in &peers {
        let place = world.expect(peer.id, slot, &[region(0, 1 << 20)]);
        peer.deliver(&place).await.expect("delivered");
        world.next().await;
    }
    if drops {
        drop((peers, world));
    }
    std::process::exit(3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_ends_with_its_own_status_whatever_its_links_do() {
    if !support::has_ucx() {
        return;
    }
    if let Ok(role) = std::env::var(ROLE) {
        deliver_and_exit(role == "dropped").await;
    }
    let this = std::env::current_exe().expect("this program");
    for role in ["open", "dropped"].repeat(ROUNDS) {
        let test = "ucx_exit::a_process_ends_with_its_own_status_whatever_its_links_do";
        let mut command = Command::new(&this);
        command.args([test, "--exact", "--nocapture"]).env(ROLE, role);
        let ended = tokio::task::spawn_blocking(move || command.output()).await;
        let ended = ended.expect("no panic").expect("this program");
        let said = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.signal(), None, "links {role}: {said}");
        assert_eq!(ended.status.code(), Some(3), "links {role}: {said}");
    }
}
