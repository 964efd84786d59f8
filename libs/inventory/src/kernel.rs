//! The kernel: its release and what is loaded into it.

use serde::Serialize;

use crate::Machine;

/// Release of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KernelRelease {
    /// As it calls itself, `6.1.0-32-amd64`.
    pub text: String,
    /// Its first two numbers.
    pub version: (u32, u32),
}

// === impl Machine ===

impl Machine {
    /// The kernel that runs.
    #[must_use]
    pub fn kernel(&self) -> Option<KernelRelease> {
        let text = self.text("/proc/sys/kernel/osrelease")?;
        let mut numbers = text.split(|c: char| !c.is_ascii_digit()).map(str::parse);
        let version = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(KernelRelease { version, text })
    }

    /// Whether a module is loaded or built in.
    #[must_use]
    pub fn has_module(&self, name: &str) -> bool {
        self.path(format!("/sys/module/{name}")).is_dir()
    }
}
