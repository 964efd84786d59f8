//! How busy the processor is.

use crate::Machine;

/// Time of all cores since the machine started, in ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTicks {
    /// In which a core worked, or was taken from a virtual machine.
    pub busy: u64,
    /// In which a core had nothing to do, or waited for a disk.
    pub idle: u64,
}

// === impl Machine ===

impl Machine {
    /// Processes that ran or waited for a core, a mean over the last minute.
    #[must_use]
    pub fn load(&self) -> Option<f64> {
        self.text("/proc/loadavg")?.split(' ').next()?.parse().ok()
    }

    /// What the cores did so far.
    #[must_use]
    pub fn processor_ticks(&self) -> Option<ProcessorTicks> {
        let text = self.text("/proc/stat")?;
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let numbers: Vec<u64> =
            line.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        // The two after these are counted in the first two already.
        let [user, nice, system, idle, waiting, interrupts, soft, stolen] =
            *numbers.first_chunk::<8>()?;
        let busy = user + nice + system + interrupts + soft + stolen;
        Some(ProcessorTicks { busy, idle: idle + waiting })
    }
}
