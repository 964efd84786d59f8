//! `headwater bench gpu`.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};
use headwater_config::Config;
use headwater_core::Recipe;
use headwater_core::recipe::HW_DECODER_LOAD_DEFAULT;

use crate::bench::{Gpu, Kernels, Uploads, with_nvjpeg};

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
    /// What is done; default: everything
    #[arg(long, value_enum, value_delimiter = ',', value_name = "WHAT")]
    only: Vec<Part>,
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
    /// nvJPEG: how far from libjpeg-turbo, and how fast, alone and within everything
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

/// Compares and measures; what is printed is Markdown.
///
/// # Errors
/// There is no GPU, bytes differ, or the GPU has left work to the processor.
pub(super) fn run(config: &Config, flags: &GpuFlags) -> Result<()> {
    let asked = flags.images > 0 && flags.seconds > 0 && flags.rounds > 0;
    ensure!(asked, "nothing to compare or measure");
    config.augment.validate()?;
    let recipe = config.recipe.recipe()?;
    ensure!(!recipe.tensors.is_empty(), "the recipe renders nothing: choose another one");
    let gpu = Gpu::open(&config.augment, &flags.photos)?;
    let (threads, images) = (gpu.threads(), gpu.images());
    println!("{}, {threads} threads, {images} images", gpu.name());
    if flags.wants(Part::Parity) {
        println!("\n## Parity with the processor\n");
        let compared = gpu.compare(flags.images, |line| println!("- {line}"));
        compared.context("GPU and processor differ")?;
    }
    if flags.wants(Part::Kernels) {
        let copy = gpu.copy_bytes_per_s()?;
        println!("\n## Kernels\n");
        println!("Copy from device to device: {:.0} GB/s, read and written.\n", copy / 1e9);
        print_kernels(&gpu.kernels((&config.recipe.preset, &recipe), flags.rounds)?, copy);
    }
    if flags.wants(Part::Receiver) {
        let cuda = config.augment.cuda();
        let uploads = Uploads::measure(cuda.device, cuda.cache_dir.as_deref(), flags.rounds);
        print_uploads(&uploads.context("batches on their way to a receiver's GPU")?);
    }
    speeds(&gpu, flags, (&config.recipe.preset, &recipe))?;
    if flags.wants(Part::Nvjpeg) { nvjpeg(&gpu, flags, &recipe) } else { Ok(()) }
}

/// Kernels alone, engines and kernels, engines first.
const ENGINE_LOADS: [f64; 3] = [0.0, HW_DECODER_LOAD_DEFAULT, 1.0];

fn nvjpeg(gpu: &Gpu, flags: &GpuFlags, recipe: &Recipe) -> Result<()> {
    println!("\n## nvJPEG\n");
    if let Err(reason) = gpu.check_nvjpeg(0.0) {
        println!("NOT RUN: {reason}");
        return Ok(());
    }
    println!(
        "| share for engines | mean difference | largest | PSNR | decode, images/s | left to the \
         processor | whole back end, images/s |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    let mut first = Ok(());
    for load in ENGINE_LOADS {
        if let Err(reason) = gpu.check_nvjpeg(load) {
            println!("| {load} | NOT RUN: {reason} |");
        } else if let Err(error) = nvjpeg_with(gpu, flags, recipe, load) {
            println!("| {load} | FAILED: {error:#} |");
            first = first.and(Err(error.context(format!("nvJPEG, {load} for engines"))));
        }
    }
    first
}

/// One line of the table.
fn nvjpeg_with(gpu: &Gpu, flags: &GpuFlags, recipe: &Recipe, load: f64) -> Result<()> {
    let time = Duration::from_secs(flags.seconds);
    let difference = gpu.compare_nvjpeg(flags.images, load)?;
    let (mean, largest, psnr) = (difference.mean(), difference.largest, difference.psnr());
    let (decoded, left) = gpu.decode_nvjpeg(load, time)?;
    let whole = gpu.back_end(&with_nvjpeg(recipe, load), time, true)?;
    let left = 100.0 * left;
    println!(
        "| {load} | {mean:.3} | {largest} | {psnr:.1} dB | {decoded:.0} | {left:.1} % | {whole:.0} |"
    );
    Ok(())
}

fn speeds(gpu: &Gpu, flags: &GpuFlags, (name, recipe): (&str, &Recipe)) -> Result<()> {
    let time = Duration::from_secs(flags.seconds);
    let threads = gpu.threads();
    if flags.wants(Part::Decode) {
        println!("\n## Decode\n\n| decoder | images/s |\n| --- | ---: |");
        println!("| processor, 1 thread | {:.0} |", gpu.decode(1, time)?);
        println!("| processor, {threads} threads | {:.0} |", gpu.decode(threads, time)?);
    }
    let sides = [(Part::BackEnd, true, "GPU"), (Part::Processor, false, "processor")];
    if sides.iter().any(|(part, ..)| flags.wants(*part)) {
        println!("\n## Whole back end\n\n| {name}, {threads} threads | images/s |\n| --- | ---: |");
    }
    for (_, on_gpu, side) in sides.into_iter().filter(|(part, ..)| flags.wants(*part)) {
        println!("| {side} | {:.0} |", gpu.back_end(recipe, time, on_gpu)?);
    }
    Ok(())
}

fn print_uploads(uploads: &Uploads) {
    let Uploads { bytes, copied, normalised } = *uploads;
    println!("\n## Batches to a receiver's GPU\n");
    println!(
        "{:.0} MB of u8 in a slot, the same bytes as by the processor's table.\n",
        bytes as f64 / 1e6
    );
    println!("| | ms | GB/s over the bus |\n| --- | ---: | ---: |");
    for (what, time) in [("copied", copied), ("copied, normalised to bf16", normalised)] {
        let seconds = time.as_secs_f64();
        println!("| {what} | {:.2} | {:.1} |", seconds * 1e3, bytes as f64 / seconds / 1e9);
    }
}

fn print_kernels(measured: &[Kernels], copy_bytes_per_s: f64) {
    println!("| recipe | kernel | blocks | us a part | us an image | GB/s | of copy |");
    println!("| --- | --- | ---: | ---: | ---: | ---: | ---: |");
    for Kernels { recipe, samples, times } in measured {
        for time in times {
            let us = time.round().as_secs_f64() * 1e6;
            let (each, speed) = (us / *samples as f64, time.bytes_per_s());
            let share = 100.0 * speed / copy_bytes_per_s;
            let (kernel, blocks, speed) = (time.kernel.name(), time.blocks, speed / 1e9);
            println!(
                "| {recipe} | `{kernel}` | {blocks} | {us:.1} | {each:.2} | {speed:.0} | {share:.0} % |"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use headwater_cuda::check_driver;

    use super::*;

    fn flags(photos: &str) -> GpuFlags {
        GpuFlags { photos: photos.into(), images: 2, seconds: 1, rounds: 1, only: Vec::new() }
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
