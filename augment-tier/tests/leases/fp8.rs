use headwater_core::{Dtype, Recipe};
use headwater_pixels::ops::cast::mx::plain;
use headwater_proto::augment::{FailureKind, PartLease, SessionHello, ToWorker};
use headwater_transport::LinkKind;

use super::support::receiver::{BATCH, Receiver, hello};
use super::support::storage::TestStorage;
use super::support::worker::TestWorker;
use super::support::{expect, samples, shards};

fn of_dtype(storage: &TestStorage, dtype: Dtype) -> SessionHello {
    let recipe = Recipe::preset("imagenet-eval", dtype).unwrap();
    SessionHello { recipe, ..hello(storage) }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_has_the_scale_of_its_lease_and_says_its_amax() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let hello = of_dtype(&storage, Dtype::Fp8E4m3);
    let mut receiver = Receiver::open_with(worker.address, hello, LinkKind::Tcp).await.unwrap();
    let samples = samples(0, 0..3);
    receiver.lease(1, 0, 0, &samples).await;
    let expected = expect::part(&storage, &receiver.hello, 0, &samples);
    assert!(receiver.part(1).await == expected);
    let exact = expect::part(&storage, &of_dtype(&storage, Dtype::F32), 0, &samples);
    let values = exact[..samples.len() * 3 * 224 * 224 * 4].as_chunks().0.iter();
    let amax = values.map(|&four| f32::from_le_bytes(four).abs()).fold(0.0, f32::max);
    assert_eq!(receiver.done().await.fp8_amaxes, [amax]);
}

#[tokio::test(flavor = "multi_thread")]
async fn elements_in_blocks_come_with_the_scales_of_their_blocks() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let hello = of_dtype(&storage, Dtype::Mxfp8E4m3);
    let mut receiver = Receiver::open_with(worker.address, hello, LinkKind::Shm).await.unwrap();
    let samples = samples(0, 0..3);
    receiver.lease(1, 0, 2, &samples).await;
    let bytes = receiver.part(1).await;
    let exact = expect::part(&storage, &of_dtype(&storage, Dtype::F32), 2, &samples);
    let values = exact[..samples.len() * 3 * 224 * 224 * 4].as_chunks().0.iter();
    let (elements, scales) = bytes.split_at(samples.len() * 3 * 224 * 224);
    assert_eq!(receiver.done().await.fp8_amaxes, [0.0; 0]);
    for (at, &value) in values.enumerate() {
        let value = f32::from_le_bytes(value);
        let scale = scales[at / 32];
        assert_eq!(elements[at], plain::element_of(value, scale), "value {at}: {value}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lease_without_a_scale_for_each_tensor_fails_for_good() {
    let storage = TestStorage::start(shards::photos());
    let worker = TestWorker::start(&storage).await;
    let hello = of_dtype(&storage, Dtype::Fp8E4m3);
    let mut receiver = Receiver::open_with(worker.address, hello, LinkKind::Tcp).await.unwrap();
    let samples = samples(0, 0..3);
    let (batch_samples, fp8_scales) = (BATCH, vec![1.0, 2.0]);
    let lease = PartLease {
        lease: 9,
        epoch: 0,
        step: 0,
        batch_samples,
        first: 0,
        samples,
        slot: 0,
        fp8_scales,
        bucket: 0,
    };
    receiver.send(ToWorker::Lease(lease)).await;
    let failure = receiver.failed(FailureKind::Fatal).await;
    assert!(failure.message.contains("2 FP8 scales, the recipe 1"), "{}", failure.message);
}
