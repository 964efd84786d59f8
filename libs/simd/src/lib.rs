//! Which instructions the faster twins may use.
//!
//! [`Simd`] is a choice with its proof: a value that names a set of instructions is only made where the
//! processor has it, so that who holds one may call what is compiled for it. Deliberately absent: any
//! operation on pixels.
#![deny(unsafe_code)]

mod aligned;
#[cfg(target_arch = "aarch64")]
pub mod neon;
mod twin;
#[cfg(target_arch = "x86_64")]
pub mod x86;

pub use aligned::Aligned;

use std::sync::OnceLock;

/// A set of instructions that this processor has. Every operation gives the same bytes whatever the
/// set, so the choice is one of speed only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simd {
    /// The definitions themselves.
    Plain,
    /// AVX2, FMA, BMI1, BMI2 and LZCNT: all from Haswell, Excavator and Zen on.
    #[cfg(target_arch = "x86_64")]
    Avx2(Avx2),
    /// AVX-512 F, BW, DQ, VL and VNNI: servers from Cascade Lake and Zen 4 on; those from Ice Lake
    /// on and all Zen have VBMI too.
    #[cfg(target_arch = "x86_64")]
    Avx512(Avx512),
    /// Advanced SIMD of 64-bit ARM, known as NEON.
    #[cfg(target_arch = "aarch64")]
    Neon(Neon),
}

/// Proof that the processor has NEON: it is only ever made here, after a look.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Neon(());

/// Proof that the processor has AVX2, FMA, BMI1, BMI2 and LZCNT: it is only ever made here, after a look.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2(());

/// Proof that the processor has AVX-512 F, BW, DQ, VL and VNNI, and AVX2 as well.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx512 {
    /// Whether it has VBMI too, and may use it.
    vbmi: bool,
    /// Whether it has VBMI2 as well, and may use it.
    vbmi2: bool,
}

/// Proof that the processor has AVX-512 VBMI beside the sets of [`Avx512`].
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vbmi(());

/// Proof that the processor has AVX-512 VBMI2 and VBMI beside the sets of [`Avx512`]: all from Ice Lake
/// and Zen 4 on.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Vbmi2(());

// === impl Avx512 ===

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// What has AVX-512 has AVX2.
    #[must_use]
    pub fn avx2(self) -> Avx2 {
        Avx2(())
    }

    /// The proof of VBMI, where it is there.
    #[must_use]
    pub fn vbmi(self) -> Option<Vbmi> {
        self.vbmi.then_some(Vbmi(()))
    }

    /// The proof of VBMI2, where it is there.
    #[must_use]
    pub fn vbmi2(self) -> Option<Vbmi2> {
        (self.vbmi && self.vbmi2).then_some(Vbmi2(()))
    }
}

// === impl Simd ===

impl Simd {
    /// All sets of this processor, slowest first; [`Simd::Plain`] is always there. The processor
    /// is asked once.
    #[must_use]
    pub fn available() -> &'static [Self] {
        static AVAILABLE: OnceLock<Vec<Simd>> = OnceLock::new();
        AVAILABLE.get_or_init(detect)
    }

    /// The fastest set of this processor.
    #[must_use]
    pub fn best() -> Self {
        Self::available().last().copied().unwrap_or(Self::Plain)
    }

    /// Name for logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Self::Avx2(_) => "avx2",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(Avx512 { vbmi: false, .. }) => "avx512",
            #[cfg(target_arch = "x86_64")]
            Self::Avx512(Avx512 { vbmi: true, .. }) => "avx512vbmi",
            #[cfg(target_arch = "aarch64")]
            Self::Neon(_) => "neon",
        }
    }
}

#[cfg(target_arch = "x86_64")]
fn detect() -> Vec<Simd> {
    let mut available = vec![Simd::Plain];
    let avx2 = is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("bmi1")
        && is_x86_feature_detected!("bmi2")
        && is_x86_feature_detected!("lzcnt");
    if avx2 {
        available.push(Simd::Avx2(Avx2(())));
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vnni");
        if avx512 {
            available.push(Simd::Avx512(Avx512 { vbmi: false, vbmi2: false }));
            if is_x86_feature_detected!("avx512vbmi") {
                let vbmi2 = is_x86_feature_detected!("avx512vbmi2");
                available.push(Simd::Avx512(Avx512 { vbmi: true, vbmi2 }));
            }
        }
    }
    available
}

#[cfg(target_arch = "aarch64")]
fn detect() -> Vec<Simd> {
    let mut available = vec![Simd::Plain];
    if std::arch::is_aarch64_feature_detected!("neon") {
        available.push(Simd::Neon(Neon(())));
    }
    available
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn detect() -> Vec<Simd> {
    vec![Simd::Plain]
}
