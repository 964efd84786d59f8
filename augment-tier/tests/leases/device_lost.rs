use headwater_augment::AugmentError;
use headwater_core::Recipe;
use headwater_core::recipe::JpegDecoder;
use headwater_proto::augment::{FailureKind, FromWorker};
use headwater_render::backend::{Backend, SampleRenderer};
use headwater_render::{PartSample, RenderError, Rendered, ViewSink};
use headwater_transport::LinkKind;

use super::support::receiver::{Receiver, hello};
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};
use super::support::{samples, shards};

/// A GPU on which everything fails in one way.
#[derive(Clone)]
struct Failing(RenderError);

impl Backend for Failing {
    fn name(&self) -> String {
        "failing".into()
    }

    fn check(&self, _: &Recipe) -> Result<(), String> {
        Ok(())
    }

    fn renderer(&self) -> Result<Box<dyn SampleRenderer>, RenderError> {
        Ok(Box::new(self.clone()))
    }
}

impl SampleRenderer for Failing {
    fn render(
        &mut self,
        _: &Recipe,
        _: &PartSample<'_>,
        _: &mut dyn ViewSink,
    ) -> Result<Rendered, RenderError> {
        Err(self.0.clone())
    }
}

/// A worker on such a GPU and a receiver whose recipe needs its decoder.
async fn start(error: RenderError, storage: &TestStorage) -> (TestWorker, Receiver) {
    let worker = TestWorker::start_with(config(storage), Failing(error)).await;
    let mut hello = hello(storage);
    hello.recipe.decoder = JpegDecoder::Nvjpeg;
    let receiver = Receiver::open_with(worker.address, hello, LinkKind::Tcp).await.unwrap();
    (worker, receiver)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_whose_decoder_is_lost_gives_its_leases_back_and_ends_with_the_reason() {
    let storage = TestStorage::start(shards::photos());
    let lost = RenderError::DeviceLost { reason: "fell off the bus".into() };
    let (worker, mut receiver) = start(lost, &storage).await;
    receiver.lease(1, 0, 0, &samples(0, 0..4)).await;
    let (mut given_back, mut draining) = (false, false);
    while !(given_back && draining) {
        match receiver.next().await.unwrap().expect("both are said before it leaves") {
            FromWorker::Failed(failure) => {
                assert_eq!((failure.lease, failure.kind), (1, FailureKind::Retry));
                assert!(failure.message.contains("fell off the bus"), "{}", failure.message);
                given_back = true;
            }
            FromWorker::Credits { credits: 0, draining: true } => draining = true,
            other => panic!("{other:?}"),
        }
    }
    receiver.ended().await.expect("a drained session ends well");
    let error = worker.failed().await;
    assert!(matches!(error, AugmentError::DeviceLost { .. }), "{error}");
    for word in ["fell off the bus", "nvjpeg"] {
        assert!(error.to_string().contains(word), "{error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_sample_that_there_is_no_room_for_is_given_back_and_the_worker_goes_on() {
    let storage = TestStorage::start(shards::photos());
    let reason = || "raise augment.nvjpeg_memory_bytes".to_owned();
    let device = RenderError::Device { reason: reason() };
    for full in [device, RenderError::Passing { reason: reason() }] {
        let (worker, mut receiver) = start(full, &storage).await;
        for lease in 1..=2 {
            receiver.lease(lease, 0, 0, &samples(0, 0..4)).await;
            let failure = receiver.failed(FailureKind::Retry).await;
            assert_eq!(failure.lease, lease);
            assert!(failure.message.contains(&reason()), "{failure:?}");
        }
        assert!(!worker.has_exited());
    }
}
