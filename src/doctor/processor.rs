//! The processor and the kernels of the augment tier that it can run.

use crate::doctor::{Check, Patient};

/// Features that `Simd::Avx2` of the augment tier asks for, by the kernel's names.
const AVX2: [&str; 2] = ["avx2", "fma"];
/// What `Simd::Avx512` asks for besides.
const AVX512: [&str; 5] = ["avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni"];
/// What its fastest form asks for besides.
const VBMI: &str = "avx512vbmi";

pub(super) fn checks(patient: &Patient<'_>) -> Option<Check> {
    let processor = patient.machine.processor()?;
    let name = processor.model.as_deref().unwrap_or("a processor without a name");
    let found = |kernels: &str| format!("{name}, {} cores, {kernels} kernels", processor.cores);
    let avx2 = processor.has(&AVX2);
    let avx512 = avx2 && processor.has(&AVX512);
    Some(match (avx512, avx2) {
        (true, _) if processor.has(&[VBMI]) => Check::ok("processor", found("avx512vbmi")),
        (true, _) => Check::ok("processor", found("avx512")),
        (_, true) => Check::ok("processor", found("avx2")),
        _ if processor.has(&["asimd"]) => Check::absent(
            "processor",
            found("plain"),
            "it has NEON, which no kernel of this version uses: rendering is several times slower \
             than with AVX2; let x86-64 nodes augment",
        ),
        _ => Check::absent(
            "processor",
            found("plain"),
            "without AVX2 and FMA rendering is several times slower; in a virtual machine, show \
             the host's processor to it",
        ),
    })
}
