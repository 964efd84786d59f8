use headwater_core::SampleRef;
use headwater_proto::augment::FailureKind;
use headwater_storage_client::host_name;
use headwater_transport::LinkKind;

use super::support::receiver::Receiver;
use super::support::storage::TestStorage;
use super::support::worker::TestWorker;
use super::support::{expect, sample, samples, shards};

async fn delivers_what_the_renderer_makes(kind: LinkKind) {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let mut receiver = Receiver::open(worker.address, &storage, kind).await;
    assert_eq!(receiver.welcome.link, kind.name());
    assert_eq!(receiver.welcome.credits, 6);
    assert!(receiver.welcome.backend.starts_with("cpu "), "{}", receiver.welcome.backend);
    let name = format!("{}:{}", host_name(), worker.address.port());
    assert_eq!(receiver.welcome.worker, name);
    // Two shards, out of order, one sample twice with another pass; then the batch's other end.
    let again = SampleRef { pass: 1, ..sample(1, 7) };
    let mixed = [sample(1, 7), sample(0, 63), sample(1, 0), again, sample(0, 2)];
    let leases =
        [(1, 0, 0, mixed.to_vec()), (2, 0, 5, samples(0, 10..17)), (3, 1, 11, samples(0, [4]))];
    for (lease, slot, first, samples) in leases {
        receiver.lease(lease, slot, first, &samples).await;
        let bytes = receiver.part(lease).await;
        let done = receiver.done().await;
        let expected = expect::part(&storage, &receiver.hello, first, &samples);
        assert!(bytes == expected, "{kind}: bytes of lease {lease}");
        assert_eq!(
            (done.lease, done.checksum),
            (lease, expect::checksum(&receiver.hello, &expected))
        );
        let shards = &storage.shards;
        for (sample, told) in samples.iter().zip(&done.samples) {
            let meant = &shards[sample.shard as usize].samples[sample.index as usize];
            assert_eq!((&told.key, told.label), (&meant.key, meant.label()));
            assert_eq!(told.substituted, None);
        }
        let encoded = samples
            .iter()
            .map(|s| shards[s.shard as usize].samples[s.index as usize].image().len() as u64);
        assert_eq!(done.times.encoded_bytes, encoded.sum::<u64>());
        assert!(done.times.render_us > 0 && done.times.read_us > 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_over_shm_has_the_renderers_bytes() {
    delivers_what_the_renderer_makes(LinkKind::Shm).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_over_tcp_has_the_renderers_bytes() {
    delivers_what_the_renderer_makes(LinkKind::Tcp).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn many_parts_at_once_are_each_whole_and_right() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    let part = |lease: u64| samples(0, (0..2).map(|k| (lease as u32 * 2 + k) % 64));
    let mut open = 0;
    let (mut next, mut done) = (0, Vec::new());
    while done.len() < 24 {
        while open < 6 && next < 24 {
            receiver.lease(next, next as u32 / 6, next as u32 % 6 * 2, &part(next)).await;
            (open, next) = (open + 1, next + 1);
        }
        done.push(receiver.done().await);
        open -= 1;
    }
    for part_done in done {
        let lease = part_done.lease;
        let expected = expect::part(&storage, &receiver.hello, lease as u32 % 6 * 2, &part(lease));
        assert_eq!(
            part_done.checksum,
            expect::checksum(&receiver.hello, &expected),
            "lease {lease}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_that_the_manifest_does_not_have_fails_the_lease_for_good() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    receiver.lease(1, 0, 0, &[sample(0, 1), sample(1, 41)]).await;
    let failure = receiver.failed(FailureKind::Fatal).await;
    assert!(failure.message.contains("shard 1 number 41"), "{}", failure.message);
    assert!(receiver.is_untouched(1));
}
