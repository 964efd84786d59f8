//! What storage nodes know of an image beside its bytes reaches the renderer, and changes no byte of a part.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use headwater_core::Recipe;
use headwater_render::backend::{Backend, CpuBackend, SampleRenderer};
use headwater_render::{PartSample, RenderError, Rendered, ViewSink};
use headwater_transport::LinkKind;

use super::support::receiver::Receiver;
use super::support::storage::TestStorage;
use super::support::worker::{TestWorker, config};
use super::support::{expect, samples, shards};

/// A sample's image, and the entry points that came with it.
type Given = Arc<Mutex<Vec<(Vec<u8>, Vec<u8>)>>>;

/// The processor, with a note of what it was given.
struct Noting(Given);

struct NotingRenderer {
    cpu: Box<dyn SampleRenderer>,
    given: Given,
}

impl Backend for Noting {
    fn name(&self) -> String {
        "noting".into()
    }

    fn renderer(&self) -> Result<Box<dyn SampleRenderer>, RenderError> {
        let cpu = CpuBackend::default().renderer()?;
        Ok(Box::new(NotingRenderer { cpu, given: Arc::clone(&self.0) }))
    }
}

impl SampleRenderer for NotingRenderer {
    fn render(
        &mut self,
        recipe: &Recipe,
        sample: &PartSample<'_>,
        out: &mut dyn ViewSink,
    ) -> Result<Rendered, RenderError> {
        let pair = (sample.encoded.to_vec(), sample.entries.to_vec());
        self.given.lock().unwrap().push(pair);
        self.cpu.render(recipe, sample, out)
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_image_reaches_the_renderer_with_its_own_entry_points_which_are_not_believed() {
    let mut shards = shards::photos();
    for (at, sample) in shards[0].samples.iter_mut().enumerate().skip(1) {
        // Three of the right size, and none of them right.
        sample.entries = (0..3).flat_map(|entry| [at as u8 + entry; 14]).collect::<Bytes>();
    }
    let storage = TestStorage::start(shards);
    let given = Given::default();
    let worker = TestWorker::start_with(config(&storage), Noting(Arc::clone(&given))).await;
    let mut receiver = Receiver::open(worker.address, &storage, LinkKind::Shm).await;
    let part = samples(0, 0..7);
    receiver.lease(1, 0, 0, &part).await;
    let done = receiver.done().await;
    let expected = expect::part(&storage, &receiver.hello, 0, &part);
    assert_eq!(done.checksum, expect::checksum(&receiver.hello, &expected));
    let mut given = given.lock().unwrap().clone();
    let pair = |sample: &shards::TestSample| (sample.image().to_vec(), sample.entries.to_vec());
    let mut sent: Vec<_> = storage.shards[0].samples[..7].iter().map(pair).collect();
    given.sort_unstable();
    sent.sort_unstable();
    assert!(given == sent, "{} given", given.len());
}
