//! `headwater bench gpu`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use headwater_config::Config;
use headwater_core::recipe::HW_DECODER_LOAD_DEFAULT;
use headwater_core::{Recipe, error_chain};
use headwater_render_cuda::{KernelTime, Ways};

use crate::bench::gpu::summary::{JpegWays, Kernel, Nvjpeg, Speed, Summary, Upload};
use crate::bench::{DecodingKernels, Gpu, Kernels, Pass, Side, Uploads, with_nvjpeg};

/// Flags of `bench gpu`.
#[derive(Clone, Debug, Args)]
pub(crate) struct GpuFlags {
    /// Folder of images, or of shards with images
    #[arg(long, value_name = "DIR")]
    photos: PathBuf,
    /// Images that are compared byte for byte
    #[arg(long, value_name = "N", default_value_t = 64)]
    images: usize,
    /// Seconds of each measurement of decoders and back ends
    #[arg(long, value_name = "S", default_value_t = 10)]
    seconds: u64,
    /// Rounds of each measurement of kernels
    #[arg(long, value_name = "N", default_value_t = 50)]
    rounds: u32,
    /// Samples of a part, which are rendered together
    #[arg(long, value_name = "N", default_value = "32")]
    part: std::num::NonZeroU16,
    /// Which measurements; default: all
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    only: Vec<Part>,
    /// One object of JSON
    #[arg(long)]
    json: bool,
}

/// What was measured so far; Markdown is printed as it comes.
struct Told {
    is_json: bool,
    summary: Summary,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The GPU's bytes against the processor's
    Parity,
    /// Each kernel's bytes over time
    Kernels,
    /// A batch's way to a receiver's GPU
    Receiver,
    /// Images that are decoded per second
    Decode,
    /// nvJPEG: how far from libjpeg-turbo, and how fast, by itself and within everything
    Nvjpeg,
    /// Images per second of everything together, on the GPU
    BackEnd,
    /// The same on the processor
    Processor,
}

// === impl GpuFlags ===

impl GpuFlags {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

// === impl Told ===

impl Told {
    fn line(&self, text: &str) {
        if !self.is_json {
            println!("{text}");
        }
    }

