//! A renderer that waits for permission, so that tests decide what is under way when.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use headwater_core::Recipe;
use headwater_render::backend::{Backend, CpuBackend, SampleRenderer};
use headwater_render::{PartSample, RenderError, RenderKey, Rendered, ViewSink};

use super::SOON;

/// An image of these bytes makes the renderer panic.
pub(crate) const PANICS: &[u8] = b"panic";

/// Every sample to be rendered stands before it. Opens when the test is over, however it ends: a
/// thread that stands before it would keep the process.
#[derive(Default)]
pub(crate) struct Gate {
    shared: Shared,
}

type Shared = Arc<(Mutex<State>, Condvar)>;

/// The back end that obeys a gate.
pub(crate) struct Gated(Shared);

#[derive(Default)]
struct State {
    open: bool,
    permits: usize,
    waiting: usize,
    passed: Vec<RenderKey>,
}

struct GatedRenderer {
    gate: Shared,
    inner: Box<dyn SampleRenderer>,
}

// === impl Gate ===

impl Gate {
    pub(crate) fn backend(&self) -> Gated {
        Gated(Arc::clone(&self.shared))
    }

    /// A back end before which nothing stands.
    pub(crate) fn opened() -> Gated {
        let gate = Self::default();
        gate.open();
        gate.backend()
    }

    pub(crate) fn open(&self) {
        self.shared.0.lock().unwrap().open = true;
        self.shared.1.notify_all();
    }

    pub(crate) fn let_pass(&self, samples: usize) {
        self.shared.0.lock().unwrap().permits += samples;
        self.shared.1.notify_all();
    }

    /// Keys of the samples that have passed, in order.
    pub(crate) fn passed(&self) -> Vec<RenderKey> {
        self.shared.0.lock().unwrap().passed.clone()
    }

    /// Resolves when `samples` stand before the gate and no permit is left that one of them is
    /// about to take.
    pub(crate) async fn waiting(&self, samples: usize) {
        let stand = |state: &State| state.permits == 0 && state.waiting == samples;
        let wait = async {
            while !stand(&self.shared.0.lock().unwrap()) {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
        };
        tokio::time::timeout(SOON, wait).await.expect("samples before the gate");
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open();
    }
}

fn pass(gate: &Shared, key: RenderKey) {
    let (state, changed) = &**gate;
    let mut state = state.lock().unwrap();
    state.waiting += 1;
    while !state.open && state.permits == 0 {
        state = changed.wait(state).unwrap();
    }
    state.permits = state.permits.saturating_sub(1);
    state.waiting -= 1;
    state.passed.push(key);
}

// === impl Gated ===

impl Backend for Gated {
    fn name(&self) -> String {
        "gated".into()
    }

    fn renderer(&self) -> Result<Box<dyn SampleRenderer>, RenderError> {
        let inner = CpuBackend::default().renderer()?;
        Ok(Box::new(GatedRenderer { gate: Arc::clone(&self.0), inner }))
    }
}

// === impl GatedRenderer ===

impl SampleRenderer for GatedRenderer {
    fn render(
        &mut self,
        recipe: &Recipe,
        sample: &PartSample<'_>,
        out: &mut dyn ViewSink,
    ) -> Result<Rendered, RenderError> {
        pass(&self.gate, sample.key);
        assert_ne!(sample.encoded, PANICS, "the decoder has a bug");
        self.inner.render(recipe, sample, out)
    }
}
