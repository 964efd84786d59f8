//! Samples on a device: decoded by the processor, everything else by kernels.
//!
//! Draws, taps and tables are the processor's own code, and so are the pixels of the images: the
//! rows are those of [`crate::render::Renderer`], byte for byte.

use headwater_core::{Dtype, Recipe};

use super::arena::{Bounds, NoRoom};
use super::device::{Device, DeviceError};
use super::load::Load;
use crate::backend::{SampleJob, SampleRenderer};
use crate::decode::{DecodeLimits, Decoder};
use crate::metrics;
use crate::ops::cast::{CastTable, Normalise};
use crate::render::{Draws, RenderError, RenderKey, Rendered, Renderer, ViewSink, check_row};

/// Renders the samples of a part together, on one stream.
pub struct CudaRenderer<D> {
    /// Gone once it has failed: its memory means nothing then.
    device: Option<D>,
    decoder: Decoder,
    draws: Draws,
    load: Load,
    tables: Tables,
    /// For samples that no block can hold, and for all once the device is gone.
    cpu: Renderer,
}

/// What the levels of each tensor become, one table for each dtype.
#[derive(Debug, Default)]
struct Tables {
    known: Vec<CastTable>,
    flat: Vec<[u32; 3 * 256]>,
    /// Number of the table of each tensor.
    of_tensor: Vec<usize>,
}

type Outcomes = Vec<Option<Result<Rendered, RenderError>>>;

// === impl CudaRenderer ===

impl<D: Device> CudaRenderer<D> {
    /// A renderer on a device, which is its own.
    ///
    /// # Errors
    /// The JPEG library has no memory for its state.
    pub fn new(device: D, limits: DecodeLimits) -> Result<Self, RenderError> {
        let bounds = Bounds {
            arena_bytes: device.arena_bytes(),
            shared_bytes_max: device.shared_bytes_max(),
        };
        Ok(Self {
            device: Some(device),
            decoder: Decoder::new(limits)?,
            draws: Draws::default(),
            load: Load::new(bounds),
            tables: Tables::default(),
            cpu: Renderer::new(limits)?,
        })
    }

