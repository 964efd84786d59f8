//! Samples on a device: decoded by the processor or by kernels, everything else by kernels.
//!
//! Draws, taps and tables are the processor's own code, and so are the pixels of the images: the
//! rows are those of [`headwater_render::Renderer`], byte for byte.

use std::sync::Arc;
use std::time::Instant;

use headwater_core::Recipe;
use headwater_core::draw::Extent;
use headwater_render::backend::SampleRenderer;
use headwater_render::decode::{DecodeFailure, DecodeLimits, Decoder, EntryTable};
use headwater_render::{Draws, PartSample, RenderError, Rendered, Renderer, ViewSink};

use super::arena::{Bounds, Coded, NoRoom, Room, Sealed};
use super::decode::{Coder, Orders};
use super::device::{Device, DeviceError};
use super::job::{Decoded, Job, Pending};
use super::load::Load;
use super::rows::{DirectRows, Left, deliver};
use super::sums;
use super::tables::Tables;
use super::tally::{Counts, Tally};

/// Renders the samples of a part together, on one stream.
pub struct CudaRenderer<D> {
    /// Gone once it has failed: its memory means nothing then.
    pub(super) device: Option<D>,
    pub(super) decoder: Decoder,
    pub(super) draws: Draws,
    pub(super) load: Load,
    pub(super) tables: Tables,
    /// For samples that no block can hold, and for all once the device is gone.
    cpu: Renderer,
    pub(super) tally: Arc<Tally>,
    /// JPEGs in the load that the device is to decode.
    pub(super) pending: Vec<Pending>,
    /// The processor's decoder for JPEGs that the device leaves, while `decoder` has another image. It is the judge: the
    /// reference that decides which result is right (docs/glossary.md).
    pub(super) judge: Decoder,
    /// JPEGs in the load that kernels decode.
    pub(super) coder: Coder,
    /// The pixels of an image as they are uploaded: interleaved.
    pub(super) pixels: Vec<u8>,
}

// === impl CudaRenderer ===

