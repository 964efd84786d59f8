//! Programs of others that measure the same path as a link: yardsticks.

use super::options::ListenOptions;

/// A program that measures between two of its processes on this host. Both halves are the same program; one serves.
#[derive(Debug)]
pub struct Reference {
    /// Name in reports.
    pub name: &'static str,
    /// The program.
    pub program: &'static str,
    /// The package that has it.
    pub package: &'static str,
    /// Whether its processor time says something: it does not spend most of it on its start.
    pub counts_cpu: bool,
    /// How it is run for this work.
    ///
    /// # Errors
    /// What this machine lacks for it.
    pub run: fn(&Workload<'_>) -> Result<ReferenceRun, String>,
}

/// What a link moves while it is measured.
#[derive(Clone, Copy, Debug)]
pub struct Workload<'a> {
    /// The receiver's end.
    pub options: &'a ListenOptions,
    /// A free TCP port of this host, for the program's own connection.
    pub tcp_port: u16,
    /// Bytes of one measurement.
    pub bytes: u64,
    /// Bytes of the longest region of a part.
    pub region_bytes: u64,
    /// Bytes of the memory that the link goes through at both ends.
    pub memory_bytes: u64,
}

/// One run of the program.
pub struct ReferenceRun {
    /// Arguments of both halves.
    pub arguments: Vec<String>,
    /// Further ones of the calling half.
    pub calling: Vec<String>,
    /// What it does, for the report; `None`: as its name says.
    pub about: Option<String>,
    /// Reads its figures; `None`: they are not understood.
    pub figures: Figures,
}

/// Reads figures from what a program prints.
pub type Figures = Box<dyn Fn(&str) -> Option<Moved>>;

/// What a program moved.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Moved {
    /// All its bytes.
    pub bytes: u64,
    /// 1e9 bytes per second.
    pub gb_per_s: f64,
}
