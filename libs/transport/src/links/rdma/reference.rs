//! perftest's `ib_write_bw`, the usual measure of one-sided writes.

use std::fmt;

use super::{RdmaPort, chosen};
use crate::links::{Moved, Reference, ReferenceRun, Workload};

/// Time that it measures for.
const MEASURE_S: u64 = 5;
const PROGRAM: &str = "ib_write_bw";
const PACKAGE: &str = "perftest";

/// Over the same port, with one small buffer, as it is usually run.
pub(super) const WRITE: Reference = Reference {
    name: "ib_write_bw",
    program: PROGRAM,
    package: PACKAGE,
    counts_cpu: true,
    run: |work| run(work, Writes::usual(work.options.config.rdma_queue_pairs)),
};

/// The same with the link's messages, out of and into as much memory as the link uses. It takes longer to start, because
/// it fills all that memory, than to measure.
pub(super) const WRITE_AS_LINK: Reference = Reference {
    name: "ib_write_bw-as-link",
    program: PROGRAM,
    package: PACKAGE,
    counts_cpu: false,
    run: |work| {
        let queue_pairs = work.options.config.rdma_queue_pairs;
        run(work, Writes::as_link(work.region_bytes, work.memory_bytes, queue_pairs))
    },
};

/// Each queue pair writes its own buffer into one of the peer's buffers, over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Writes {
    message_bytes: u64,
    queue_pairs: u32,
    /// Messages that each pair has under way.
    depth: u32,
}

/// It runs for a time, and its messages are counted: the figures that it prints itself come from
/// the processor's counter of cycles, whose pace it cannot tell on a busy or unusual machine, and
/// then they are 0. Of those under way at the end it counts none; between none and all of them
/// were moved in that time, so half of them are added.
fn run(work: &Workload<'_>, writes: Writes) -> Result<ReferenceRun, String> {
    let port = RdmaPort::of(&work.options.config, &work.options.near_cards);
    let port = chosen(&port).map_err(|error| error.to_string())?;
    let Writes { message_bytes, queue_pairs, depth } = writes;
    let arguments = format!(
        "-F --report_gbits -d {} -i {} -x {} -s {message_bytes} -t {depth} -Q 1 -D {MEASURE_S} -f 0 \
         -q {queue_pairs} -p {}",
        port.device, port.port, port.gid_index, work.tcp_port
    );
    let under_way = u64::from(queue_pairs) * u64::from(depth);
    let figures = move |said: &str| {
        let bytes = messages(said)? * message_bytes + under_way * message_bytes / 2;
        Some(Moved { bytes, gb_per_s: bytes as f64 / 1e9 / MEASURE_S as f64 })
    };
    Ok(ReferenceRun {
        arguments: arguments.split_whitespace().map(str::to_owned).collect(),
        calling: vec!["127.0.0.1".to_owned()],
        about: Some(writes.to_string()),
        figures: Box::new(figures),
    })
}

/// `#iterations`, the second column of the last row of figures.
fn messages(said: &str) -> Option<u64> {
    let rows = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut rows =
        rows.filter(|row| row.len() == 5 && row.iter().all(|word| word.parse::<f64>().is_ok()));
    rows.next_back()?[1].parse().ok().filter(|&messages| messages > 0)
}

// === impl Writes ===

impl Writes {
    /// As it is mostly run: 16 messages of 1 MiB under way, all out of one buffer that may stay in
    /// a processor's cache.
    fn usual(queue_pairs: u32) -> Self {
        Self { message_bytes: 1 << 20, queue_pairs, depth: 16 }
    }

    /// Messages as long as a link's longest, and as many pairs, which are as many buffers, as make
    /// up the memory that the link goes through at both ends.
    fn as_link(message_bytes: u64, memory_bytes: u64, queue_pairs: u32) -> Self {
        let pairs = memory_bytes / (2 * message_bytes.max(1));
        let queue_pairs = u32::try_from(pairs).unwrap_or(u32::MAX).max(queue_pairs);
        Self { message_bytes, queue_pairs, depth: 1 }
    }
}

impl fmt::Display for Writes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { message_bytes, queue_pairs, depth } = self;
        let (message, memory) =
            (*message_bytes as f64 / 1e6, 2 * message_bytes * u64::from(*queue_pairs));
        let memory = memory as f64 / 1e6;
        write!(
            f,
            "messages of {message:.1} MB, {depth} under way on each of {queue_pairs} queue pairs, \
             {memory:.0} MB of memory at both ends"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_the_program_prints() {
        let perftest = "\
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 1048576    688           0.000000            0.000000            0.000000
---------------------------------------------------------------------------------------";
        assert_eq!(messages(perftest), Some(688));
        assert_eq!(messages("Couldn't connect to 127.0.0.1:18515"), None);
    }

    #[test]
    fn writes_as_a_link_does_go_through_as_much_memory() {
        let writes = Writes::as_link(2_408_448, 167_000_000, 1);
        assert_eq!(writes, Writes { message_bytes: 2_408_448, queue_pairs: 34, depth: 1 });
        assert_eq!(Writes::as_link(1000, 1000, 4).queue_pairs, 4);
    }
}