impl<D: Device> CudaRenderer<D> {
    /// A renderer on a device, which is its own.
    ///
    /// # Errors
    /// The JPEG library has no memory for its state.
    pub fn new(device: D) -> Result<Self, RenderError> {
        let limits = DecodeLimits::default();
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
            cpu: Renderer::new()?,
            tally: Arc::default(),
            pending: Vec::new(),
            judge: Decoder::new(limits)?,
            coder: Coder::new(),
            pixels: Vec::new(),
        })
    }

    /// Shares what its decoders learn of images.
    #[must_use]
    pub fn sharing(mut self, entries: Option<&Arc<EntryTable>>) -> Self {
        self.decoder = self.decoder.sharing(entries.cloned());
        self.judge = self.judge.sharing(entries.cloned());
        self.cpu = self.cpu.sharing(entries.cloned());
        self.coder.share(entries.cloned());
        self
    }

    /// Calls Python functions of recipes, which the processor renders then.
    #[must_use]
    pub fn calling(mut self, python: Option<headwater_interpreter::Settings>) -> Self {
        self.cpu = self.cpu.calling(python);
        self
    }

    /// Whether kernels decode baseline JPEGs, to the same pixels; the processor decodes all others.
    #[must_use]
    pub fn decoding(mut self, on_device: bool) -> Self {
        self.coder.is_on = on_device;
        self
    }

    /// Counts what it does there.
    #[must_use]
    pub fn counted_by(self, tally: Arc<Tally>) -> Self {
        Self { tally, ..self }
    }

    /// What it has done so far, together with others that are counted there.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.tally.counts()
    }

    /// Whether the device has failed, so that the processor does all since.
    #[must_use]
    pub fn has_failed(&self) -> bool {
        self.device.is_none()
    }

    pub(super) fn device_mut(&mut self) -> Option<&mut D> {
        self.device.as_mut()
    }

    /// Has all decoders do as a recipe says.
    fn follow(&mut self, recipe: &Recipe) -> Result<(), RenderError> {
        self.decoder.follow(recipe)?;
        Ok(self.judge.follow(recipe)?)
    }

    /// Size of a JPEG that a device may be given.
    pub(super) fn jpeg_extent(&mut self, encoded: &[u8]) -> Result<Option<Extent>, DecodeFailure> {
        self.decoder.jpeg_extent(encoded)
    }

    /// Decodes a sample, which stays in the decoder, and draws all about it.
    pub(super) fn decode(
        &mut self,
        recipe: &Recipe,
        &PartSample { key, encoded, entries, .. }: &PartSample<'_>,
    ) -> Result<Decoded, RenderError> {
        let Self { decoder, draws, .. } = self;
        let mut source = None;
        let image = decoder.decode_from(encoded, entries, |image| {
            source = Some(image);
            draws.draw(recipe, key, image)
        })?;
        let extent = image.extent();
        Ok(Decoded { source: source.unwrap_or(extent), extent, reduction: image.reduction() })
    }

    /// A place for the sample that was decoded last.
    pub(super) fn add(
        &mut self,
        recipe: &Recipe,
        number: usize,
        image: Decoded,
        coded: Coded,
    ) -> Result<Room, NoRoom> {
        let Self { draws, load, tables, .. } = self;
        let size = (image.extent, image.reduction);
        load.add(recipe, number, draws.params(), size, coded, tables)
    }

    /// As [`CudaRenderer::add`], after what is there has been handed out where it is in the way.
    pub(super) fn make_room(
        &mut self,
        job: &mut Job<'_, '_>,
        number: usize,
        image: Decoded,
        coded: Coded,
    ) -> Result<Result<Room, NoRoom>, DeviceError> {
        self.tables.choose(job.recipe, |tensor| job.sinks[number].fp8_scale(tensor));
        let mut added = self.add(job.recipe, number, image, coded);
        if added == Err(NoRoom::Now) {
            self.finish(job)?;
            added = self.add(job.recipe, number, image, coded);
        }
        Ok(added)
    }

    /// Decodes a sample and puts it on the device; `None` where the processor has to render it.
    fn stage(&mut self, job: &mut Job<'_, '_>, number: usize) -> Result<Option<()>, DeviceError> {
        let PartSample { encoded, .. } = job.samples[number];
        if !job.recipe.decoder.is_turbojpeg() {
            match self.decoder.jpeg_extent(encoded) {
                Ok(Some(extent)) => return self.place(job, number, extent).map(Some),
                Ok(None) => {}
                // The processor would make other pixels of it than the device.
                Err(passing) => {
                    job.note(number, Err(passing.into()));
                    return Ok(Some(()));
                }
            }
        }
        let is_coded = self.coder.is_on && job.recipe.decoder.is_turbojpeg();
        if is_coded && self.stage_coded(job, number)?.is_some() {
            return Ok(Some(()));
        }
        let started = Instant::now();
        let image = match self.decode(job.recipe, &job.samples[number]) {
            Ok(image) => {
                job.sinks[number].decoded(started.elapsed());
                image
            }
            Err(error) => {
                job.note(number, Err(error));
                return Ok(Some(()));
            }
        };
        let room = self.make_room(job, number, image, Coded::default())?;
        let Ok(Room { pixels, .. }) = room else { return Ok(None) };
        let Some(device) = &mut self.device else { return Ok(None) };
        device.upload(pixels, self.decoder.image().pixels_in(&mut self.pixels))?;
        job.note(number, Ok(Rendered { source: image.source }));
        Ok(Some(()))
    }

    /// Runs the kernels on what has been staged and hands the rows out.
    fn finish(&mut self, job: &mut Job<'_, '_>) -> Result<(), DeviceError> {
        self.decode_pending(job)?;
        let Some(device) = self.device.as_mut().filter(|_| !self.load.is_empty()) else {
            return Ok(());
        };
        let mut sealed = self.load.seal(&self.tables);
        device.upload(sealed.records.0, &sealed.records.1)?;
        self.load.give_back(std::mem::take(&mut sealed.records.1));
        if !self.coder.batch.is_empty() {
            let orders: Orders = self.coder.batch.orders(sealed.coded);
            device.upload_pieces(sealed.coded.0, &self.coder.batch.pieces(&orders))?;
            orders.launches.iter().try_for_each(|launch| device.launch(launch))?;
        }
        self.make_views(&sealed)?;
        let results_at = self.coder.batch.results_at(sealed.sums.at);
        let Some(device) = &mut self.device else { return Ok(()) };
        let rows = (self.load.rows(), sealed.rows.0);
        let pins = device.pins();
        let summed = sealed.sums.launch.is_some();
        let all = |pins| DirectRows::all(pins, job.recipe, rows, summed, job.sinks);
        let direct = pins.and_then(all);
        let is_late = direct.as_ref().is_some_and(DirectRows::are_in_windows);
        let found = fetch(device, &sealed, results_at, (direct.as_ref(), is_late))?;
        let amiss = self.coder.batch.amiss(found.results);
        self.tally.decoded(self.coder.batch.decoded(found.results));
        self.coder.keep(found.results);
        let mut samples = 0;
        if let Some(late) = direct.as_ref().filter(|_| is_late) {
            let sums = found.sums.map(|sums| sums::read(sums).collect()).unwrap_or_default();
            samples += self.finish_in_windows(job, late, (&amiss, sums))?;
        } else {
            let mut sums = found.sums.map(sums::read);
            for row in self.load.rows() {
                let sum = sums.as_mut().and_then(Iterator::next);
                if !job.is_final(row.sample, &amiss) {
                    continue;
                }
                samples += u64::from((row.tensor, row.view) == (0, 0));
                let bytes = || &found.rows[row.offset as usize..][..row.bytes as usize];
                deliver(job, row, Left { bytes: direct.is_none().then(bytes), sum });
            }
        }
        samples += self.finish_amiss(job, &sealed, &amiss, direct.as_ref())?;
        self.tally.rendered(samples);
        if direct.is_some() {
            self.tally.written(samples);
        }
        self.load.clear();
        self.coder.batch.clear();
        Ok(())
    }

    /// Has rows copied to a receiver's GPU, which is given what is known to be final only: those of samples that are
    /// neither bad nor amiss. How many samples that were.
    fn finish_in_windows(
        &mut self,
        job: &mut Job<'_, '_>,
        rows: &DirectRows,
        (amiss, sums): (&[(usize, u64)], Vec<u64>),
    ) -> Result<u64, DeviceError> {
        let Some(device) = &mut self.device else { return Ok(0) };
        let finals: Vec<_> =
            (0..job.samples.len()).map(|sample| job.is_final(sample, amiss)).collect();
        device.download_rows(&rows.begun(job.sinks, |sample| finals[sample]), 0, 0)?;
        let mut samples = 0;
        for (row, sum) in self.load.rows().iter().zip(sums).filter(|(row, _)| finals[row.sample]) {
            samples += u64::from((row.tensor, row.view) == (0, 0));
            job.sinks[row.sample].device_summed(row.tensor, row.view, sum);
        }
        Ok(samples)
    }

    fn make_views(&mut self, sealed: &Sealed) -> Result<(), DeviceError> {
        let Some(device) = &mut self.device else { return Ok(()) };
        sealed.launches.iter().try_for_each(|launch| device.launch(launch))
    }

    pub(super) fn try_all(&mut self, job: &mut Job<'_, '_>) -> Result<(), DeviceError> {
        self.load.clear();
        self.tables.begin();
        self.pending.clear();
        self.coder.batch.clear();
        for (number, sample) in job.samples.iter().enumerate() {
            if self.stage(job, number)?.is_none() {
                self.tally.rendered_beside();
                let out = &mut *job.sinks[number];
                let rendered = self.cpu.render_sample(job.recipe, sample, out);
                job.note(number, rendered);
            }
        }
        self.finish(job)
    }
}