    /// Whether the device has failed, so that the processor does all since.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.device.is_none()
    }

    /// Decodes a sample and puts it on the device; `None` where the processor has to render it.
    fn stage(
        &mut self,
        recipe: &Recipe,
        number: usize,
        jobs: &mut [SampleJob<'_>],
        outcomes: &mut Outcomes,
    ) -> Result<Option<()>, DeviceError> {
        let (key, encoded) = (jobs[number].key, jobs[number].encoded);
        let Self { decoder, draws, .. } = self;
        let mut size = None;
        let decoded = decoder.decode_wanted(encoded, |image| {
            size = Some(image);
            draws.draw(recipe, key, image)
        });
        let (extent, reduction) = match decoded {
            Ok(image) => (image.extent(), image.reduction()),
            Err(error) => {
                outcomes[number] = Some(Err(error.into()));
                return Ok(Some(()));
            }
        };
        let params = self.draws.params().clone();
        let add = |load: &mut Load, tables: &Tables| {
            load.add(recipe, number, &params, (extent, reduction), |tensor| {
                tables.of_tensor[tensor]
            })
        };
        let mut added = add(&mut self.load, &self.tables);
        if added == Err(NoRoom::Now) {
            self.finish(recipe, jobs, outcomes)?;
            added = add(&mut self.load, &self.tables);
        }
        let Ok(offset) = added else { return Ok(None) };
        let Some(device) = &mut self.device else { return Ok(None) };
        device.upload(offset, self.decoder.image().pixels())?;
        outcomes[number] = Some(Ok(Rendered { source: size.unwrap_or(extent) }));
        Ok(Some(()))
    }

    /// Runs the kernels on what has been staged and hands the rows out.
    fn finish(
        &mut self,
        recipe: &Recipe,
        jobs: &mut [SampleJob<'_>],
        outcomes: &mut Outcomes,
    ) -> Result<(), DeviceError> {
        let Some(device) = self.device.as_mut().filter(|_| !self.load.is_empty()) else {
            return Ok(());
        };
        let sealed = self.load.seal(&self.tables.flat);
        device.upload(sealed.records.0, &sealed.records.1)?;
        for launch in &sealed.launches {
            device.launch(launch)?;
        }
        let rows = device.download(sealed.rows.0, sealed.rows.1)?;
        for row in self.load.rows() {
            let bytes = &rows[row.offset as usize..][..row.bytes as usize];
            if leaves_levels(recipe.tensors[row.tensor].dtype) {
                let (place, out) = ((row.tensor, row.view), &mut *jobs[row.sample].out);
                if let Err(error) = self.cpu.write_levels(recipe, place, bytes, out) {
                    outcomes[row.sample] = Some(Err(error));
                }
                continue;
            }
            let to = jobs[row.sample].out.row(row.tensor, row.view);
            match check_row(row.tensor, row.view, bytes.len(), to.len()) {
                Ok(()) => to.copy_from_slice(bytes),
                Err(error) => outcomes[row.sample] = Some(Err(error)),
            }
        }
        self.load.clear();
        Ok(())
    }

    fn try_all(
        &mut self,
        recipe: &Recipe,
        jobs: &mut [SampleJob<'_>],
        outcomes: &mut Outcomes,
    ) -> Result<(), DeviceError> {
        self.tables.prepare(recipe);
        self.load.clear();
        for number in 0..jobs.len() {
            if self.stage(recipe, number, jobs, outcomes)?.is_none() {
                metrics::rendered_beside_device();
                let SampleJob { key, encoded, out } = &mut jobs[number];
                let rendered = SampleRenderer::render(&mut self.cpu, recipe, *key, encoded, *out);
                outcomes[number] = Some(rendered);
            }
        }
        self.finish(recipe, jobs, outcomes)
    }
}

impl<D: Device> SampleRenderer for CudaRenderer<D> {
    fn render(
        &mut self,
        recipe: &Recipe,
        key: RenderKey,
        encoded: &[u8],
        out: &mut dyn ViewSink,
    ) -> Result<Rendered, RenderError> {
        let mut jobs = [SampleJob { key, encoded, out }];
        self.render_all(recipe, &mut jobs).remove(0)
    }

    /// After a failure of the device the processor renders everything, anew what was on the device:
    /// the bytes are the same, so that all it costs is time.
    fn render_all(
        &mut self,
        recipe: &Recipe,
        jobs: &mut [SampleJob<'_>],
    ) -> Vec<Result<Rendered, RenderError>> {
        if self.device.is_some() {
            let mut outcomes: Outcomes = vec![None; jobs.len()];
            let tried = self.try_all(recipe, jobs, &mut outcomes);
            let Err(error) = tried else { return outcomes.into_iter().flatten().collect() };
            let device = self.device.take().map(|device| device.name()).unwrap_or_default();
            tracing::error!(device, %error, "the device failed: the processor renders from here on");
            metrics::device_failed();
        }
        self.cpu.render_all(recipe, jobs)
    }
}

/// Whether the kernels leave levels, of which the processor makes elements: it needs the levels for
/// amaxes and for the scales of blocks.
fn leaves_levels(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Fp8E4m3 | Dtype::Mxfp8E4m3)
}

// === impl Tables ===

impl Tables {
    /// Makes the tables of a recipe, unless they are those of the last one.
    fn prepare(&mut self, recipe: &Recipe) {
        let (normalise, scale) = (Normalise::of(recipe), 1.0);
        if !self.known.iter().all(|table| table.serves(&normalise, table.dtype(), scale)) {
            self.known.clear();
            self.flat.clear();
        }
        self.of_tensor.clear();
        for spec in &recipe.tensors {
            let dtype = if leaves_levels(spec.dtype) { Dtype::U8 } else { spec.dtype };
            let known = self.known.iter().position(|table| table.serves(&normalise, dtype, scale));
            let number = known.unwrap_or_else(|| {
                let table = CastTable::new(recipe, dtype);
                let levels = std::array::from_fn(|at| table.levels(at / 256)[at % 256]);
                self.flat.push(levels);
                self.known.push(table);
                self.known.len() - 1
            });
            self.of_tensor.push(number);
        }
    }
}
