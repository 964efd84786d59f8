//! Kernels as text.

use headwater_core::Digester;

/// Options for whichever compiler it is. Nothing is fused that is not fused on the processor, and
/// quotients are rounded as IEEE 754 has it: without that bytes would differ.
pub const OPTIONS: &[&str] = &["--std=c++17", "--fmad=false", "--ftz=false", "--prec-div=true"];

/// The text of kernels and the options for a compiler.
#[derive(Clone, Copy, Debug)]
pub struct KernelSource {
    /// CUDA C++, without headers: one text after the other. No text includes another.
    pub texts: &'static [&'static str],
    /// Options for NVRTC as for nvcc.
    pub options: &'static [&'static str],
}

// === impl KernelSource ===

impl KernelSource {
    /// All that is compiled.
    #[must_use]
    pub fn text(&self) -> String {
        self.texts.concat()
    }

    /// Adds all that machine code follows from, but for the architecture.
    pub(crate) fn digest_into(&self, digester: &mut Digester) {
        digester.bytes(self.text().as_bytes());
        digester.bytes(self.options.join(" ").as_bytes());
    }
}
