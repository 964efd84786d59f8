//! The answers to `/batch.json` and `/batch.png`.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use headwater_access::{Access, AccessConfig, AccessError, Bearers};
use headwater_contact_sheet::Sheet;
use headwater_core::{Manifest, Recipe, SampleRef};
use headwater_receiver::{Peek, PeekError, Peeked, Receiver};
use headwater_telemetry::{Answer, BatchQuestion, MetricsServer, ShowBatch, TelemetryConfig};
use serde_json::{Value, json};

use crate::sample::{DrawSource, SampleView, Substitution};
use crate::sizes::Sizes;

/// Longest wait for the trainer to take a batch.
const BATCH_WAIT: Duration = Duration::from_secs(8);
/// Longest wait for the images that draws follow from.
const SIZES_WAIT: Duration = Duration::from_secs(6);

/// Shows batches of one receiver. It does not keep the receiver alive.
pub struct BatchView {
    inner: Arc<Inner>,
}

struct Inner {
    peek: Peek,
    manifests: Vec<Arc<Manifest>>,
    recipe: Recipe,
    seed: u64,
    rank: u32,
    world_size: u32,
    sizes: Sizes,
    bearers: Bearers,
    /// The picture of the batch that was described last, so that both are of the same batch.
    picture: Mutex<Option<Picture>>,
}

/// The picture of one batch.
struct Picture {
    /// Epoch and step, as in `0-17`.
    id: String,
    png: Arc<[u8]>,
}

// === impl BatchView ===

