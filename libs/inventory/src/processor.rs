//! The processor, as `/proc/cpuinfo` has it.

use std::collections::BTreeSet;

use serde::Serialize;

use crate::Machine;

/// The processor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Processor {
    /// Its name, where it has one.
    pub model: Option<String>,
    /// Logical cores.
    pub cores: usize,
    /// Features by the kernel's names: `avx2`, `avx512_vnni`; `asimd` is NEON.
    #[serde(skip)]
    pub features: BTreeSet<String>,
}

// === impl Machine ===

impl Machine {
    /// The processor.
    #[must_use]
    pub fn processor(&self) -> Option<Processor> {
        let text = self.text("/proc/cpuinfo")?;
        let values = |name: &'static str| {
            let fields = text.lines().filter_map(|line| line.split_once(':'));
            fields.filter(move |(key, _)| key.trim() == name).map(|(_, value)| value.trim())
        };
        let features = values("flags").chain(values("Features")).next().unwrap_or_default();
        Some(Processor {
            model: values("model name").next().map(str::to_owned),
            cores: values("processor").count(),
            features: features.split_whitespace().map(str::to_owned).collect(),
        })
    }
}

// === impl Processor ===

impl Processor {
    /// Whether it has all of these.
    #[must_use]
    pub fn has(&self, features: &[&str]) -> bool {
        features.iter().all(|feature| self.features.contains(*feature))
    }
}
