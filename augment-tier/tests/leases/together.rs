//! A back end that is given the samples of a part together makes the same part.

use std::sync::{Arc, Mutex};

use headwater_core::Recipe;
use headwater_render::backend::{Backend, CpuBackend, SampleRenderer};
use headwater_render::{PartSample, RenderError, Rendered, ViewSink};
use headwater_transport::LinkKind;

use super::support::receiver::Receiver;
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};
use super::support::{expect, samples, shards};

/// The processor, with a note of how many samples it was given at a time.
struct Together {
    at_once: usize,
    given: Arc<Mutex<Vec<usize>>>,
}

struct Noting {
    cpu: Box<dyn SampleRenderer>,
    given: Arc<Mutex<Vec<usize>>>,
}

impl Backend for Together {
    fn name(&self) -> String {
        "together".into()
    }

    fn samples_at_once(&self) -> usize {
        self.at_once
    }

    fn renderer(&self) -> Result<Box<dyn SampleRenderer>, RenderError> {
        let cpu = CpuBackend::default().renderer()?;
        Ok(Box::new(Noting { cpu, given: Arc::clone(&self.given) }))
    }
}

impl SampleRenderer for Noting {
    fn render(
        &mut self,
        recipe: &Recipe,
        sample: &PartSample<'_>,
        out: &mut dyn ViewSink,
    ) -> Result<Rendered, RenderError> {
        self.given.lock().unwrap().push(1);
        self.cpu.render(recipe, sample, out)
    }

    fn render_all(
        &mut self,
        recipe: &Recipe,
        samples: &[PartSample<'_>],
        sinks: &mut [&mut dyn ViewSink],
    ) -> Vec<Result<Rendered, RenderError>> {
        self.given.lock().unwrap().push(samples.len());
        self.cpu.render_all(recipe, samples, sinks)
    }
}

async fn given(at_once: usize, broken: Option<usize>) -> Vec<usize> {
    let mut shards = shards::photos();
    if let Some(broken) = broken {
        shards[0].samples[broken].set("jpg", b"no image");
    }
    let storage = TestStorage::start(shards);
    let given = Arc::default();
    let backend = Together { at_once, given: Arc::clone(&given) };
    let worker = TestWorker::start_with(config(&storage), backend).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Shm).await;
    receiver.lease(1, 0, 0, &samples(0, 8..15)).await;
    let done = receiver.done().await;
    let substituted: Vec<usize> =
        (0..7).filter(|&sample| done.samples[sample].substituted.is_some()).collect();
    assert_eq!(substituted, broken.map(|broken| broken - 8).into_iter().collect::<Vec<_>>());
    if broken.is_none() {
        let part = samples(0, 8..15);
        let expected = expect::part(&storage, &receiver.hello, 0, &part);
        assert_eq!(done.checksum, expect::checksum(&receiver.hello, &expected));
    }
    let mut sizes = given.lock().unwrap().clone();
    sizes.sort_unstable();
    sizes
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_is_rendered_in_as_many_pieces_as_the_back_end_wants() {
    assert_eq!(given(3, None).await, [1, 3, 3]);
    assert_eq!(given(usize::MAX, None).await, [7]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_sample_among_others_is_the_only_one_that_is_replaced() {
    // It comes by itself when it is read again, and so does the one that stands for it.
    assert_eq!(given(usize::MAX, Some(11)).await, [1, 1, 7]);
}