impl BatchView {
    /// Shows batches of `receiver` to whoever has the token of `security`, to all if there is none: the configuration's
    /// `[security]`, which people know. A receiver may have another one for its services.
    ///
    /// # Errors
    /// The token cannot be read.
    pub fn of(receiver: &Receiver, security: &AccessConfig) -> Result<Self, AccessError> {
        let (config, recipe) = (receiver.config(), receiver.recipe());
        let inner = Inner {
            peek: receiver.peek().clone(),
            manifests: receiver.manifests().to_vec(),
            recipe: recipe.clone(),
            seed: config.seed,
            rank: config.rank,
            world_size: config.world_size,
            sizes: Sizes::new(config, recipe.decode_limits),
            bearers: Access::open(security)?.bearers(),
            picture: Mutex::new(None),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Has the metrics server of this process show batches of `receiver`, where `telemetry.show_batches` says so
    /// and there is such a server.
    ///
    /// # Errors
    /// The token cannot be read.
    pub fn serve(
        receiver: &Receiver,
        telemetry: &TelemetryConfig,
        security: &AccessConfig,
        metrics: Option<&MetricsServer>,
    ) -> Result<(), AccessError> {
        if let Some(metrics) = metrics.filter(|_| telemetry.show_batches) {
            metrics.show_batches(Arc::new(Self::of(receiver, security)?));
        }
        Ok(())
    }
}

impl ShowBatch for BatchView {
    fn answer(&self, question: BatchQuestion) -> Pin<Box<dyn Future<Output = Answer> + Send>> {
        let inner = Arc::clone(&self.inner);
        Box::pin(async move { inner.answer(question).await })
    }
}

// === impl Inner ===

impl Inner {
    async fn answer(self: Arc<Self>, question: BatchQuestion) -> Answer {
        let authorization = match &question {
            BatchQuestion::Json { authorization } => authorization,
            BatchQuestion::Png { authorization, .. } => authorization,
        };
        if !self.bearers.admits(authorization.as_deref()) {
            return Answer::text(401, "this rank shows batches to holders of the job's token only");
        }
        match question {
            BatchQuestion::Png { id: Some(id), .. } => self.kept(&id).unwrap_or_else(|| {
                Answer::text(404, format!("batch {id} is not kept any more: ask for /batch.json"))
            }),
            BatchQuestion::Png { id: None, .. } => match self.look().await {
                Err(refused) => refused,
                Ok((_, _, Some(Picture { png, .. }))) => Answer::png(&png),
                Ok(_) => Answer::text(409, NO_PICTURE),
            },
            BatchQuestion::Json { .. } => match self.look().await {
                Err(refused) => refused,
                Ok((peeked, sheet, picture)) => {
                    let text = self.describe(&peeked, sheet).await.to_string();
                    *self.picture.lock().unwrap_or_else(PoisonError::into_inner) = picture;
                    Answer { status: 200, content_type: "application/json", body: text.into() }
                }
            },
        }
    }

    fn kept(&self, id: &str) -> Option<Answer> {
        let picture = self.picture.lock().unwrap_or_else(PoisonError::into_inner);
        let picture = picture.as_ref().filter(|picture| picture.id == id)?;
        Some(Answer::png(&picture.png))
    }

    /// A copy of the next batch, the sizes of its picture, and the picture; no picture where the recipe
    /// makes no images.
    async fn look(self: &Arc<Self>) -> Result<(Arc<Peeked>, Value, Option<Picture>), Answer> {
        let peeked = match self.peek.next(BATCH_WAIT).await {
            Ok(peeked) => Arc::new(peeked),
            Err(error) => return Err(Answer::text(status(&error), error.to_string())),
        };
        let (inner, batch) = (Arc::clone(self), Arc::clone(&peeked));
        let drawn = tokio::task::spawn_blocking(move || inner.draw(&batch)).await;
        match drawn {
            Ok(Ok((sizes, picture))) => Ok((peeked, sizes, picture)),
            Ok(Err(error)) => Err(Answer::text(500, error)),
            Err(error) => Err(Answer::text(500, error.to_string())),
        }
    }

    fn draw(&self, batch: &Peeked) -> Result<(Value, Option<Picture>), String> {
        let samples = batch.samples().len();
        let sheet = Sheet::draw(batch, &self.recipe, samples).map_err(|error| error.to_string())?;
        if sheet.is_empty() {
            return Ok((Value::Null, None));
        }
        let (width, height, row) = (sheet.width(), sheet.height(), sheet.row_pixels(samples));
        let png = sheet.png().map_err(|error| error.to_string())?;
        let picture = Picture { id: id(batch), png: png.into() };
        Ok((json!({ "width": width, "height": height, "row": row }), Some(picture)))
    }

    async fn describe(&self, batch: &Peeked, sheet: Value) -> Value {
        let (samples, draws_missing) = self.samples(batch).await;
        json!({
            "id": id(batch),
            "epoch": batch.epoch(),
            "step": batch.step(),
            "rank": self.rank,
            "world_size": self.world_size,
            "batch_samples": batch.batch_samples(),
            "sheet": sheet,
            "draws_missing": draws_missing,
            "samples": samples,
        })
    }

    /// The samples, and why their draws are missing, where they are.
    async fn samples(&self, batch: &Peeked) -> (Vec<SampleView>, Option<String>) {
        let found = batch.samples().iter().zip(batch.provenance());
        let mut views: Vec<SampleView> = found
            .map(|(asked, found)| {
                let manifest = &self.manifests[usize::from(asked.dataset)];
                let mut view = SampleView::new(manifest, asked, found.key.clone(), found.label);
                view.substitution = found.substituted.as_ref().map(|other| Substitution {
                    used_index: other.used_index,
                    reason: other.reason.clone(),
                });
                view
            })
            .collect();
        if self.recipe.tensors.is_empty() {
            return (views, None);
        }
        let used: Vec<(SampleRef, u32)> = batch
            .samples()
            .iter()
            .zip(&views)
            .map(|(asked, view)| {
                let other = view.substitution.as_ref();
                (*asked, other.map_or(asked.index, |other| other.used_index))
            })
            .collect();
        let read = self.sizes.read(&self.manifests, &used);
        let sizes = match tokio::time::timeout(SIZES_WAIT, read).await {
            Ok(Ok(sizes)) => sizes,
            Ok(Err(error)) => return (views, Some(error)),
            Err(_) => {
                let limit = SIZES_WAIT.as_secs();
                let missing = format!("the storage tier gave no images within {limit} s");
                return (views, Some(missing));
            }
        };
        let recipe = &self.recipe.in_bucket(batch.bucket());
        let source = DrawSource { recipe, seed: self.seed, epoch: batch.epoch() };
        for ((view, (asked, _)), image) in views.iter_mut().zip(&used).zip(sizes) {
            view.draw(source, &self.manifests[usize::from(asked.dataset)], asked, image);
        }
        (views, None)
    }
}

const NO_PICTURE: &str = "the recipe makes no images: there is nothing to draw";

fn id(batch: &Peeked) -> String {
    format!("{}-{}", batch.epoch(), batch.step())
}

fn status(error: &PeekError) -> u16 {
    match error {
        PeekError::Busy | PeekError::NoBatch { .. } => 503,
        PeekError::OnDevice => 409,
        PeekError::Ended => 404,
    }
}
