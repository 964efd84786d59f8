//! Twins that the compiler makes: one source, compiled once for each set of instructions. Rust
//! never fuses or reorders floating-point operations of its own accord, so all of them give the same bytes.
#![allow(unsafe_code)]

/// `pub fn name(args) = plain::function;` becomes `pub fn name(simd: Simd, args)`, which runs the
/// function compiled for `simd`. The function and what it calls must be `#[inline(always)]`;
/// what is not stays compiled for the oldest processor.
#[macro_export]
macro_rules! twin {
    ($(#[$attribute:meta])* $visible:vis fn $name:ident($($arg:ident: $type:ty),* $(,)?) = $plain:path;) => {
        $(#[$attribute])*
        #[allow(unsafe_code)]
        $visible fn $name(simd: $crate::Simd, $($arg: $type),*) {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            fn avx2($($arg: $type),*) {
                $plain($($arg),*)
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")]
            fn avx512($($arg: $type),*) {
                $plain($($arg),*)
            }
            match simd {
                $crate::Simd::Plain => $plain($($arg),*),
                // SAFETY: the proof in `simd` exists only where the processor has AVX2 and FMA.
                #[cfg(target_arch = "x86_64")]
                $crate::Simd::Avx2(_) => unsafe { avx2($($arg),*) },
                // SAFETY: the proof in `simd` exists only where the processor has these sets.
                #[cfg(target_arch = "x86_64")]
                $crate::Simd::Avx512(_) => unsafe { avx512($($arg),*) },
                // All code of this target is compiled for NEON.
                #[cfg(target_arch = "aarch64")]
                $crate::Simd::Neon(_) => $plain($($arg),*),
            }
        }
    };
}