    /// A row of a table, and its figure.
    fn speed(&mut self, what: String, on_gpu: bool, images_per_s: f64) {
        self.line(&format!("| {what} | {images_per_s:.0} |"));
        self.summary.speeds.push(Speed { what, on_gpu, images_per_s });
    }
}

/// Compares and measures; what is printed is Markdown, or one object of JSON.
///
/// # Errors
/// There is no GPU, bytes differ, or the GPU has left work to the processor.
pub(super) fn run(config: &Config, flags: &GpuFlags) -> Result<()> {
    let asked = flags.images > 0 && flags.seconds > 0 && flags.rounds > 0;
    ensure!(asked, "nothing to compare or measure");
    config.augment.validate()?;
    let recipe = config.recipe.recipe()?;
    ensure!(!recipe.tensors.is_empty(), "the recipe renders nothing: choose another one");
    let gpu = Gpu::open(&config.augment, &flags.photos, flags.part.get().into())?;
    let (threads, images) = (gpu.threads(), gpu.images());
    let (name, summary) = (gpu.name(), Summary::default());
    let summary = Summary { gpu: name.clone(), threads, images, ..summary };
    let mut told = Told { is_json: flags.json, summary };
    told.line(&format!("{name}, {threads} threads, {images} images"));
    let named = (config.recipe.preset.as_str(), &recipe);
    if flags.wants(Part::Parity) {
        told.line("\n## Parity with the processor\n");
        let mut same = Vec::new();
        let compared = gpu.compare(flags.images, |line| {
            told.line(&format!("- {line}"));
            same.push(line);
        });
        compared.context("GPU and processor differ")?;
        told.summary.parity = same;
    }
    if flags.wants(Part::Kernels) {
        kernels(&mut told, &gpu, named, flags.rounds)?;
    }
    if flags.wants(Part::Receiver) {
        let cuda = config.augment.cuda.settings(config.augment.threads());
        let (cache, samples) = (cuda.cache_dir.as_deref(), flags.part.get().into());
        let measured = Uploads::measure(cuda.device, cache, flags.rounds, samples);
        uploads(&mut told, &measured.context("batches on their way to a receiver's GPU")?);
    }
    speeds(&mut told, &gpu, flags, named)?;
    if flags.wants(Part::Nvjpeg) {
        nvjpeg(&mut told, &gpu, flags, &recipe)?;
    }
    if flags.json {
        println!("{}", serde_json::to_string(&told.summary)?);
    }
    Ok(())
}

/// Kernels only, engines and kernels, engines first.
const ENGINE_LOADS: [f64; 3] = [0.0, HW_DECODER_LOAD_DEFAULT, 1.0];

fn nvjpeg(told: &mut Told, gpu: &Gpu, flags: &GpuFlags, recipe: &Recipe) -> Result<()> {
    told.line("\n## nvJPEG\n");
    if let Err(reason) = gpu.check_nvjpeg(0.0) {
        told.line(&format!("NOT RUN: {reason}"));
        told.summary.absent.push(format!("nvJPEG: {reason}"));
        return Ok(());
    }
    told.line(
        "| share for engines | mean difference | largest | PSNR | decode, images/s | left to the \
         processor | whole back end, images/s |",
    );
    told.line("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut first = Ok(());
    for load in ENGINE_LOADS {
        if let Err(reason) = gpu.check_nvjpeg(load) {
            told.line(&format!("| {load} | NOT RUN: {reason} |"));
            told.summary.absent.push(format!("nvJPEG, {load} for engines: {reason}"));
        } else if let Err(error) = nvjpeg_with(told, gpu, flags, recipe, load) {
            told.line(&format!("| {load} | FAILED: {} |", error_chain(error.as_ref())));
            first = first.and(Err(error.context(format!("nvJPEG, {load} for engines"))));
        }
    }
    first
}

/// One line of the table.
fn nvjpeg_with(
    told: &mut Told,
    gpu: &Gpu,
    flags: &GpuFlags,
    recipe: &Recipe,
    load: f64,
) -> Result<()> {
    let time = Duration::from_secs(flags.seconds);
    let difference = gpu.compare_nvjpeg(flags.images, load)?;
    let (mean, largest, psnr) = (difference.mean(), difference.largest, difference.psnr());
    let (decoded, left_share) = gpu.decode_nvjpeg(load, time)?;
    let whole = gpu.back_end(&with_nvjpeg(recipe, load), time, Side::Gpu)?;
    let left = 100.0 * left_share;
    told.line(&format!(
        "| {load} | {mean:.3} | {largest} | {psnr:.1} dB | {decoded:.0} | {left:.1} % | {whole:.0} |"
    ));
    told.summary.nvjpeg.push(Nvjpeg {
        engine_share: load,
        mean_difference: mean,
        largest_difference: largest,
        decoded_images_per_s: decoded,
        left_share,
        whole_images_per_s: whole,
    });
    Ok(())
}

fn shares(pass: &str, Ways { known, found, left }: Ways) -> JpegWays {
    let all = (known + found + left).max(1) as f64;
    let [known, found, left] = [known, found, left].map(|images| images as f64 / all);
    JpegWays { pass: pass.to_owned(), known, found, left }
}

fn speeds(
    told: &mut Told,
    gpu: &Gpu,
    flags: &GpuFlags,
    (name, recipe): (&str, &Recipe),
) -> Result<()> {
    let time = Duration::from_secs(flags.seconds);
    let threads = gpu.threads();
    if flags.wants(Part::Decode) {
        told.line("\n## Decode\n\n| decoder | images/s |\n| --- | ---: |");
        told.speed("processor, 1 thread".to_owned(), false, gpu.decode(1, time)?);
        told.speed(format!("processor, {threads} threads"), false, gpu.decode(threads, time)?);
        for pass in Pass::ALL {
            let (decoded, ways) = gpu.decode_coded(pass, time)?;
            let name = pass.name();
            told.speed(format!("GPU's kernels, {threads} threads, {name}"), true, decoded);
            told.summary.ways.push(shares(name, ways));
        }
        told.line("\n| images decoded by | kernels | kernels that find entries | processor |");
        told.line("| --- | ---: | ---: | ---: |");
        for JpegWays { pass, known, found, left } in told.summary.ways.clone() {
            let [known, found, left] = [known, found, left].map(|share| 100.0 * share);
            told.line(&format!("| {pass} | {known:.1} % | {found:.1} % | {left:.1} % |"));
        }
    }
    let of_passes = |what: &str| Pass::ALL.map(|pass| format!("{what}, {}", pass.name()));
    let [first, later] = of_passes("GPU that decodes");
    let [on_first, on_later] = of_passes("processor");
    let sides = [
        (Part::BackEnd, Side::Gpu, "GPU, first pass"),
        (Part::BackEnd, Side::GpuDecoding(Pass::First), &first),
        (Part::BackEnd, Side::GpuDecoding(Pass::Later), &later),
        (Part::Processor, Side::Processor(Pass::First), &on_first),
        (Part::Processor, Side::Processor(Pass::Later), &on_later),
    ];
    if sides.iter().any(|(part, ..)| flags.wants(*part)) {
        told.line(&format!(
            "\n## Whole back end\n\n| {name}, {threads} threads | images/s |\n| --- | ---: |"
        ));
    }
    for (_, side, name) in sides.into_iter().filter(|(part, ..)| flags.wants(*part)) {
        let speed = gpu.back_end(recipe, time, side)?;
        told.speed(format!("whole back end, {name}"), side.is_gpu(), speed);
    }
    Ok(())
}

fn uploads(told: &mut Told, uploads: &Uploads) {
    let Uploads { bytes, copied, normalised } = *uploads;
    told.line("\n## Batches to a receiver's GPU\n");
    let megabytes = bytes as f64 / 1e6;
    told.line(&format!(
        "{megabytes:.0} MB of u8 in a slot, the same bytes as by the processor's table.\n"
    ));
    told.line("| | ms | GB/s over the bus |\n| --- | ---: | ---: |");
    for (what, time) in [("copied", copied), ("copied, normalised to bf16", normalised)] {
        let seconds = time.as_secs_f64();
        let (ms, speed) = (seconds * 1e3, bytes as f64 / seconds / 1e9);
        told.line(&format!("| {what} | {ms:.2} | {speed:.1} |"));
        told.summary.uploads.push(Upload { what: what.to_owned(), bytes, ms });
    }
}

fn kernels(told: &mut Told, gpu: &Gpu, named: (&str, &Recipe), rounds: u32) -> Result<()> {
    let copy = gpu.copy_bytes_per_s()?;
    told.summary.copy_bytes_per_s = Some(copy);
    told.line("\n## Kernels\n");
    let gigabytes = copy / 1e9;
    told.line(&format!("Copy from device to device: {gigabytes:.0} GB/s, read and written.\n"));
    told.line("| recipe | kernel | blocks | us a part | us an image | GB/s | of copy |");
    told.line("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    for Kernels { recipe, samples, times } in gpu.kernels(named, rounds)? {
        times.iter().for_each(|time| kernel(told, &recipe, samples, time, copy));
    }
    for pass in Pass::ALL {
        let DecodingKernels { times, images, segments } = gpu.decoding_kernels(pass, rounds)?;
        let what = format!("decode, {}, {segments} known segments", pass.name());
        let ran = times.iter().filter(|time| time.blocks > 0);
        ran.for_each(|time| kernel(told, &what, images, time, copy));
    }
    Ok(())
}

/// One line of the table.
fn kernel(told: &mut Told, recipe: &str, samples: usize, time: &KernelTime, copy: f64) {
    let part_us = time.round().as_secs_f64() * 1e6;
    let (each, bytes_per_s) = (part_us / samples as f64, time.bytes_per_s());
    let share = 100.0 * bytes_per_s / copy;
    let (kernel, blocks, speed) = (time.kernel.name(), time.blocks, bytes_per_s / 1e9);
    told.line(&format!(
        "| {recipe} | `{kernel}` | {blocks} | {part_us:.1} | {each:.2} | {speed:.0} | {share:.0} % |"
    ));
    let (recipe, kernel) = (recipe.to_owned(), kernel.to_owned());
    told.summary.kernels.push(Kernel { recipe, kernel, blocks, part_us, bytes_per_s });
}

#[cfg(test)]
mod tests {
    use headwater_cuda::check_driver;

    use super::*;

    fn flags(photos: &str) -> GpuFlags {
        GpuFlags {
            photos: photos.into(),
            images: 2,
            seconds: 1,
            rounds: 1,
            part: std::num::NonZeroU16::MIN,
            only: Vec::new(),
            json: false,
        }
    }

    /// A machine with a driver has nothing to say here.
    #[test]
    fn without_a_driver_nothing_is_measured_and_the_driver_is_named() {
        if check_driver().is_ok() {
            return;
        }
        let photos = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/photos");
        let error = format!("{:#}", run(&Config::default(), &flags(photos)).unwrap_err());
        for word in ["no GPU to measure", "driver (libcuda.so) is not found"] {
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn a_folder_that_is_not_there_and_nothing_to_do_are_refused_before_a_gpu_is_opened() {
        let error = format!("{:#}", run(&Config::default(), &flags("/no/such")).unwrap_err());
        assert!(error.contains("cannot read /no/such"), "{error}");
        let no_time = GpuFlags { seconds: 0, ..flags("/no/such") };
        let no_rounds = GpuFlags { rounds: 0, ..flags("/no/such") };
        for nothing in [no_time, no_rounds] {
            let error = run(&Config::default(), &nothing).unwrap_err().to_string();
            assert!(error.contains("nothing to compare"), "{error}");
        }
    }

    #[test]
    fn everything_is_done_unless_parts_are_named() {
        let all = flags("");
        assert!(Part::value_variants().iter().all(|part| all.wants(*part)));
        let some = GpuFlags { only: vec![Part::Decode], ..all };
        assert!(some.wants(Part::Decode) && !some.wants(Part::Parity));
    }
}