/// What kernels have left of a load, as far as it came back.
struct Found<'a> {
    /// Of the kernels that decode, see [`Batch::results_at`](super::decode::Batch::results_at).
    results: &'a [u8],
    /// `None` where the host computes them.
    sums: Option<&'a [u8]>,
    /// Nothing where the device wrote them to their places.
    rows: &'a [u8],
}

/// Waits for all launches, and has rows written to their places, with their checksums, or fetches them. `is_late`: they
/// are written later, and only checksums are fetched.
fn fetch<'a>(
    device: &'a mut impl Device,
    sealed: &Sealed,
    results_at: u64,
    (direct, is_late): (Option<&DirectRows>, bool),
) -> Result<Found<'a>, DeviceError> {
    let (rows_at, rows_bytes) = sealed.rows;
    let before_rows = rows_at - results_at;
    let launch = sealed.sums.launch.filter(|_| direct.is_some());
    if let Some(launch) = &launch {
        device.launch(launch)?;
    }
    let found = match direct {
        Some(rows) if !is_late => device.download_rows(rows, results_at, before_rows)?,
        Some(_) => device.download(results_at, before_rows)?,
        None => device.download(results_at, before_rows + rows_bytes)?,
    };
    let (before, rows) = found.split_at(before_rows as usize);
    let (results, sums) = before.split_at((sealed.sums.at - results_at) as usize);
    Ok(Found { results, sums: launch.map(|_| sums), rows })
}

impl<D: Device> SampleRenderer for CudaRenderer<D> {
    fn render(
        &mut self,
        recipe: &Recipe,
        sample: &PartSample<'_>,
        out: &mut dyn ViewSink,
    ) -> Result<Rendered, RenderError> {
        self.render_all(recipe, &[*sample], &mut [out]).remove(0)
    }

    /// After a failure of the device the processor renders everything, anew what was on the device:
    /// the bytes are the same, so that all it costs is time. Where the device decodes they are not, and
    /// everything fails.
    fn render_all(
        &mut self,
        recipe: &Recipe,
        samples: &[PartSample<'_>],
        sinks: &mut [&mut dyn ViewSink],
    ) -> Vec<Result<Rendered, RenderError>> {
        if recipe.without_kernel().is_some() && recipe.decoder.is_turbojpeg() {
            samples.iter().for_each(|_| self.tally.rendered_beside());
            return self.cpu.render_all(recipe, samples, sinks);
        }
        let mut reason = "it failed before, see this worker's log".to_owned();
        if let Err(passing) = self.follow(recipe) {
            return samples.iter().map(|_| Err(passing.clone())).collect();
        }
        if self.device.is_some() {
            let mut job = Job::new(recipe, samples, sinks);
            let tried = self.try_all(&mut job);
            let Err(error) = tried else { return job.outcomes.into_iter().flatten().collect() };
            let device = self.device.take().map(|device| device.name()).unwrap_or_default();
            tracing::error!(device, %error, "the device failed: it is given up");
            self.tally.failed();
            reason = error.to_string();
        }
        if !recipe.decoder.is_turbojpeg() {
            let lost = RenderError::DeviceLost { reason };
            return samples.iter().map(|_| Err(lost.clone())).collect();
        }
        self.cpu.render_all(recipe, samples, sinks)
    }
}
