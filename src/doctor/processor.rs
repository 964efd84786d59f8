//! The processor and the kernels of the augment tier that it can run.

use headwater_inventory::Processor;

use crate::doctor::{Check, Patient};

/// Features that `Simd::Avx2` of the augment tier asks for, by the kernel's names.
const AVX2: [&str; 2] = ["avx2", "fma"];
/// What `Simd::Avx512` asks for besides.
const AVX512: [&str; 5] = ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"];
/// What its fastest form asks for besides.
const VBMI: &str = "avx512vbmi";

/// Name of the fastest kernels of the augment tier that a processor can run.
pub(crate) fn kernels(processor: &Processor) -> &'static str {
    let avx2 = processor.has(&AVX2);
    match avx2 && processor.has(&AVX512) {
        true if processor.has(&[VBMI]) => "avx512vbmi",
        true => "avx512",
        false if avx2 => "avx2",
        false => "plain",
    }
}

pub(super) fn checks(patient: &Patient<'_>) -> Option<Check> {
    let processor = patient.machine.processor()?;
    let name = processor.model.as_deref().unwrap_or("a processor without a name");
    let kernels = kernels(&processor);
    let found = format!("{name}, {} cores, {kernels} kernels", processor.cores);
    Some(match kernels {
        "avx512vbmi" | "avx512" | "avx2" => Check::ok("processor", found),
        _ if processor.has(&["asimd"]) => Check::absent(
            "processor",
            found,
            "it has NEON, which no kernel of this version uses: rendering is several times slower \
             than with AVX2; let x86-64 nodes augment",
        ),
        _ => Check::absent(
            "processor",
            found,
            "without AVX2 and FMA rendering is several times slower; in a virtual machine, show \
             the host's processor to it",
        ),
    })
}
