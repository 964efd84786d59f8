use headwater_proto::augment::{BadSamplePolicy, FailureKind};
use headwater_transport::LinkKind;

use super::support::receiver::{Receiver, hello};
use super::support::shards::{TestSample, TestShard, shard};
use super::support::storage::TestStorage;
use super::support::worker::TestWorker;
use super::support::{expect, samples};

/// A shard whose samples 3 (cut), 5 (noise) and 7 (a bomb) are broken.
fn broken() -> Vec<TestShard> {
    vec![shard("bad/broken-jpeg.tar")]
}

/// Leases samples 0..n of shard 0; each must stand in the batch as `used` says.
async fn stand_in(storage: &TestStorage, used: &[u32], reasons: &[(usize, &str)]) {
    let worker = TestWorker::start(storage).await;
    let mut receiver = Receiver::open(worker.address, storage, LinkKind::Shm).await;
    let asked = samples(0, 0..used.len() as u32);
    receiver.lease(1, 0, 2, &asked).await;
    let bytes = receiver.part(1).await;
    let done = receiver.done().await;
    let sample = |index: u32| &storage.shards[0].samples[index as usize];
    let stand_ins: Vec<(&TestSample, i64)> =
        used.iter().map(|&index| (sample(index), sample(index).label())).collect();
    let expected = expect::part_of(storage, &receiver.hello, 2, &asked, &stand_ins);
    assert!(bytes == expected && done.checksum == expect::checksum(&receiver.hello, &expected));
    for (position, (told, index)) in done.samples.iter().zip(used).enumerate() {
        assert_eq!((&told.key, told.label), (&sample(*index).key, sample(*index).label()));
        let reason = reasons.iter().find(|(at, _)| *at == position);
        match (&told.substituted, reason) {
            (None, None) => assert_eq!(*index, position as u32),
            (Some(told), Some((_, reason))) => {
                assert_eq!(told.used_index, *index);
                assert!(told.reason.contains(reason), "{}", told.reason);
            }
            other => panic!("sample {position}: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_readable_sample_of_the_shard_stands_in_with_the_key_of_the_one_asked_for() {
    let reasons = [
        (3, "shard `broken-jpeg.tar` sample `000003`: image is truncated"),
        (5, "shard `broken-jpeg.tar` sample `000005`: not an image"),
        (7, "shard `broken-jpeg.tar` sample `000007`: image is too large: 65500x65500"),
    ];
    stand_in(&TestStorage::start(broken()), &[0, 1, 2, 4, 4, 6, 6, 0], &reasons).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_label_a_missing_image_and_an_unreadable_sample_are_bad_samples_too() {
    let mut shards = vec![shard("photos/photos-000003.tar")];
    let samples = &mut shards[0].samples;
    samples[1].set("cls", b"cat");
    samples[2].fields.retain(|(name, _)| name != "jpg");
    samples[6].set("jpg", b"");
    shards[0].unreadable = vec![4, 5];
    let reasons = [
        (1, "label `cat` is not a whole number"),
        (2, "no field `jpg|jpeg|png`"),
        (4, "sample number 4 cannot be read"),
        (5, "shard `photos-000003.tar` sample `"),
        (6, "not an image: its 0 bytes"),
    ];
    stand_in(&TestStorage::start(shards), &[0, 3, 3, 3, 7, 7, 7, 7], &reasons).await;
}

/// As where one of a web server's machines has other bytes.
#[tokio::test(flavor = "multi_thread")]
async fn a_sample_that_is_whole_when_it_is_read_again_is_not_replaced() {
    let mut shards = vec![shard("photos/photos-000003.tar")];
    shards[0].broken_at_first = vec![1, 2, 6];
    let storage = TestStorage::start(shards);
    stand_in(&storage, &[0, 1, 2, 3, 4, 5, 6, 7], &[]).await;
    // The part, and once more what was broken of it.
    assert_eq!(storage.reads(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn where_the_policy_is_to_fail_the_lease_fails_with_shard_key_and_fault() {
    let storage = TestStorage::start(broken());
    let worker = TestWorker::start(&storage).await;
    let mut hello = hello(&storage);
    hello.on_bad_sample = BadSamplePolicy::Fail;
    let mut receiver = Receiver::open_with(worker.address, hello, LinkKind::Tcp).await.unwrap();
    receiver.lease(1, 0, 0, &samples(0, [2, 3, 4])).await;
    let message = receiver.failed(FailureKind::Fatal).await.message;
    let named = "shard `broken-jpeg.tar` sample `000003`: image is truncated";
    assert!(message.contains(named) && message.contains("on_bad_sample"), "{message}");
    receiver.lease(2, 0, 0, &samples(0, [0, 6])).await;
    assert_eq!(receiver.done().await.lease, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shard_without_a_good_sample_fails_after_as_many_tries_as_it_has() {
    let storage = TestStorage::start(vec![shard("bad/no-image.tar")]);
    let worker = TestWorker::start(&storage).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    receiver.lease(1, 0, 0, &samples(0, [1])).await;
    let message = receiver.failed(FailureKind::Fatal).await.message;
    assert!(
        message.contains("nor can the 3 after it") && message.contains("no-image.tar"),
        "{message}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_more_than_sixteen_stand_ins_are_tried() {
    let mut shards = vec![shard("photos/photos-000003.tar")];
    for sample in &mut shards[0].samples[..17] {
        sample.set("jpg", b"nothing");
    }
    let storage = TestStorage::start(shards);
    let worker = TestWorker::start(&storage).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Tcp).await;
    receiver.lease(1, 0, 0, &samples(0, [0])).await;
    let message = receiver.failed(FailureKind::Fatal).await.message;
    assert!(message.contains("nor can the 16 after it"), "{message}");
    receiver.lease(2, 0, 0, &samples(0, [1])).await;
    assert_eq!(receiver.done().await.samples[0].substituted.as_ref().unwrap().used_index, 17);
}
