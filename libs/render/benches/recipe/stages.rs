//! The stages of a whole recipe, each timed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_core::draw::Extent;
use headwater_core::op::{DrawnOp, Enhanced, split_flip};
use headwater_core::{Recipe, SampleId};
use headwater_pixels::image::Planes;
use headwater_pixels::ops::cast::{CastTable, Normalise};
use headwater_pixels::ops::resize::{Geometry, Resizer};
use headwater_pixels::ops::{OpContext, cast, erase};

use headwater_render::decode::{DecodeLimits, DecodedCache, Decoder, EntryTable};
use headwater_render::{Draws, RenderKey, Renderer, ViewSink};
use headwater_simd::Simd;

use crate::turbo;

/// What is known of images from former rounds.
pub(crate) struct Known {
    pub(crate) entries: Option<Arc<EntryTable>>,
    pub(crate) cache: Option<Arc<DecodedCache>>,
}

/// A recipe through the decoded cache.
struct Cached {
    renderer: Renderer,
    /// Least times of all photos.
    best: Duration,
    /// Times of the first round, which decodes and writes, and of that round without the cache.
    first: [Duration; 2],
}

/// Rows of one sample, reused.
struct Rows {
    rows: Vec<Vec<Vec<u8>>>,
}

impl ViewSink for Rows {
    fn row(&mut self, tensor: usize, view: usize) -> &mut [u8] {
        &mut self.rows[tensor][view]
    }
}

/// Times of stages, one after the other.
struct Clock {
    last: Instant,
    spent: Vec<Stage>,
}

/// A stage and how long it took.
type Stage = (String, Duration);

impl Clock {
    fn start() -> Self {
        Self { last: Instant::now(), spent: Vec::new() }
    }

    fn end(&mut self, stage: impl Into<String>) {
        let took = self.last.elapsed();
        self.spent.push((stage.into(), took));
        self.last = Instant::now();
    }
}

pub(crate) fn measure(
    photos: &[Vec<u8>],
    recipe: &Recipe,
    simd: Simd,
    rounds: usize,
    known: &Known,
) {
    let Known { entries, cache } = known;
    let rows = recipe.tensors.iter().map(|tensor| {
        let len = u64::from(3 * tensor.width * tensor.height) * tensor.dtype.size_bytes();
        vec![vec![0; len as usize]; tensor.views.len()]
    });
    let mut rows = Rows { rows: rows.collect() };
    let mut renderer = Renderer::with_simd(simd).expect("a renderer").sharing(entries.clone());
    let cached = || Renderer::with_simd(simd).expect("a renderer").sharing(entries.clone());
    let mut cached = cache.clone().map(|cache| Cached {
        renderer: cached().caching(Some(cache)),
        best: Duration::ZERO,
        first: Default::default(),
    });
    let mut library = turbojpeg::Decompressor::new().expect("libjpeg-turbo");
    let mut pixels = Vec::new();
    let mut parts = Parts::new(recipe, simd, entries.clone());
    let mut whole = Duration::ZERO;
    let mut decode = Duration::ZERO;
    let mut judge = Duration::ZERO;
    let mut stages: Vec<(Stage, usize)> = Vec::new();
    for (number, photo) in photos.iter().enumerate() {
        let key = RenderKey { seed: 1, epoch: 0, pass: 0, sample: SampleId(number as u64) };
        let mut best = Duration::MAX;
        let mut best_cached = Duration::MAX;
        let mut best_decode = Duration::MAX;
        let mut best_judge = Duration::MAX;
        let mut best_stages: Vec<Stage> = Vec::new();
        for round in 0..rounds {
            let begin = Instant::now();
            turbo::decode(&mut library, photo, &mut pixels);
            best_judge = best_judge.min(begin.elapsed());
            let begin = Instant::now();
            parts.decoder.decode(photo).expect("a photo");
            best_decode = best_decode.min(begin.elapsed());
            let begin = Instant::now();
            renderer.render(recipe, key, photo, &mut rows).expect("a photo");
            let plain = begin.elapsed();
            best = best.min(plain);
            if let Some(Cached { renderer, first, .. }) = &mut cached {
                let begin = Instant::now();
                renderer.render(recipe, key, photo, &mut rows).expect("a photo");
                let took = begin.elapsed();
                best_cached = best_cached.min(took);
                if round == 0 {
                    first.iter_mut().zip([took, plain]).for_each(|(sum, took)| *sum += took);
                }
            }
            let spent = parts.render(recipe, key, photo, &mut rows);
            if round == 0 {
                best_stages.clone_from(&spent);
            }
            // A photo has the same draws in each round, and so the same stages.
            for ((_, least), (_, spent)) in best_stages.iter_mut().zip(spent) {
                *least = spent.min(*least);
            }
        }
        whole += best;
        cached.iter_mut().for_each(|cached| cached.best += best_cached);
        decode += best_decode;
        judge += best_judge;
        for (stage, time) in best_stages {
            match stages.iter_mut().find(|((name, _), _)| *name == stage) {
                Some(((_, sum), count)) => (*sum, *count) = (*sum + time, *count + 1),
                None => stages.push(((stage, time), 1)),
            }
        }
    }
    report(simd, photos.len(), whole, [decode, judge], &stages);
    if let Some(Cached { best, first: [first, plain], .. }) = cached {
        let ms = |time: Duration| time.as_secs_f64() * 1e3 / photos.len() as f64;
        println!(
            "  decoded cache {:.1} images/s, {:.3} ms; over the recipe without it {:.2}; first round {:.3} ms, {:.3} without",
            1e3 / ms(best),
            ms(best),
            ms(best) / ms(whole),
            ms(first),
            ms(plain)
        );
    }
}

/// `bare`: decoding of all pixels of all photos, which a recipe may not need, by us and by libjpeg-turbo.
fn report(
    simd: Simd,
    photos: usize,
    whole: Duration,
    bare: [Duration; 2],
    stages: &[(Stage, usize)],
) {
    let [decode, judge] = bare;
    let ms = |time: Duration| time.as_secs_f64() * 1e3 / photos as f64;
    println!("\n{}: {:.1} images/s, {:.3} ms", simd.name(), 1e3 / ms(whole), ms(whole));
    for ((stage, time), count) in stages {
        let share = 100.0 * ms(*time) / ms(whole);
        let each = time.as_secs_f64() * 1e3 / *count as f64;
        println!("  {stage:<18} {:.3} ms {share:5.1} %, {count} of {each:.3} ms", ms(*time));
    }
    println!(
        "  bare decode {:.1} images/s, {:.3} ms; recipe / bare decode {:.2}",
        1e3 / ms(decode),
        ms(decode),
        ms(whole) / ms(decode)
    );
    println!(
        "  libjpeg-turbo {:.1} images/s, {:.3} ms; recipe / libjpeg-turbo {:.2}, bare decode / libjpeg-turbo {:.2}",
        1e3 / ms(judge),
        ms(judge),
        ms(whole) / ms(judge),
        ms(decode) / ms(judge)
    );
}

/// What a renderer is made of.
struct Parts {
    simd: Simd,
    decoder: Decoder,
    resizer: Resizer,
    ops: OpContext,
    view: Planes,
    draws: Draws,
    table: CastTable,
}

impl Parts {
    fn new(recipe: &Recipe, simd: Simd, entries: Option<Arc<EntryTable>>) -> Self {
        Self {
            simd,
            decoder: Decoder::with_simd(DecodeLimits::default(), simd)
                .expect("a decoder")
                .sharing(entries),
            resizer: Resizer::new(simd),
            ops: OpContext::new(simd),
            view: Planes::new(),
            draws: Draws::default(),
            table: CastTable::new(recipe, recipe.tensors[0].dtype),
        }
    }

    fn render(
        &mut self,
        recipe: &Recipe,
        key: RenderKey,
        photo: &[u8],
        rows: &mut Rows,
    ) -> Vec<Stage> {
        let mut clock = Clock::start();
        let Self { decoder, draws, .. } = self;
        let choose = |image| {
            clock.end("decode");
            let wanted = draws.draw(recipe, key, image);
            clock.end("draw");
            wanted
        };
        let image = decoder.decode_wanted(photo, choose).expect("a photo");
        clock.end("decode");
        let mut number = 0;
        for (tensor, spec) in recipe.tensors.iter().enumerate() {
            for index in 0..spec.views.len() {
                let params = &self.draws.views()[number];
                let extent = Extent { width: spec.width, height: spec.height };
                let geometry = Geometry::new(params, extent, recipe.resize_passes);
                number += 1;
                let (mirrored, ops) = split_flip(&params.ops);
                self.resizer.resize(image, &geometry, mirrored, &mut self.view);
                clock.end("resize");
                for op in ops {
                    change(&mut self.ops, &mut self.view, op, &mut clock);
                }
                let row = rows.row(tensor, index);
                cast::write(self.simd, &self.view, &self.table, row);
                clock.end("cast");
                if ops.iter().any(|op| matches!(op, DrawnOp::Erase(_))) {
                    erase::apply(self.simd, ops, spec.dtype, &Normalise::of(recipe), extent, row);
                    clock.end("erase");
                }
            }
        }
        clock.spent
    }
}

/// Does an operation to a view; each step of a jitter is a stage of its own.
fn change(ops: &mut OpContext, view: &mut Planes, op: &DrawnOp, clock: &mut Clock) {
    let stage = match op {
        DrawnOp::ColorJitter(jitter) => {
            for (step, factor) in jitter.steps() {
                change(ops, view, &Enhanced { step, factor }.into(), clock);
            }
            return;
        }
        // Done to the row.
        DrawnOp::Erase(_) => return,
        DrawnOp::Affine(warp) => format!("affine, {}", warp.filter.name()),
        op => op.text().split_whitespace().next().unwrap_or_default().to_owned(),
    };
    ops.apply(op, view);
    clock.end(stage);
}
