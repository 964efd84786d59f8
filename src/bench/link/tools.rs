//! The programs by which networks are measured, as yardsticks.

use std::fmt;
use std::io;
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use headwater_transport::rdma::Chosen;

/// Bytes of one put; parts are written in pieces of this order.
const MESSAGE_BYTES: u64 = 1 << 20;
/// Time for the serving half to listen.
const START_LIMIT: Duration = Duration::from_secs(20);
/// Time that `ib_write_bw` measures for.
const IB_WRITE_S: u64 = 5;
/// Clock ticks of a second in /proc: the same on all of Linux that this runs on.
const TICKS_PER_S: f64 = 100.0;

/// What a program measured.
#[derive(Clone, Copy, Debug)]
pub(super) struct Yard {
    pub(super) gb_per_s: f64,
    /// Of both its halves, with their start.
    pub(super) cpu: Duration,
    pub(super) bytes: u64,
}

/// Arguments of `ib_write_bw`: each queue pair writes its own buffer into one of the peer's
/// buffers, over and over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Writes {
    pub(super) message_bytes: u64,
    pub(super) queue_pairs: u32,
    /// Messages that each pair has under way.
    pub(super) depth: u32,
}

impl Writes {
    /// As it is mostly run: 16 messages of 1 MiB under way, all out of one buffer that may stay in
    /// a processor's cache.
    pub(super) fn usual(queue_pairs: u32) -> Self {
        Self { message_bytes: 1 << 20, queue_pairs, depth: 16 }
    }

    /// Messages as long as a link's longest, and as many pairs, which are as many buffers, as make
    /// up the memory that the link goes through at both ends.
    pub(super) fn as_link(message_bytes: u64, memory_bytes: u64, queue_pairs: u32) -> Self {
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

/// perftest's RDMA WRITE over the port.
///
/// It runs for a time, and its messages are counted: the figures that it prints itself come from
/// the processor's counter of cycles, whose pace it cannot tell on a busy or unusual machine, and
/// then they are 0. Of those under way at the end it counts none; between none and all of them
/// were moved in that time, so half of them are added.
pub(super) fn ib_write_bw(port: &Chosen, writes: Writes) -> io::Result<Yard> {
    let tcp_port = free_port()?;
    let Writes { message_bytes, queue_pairs, depth } = writes;
    let command = || {
        let mut command = Command::new("ib_write_bw");
        command.args(["-F", "--report_gbits", "-d", &port.device]);
        command.args(["-i", &port.port.to_string(), "-x", &port.gid_index.to_string()]);
        command.args(["-s", &message_bytes.to_string(), "-t", &depth.to_string(), "-Q", "1"]);
        command.args(["-D", &IB_WRITE_S.to_string(), "-f", "0"]);
        command.args(["-q", &queue_pairs.to_string(), "-p", &tcp_port.to_string()]);
        command
    };
    let (said, cpu) = both("ib_write_bw", command(), command().arg("127.0.0.1"), tcp_port)?;
    let messages = ib_messages(&said).ok_or_else(|| not_understood("ib_write_bw", &said))?;
    let under_way = u64::from(queue_pairs) * u64::from(depth);
    let bytes = messages * message_bytes + under_way * message_bytes / 2;
    Ok(Yard { gb_per_s: bytes as f64 / 1e9 / IB_WRITE_S as f64, cpu, bytes })
}

/// UCX's put, over the transports that the environment's `UCX_*` choose, with the link's error
/// handling.
pub(super) fn ucx_perftest(bytes: u64) -> io::Result<Yard> {
    let tcp_port = free_port()?;
    let puts = (bytes / MESSAGE_BYTES).max(5);
    let command = || {
        let mut command = Command::new("ucx_perftest");
        command.args(["-e", "-f", "-v", "-p", &tcp_port.to_string()]);
        command
    };
    let mut caller = command();
    caller.args(["127.0.0.1", "-t", "ucp_put_bw", "-w", "2"]);
    caller.args(["-s", &MESSAGE_BYTES.to_string(), "-n", &puts.to_string()]);
    let (said, cpu) = both("ucx_perftest", command(), &mut caller, tcp_port)?;
    let mebibytes = ucx_overall(&said).ok_or_else(|| not_understood("ucx_perftest", &said))?;
    let gb_per_s = mebibytes * f64::from(1 << 20) / 1e9;
    Ok(Yard { gb_per_s, cpu, bytes: puts * MESSAGE_BYTES })
}

/// Starts both halves, and returns the output of the calling one.
fn both(
    name: &str,
    mut serving: Command,
    calling: &mut Command,
    tcp_port: u16,
) -> io::Result<(String, Duration)> {
    let before = children_cpu()?;
    let missing = |error: io::Error| {
        let package = if name == "ib_write_bw" { "perftest" } else { "ucx-utils" };
        io::Error::other(format!("{name} does not start ({error}): apt-get install {package}"))
    };
    let (quiet, silent) = (Stdio::null(), Stdio::null());
    let mut server = Killed(serving.stdout(quiet).stderr(silent).spawn().map_err(missing)?);
    let limit = Instant::now() + START_LIMIT;
    while !listens(tcp_port)? {
        let ended = server.0.try_wait()?;
        if ended.is_some() || Instant::now() > limit {
            return Err(io::Error::other(format!("{name} does not listen")));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let output = calling.stdin(Stdio::null()).output()?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{name} fails: {}", said.trim())));
    }
    server.0.wait()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    Ok((said, children_cpu()?.saturating_sub(before)))
}

/// `#iterations`, the second column of the last row of figures.
fn ib_messages(said: &str) -> Option<u64> {
    let rows = said.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let mut rows =
        rows.filter(|row| row.len() == 5 && row.iter().all(|word| word.parse::<f64>().is_ok()));
    rows.next_back()?[1].parse().ok().filter(|&messages| messages > 0)
}

/// `overall_bw` in MiB/s, the sixth column of comma-separated figures.
fn ucx_overall(said: &str) -> Option<f64> {
    let last = said.lines().rfind(|line| line.split(',').count() == 8)?;
    last.split(',').nth(5)?.trim().parse().ok()
}

fn not_understood(name: &str, said: &str) -> io::Error {
    io::Error::other(format!("{name} prints no figures that are understood: {}", said.trim()))
}

/// A port that was free a moment ago: both programs need its number.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?.port())
}

/// Looks it up in the kernel's table: a trial connection would be taken for the caller's.
fn listens(port: u16) -> io::Result<bool> {
    let own = format!(":{port:04X}");
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        let mut rows = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        if rows.any(|row| row.len() > 3 && row[1].ends_with(&own) && row[3] == "0A") {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Processor time of children that have ended and were waited for.
fn children_cpu() -> io::Result<Duration> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    // The name before the last parenthesis may hold anything.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let ticks = fields.split_whitespace().skip(13).take(2).filter_map(|t| t.parse::<f64>().ok());
    Ok(Duration::from_secs_f64(ticks.sum::<f64>() / TICKS_PER_S))
}

/// Killed when dropped, if it still runs.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_from_what_the_programs_print() {
        let perftest = "\
 #bytes     #iterations    BW peak[Gb/sec]    BW average[Gb/sec]   MsgRate[Mpps]
 1048576    688           0.000000            0.000000            0.000000
---------------------------------------------------------------------------------------";
        assert_eq!(ib_messages(perftest), Some(688));
        assert_eq!(ib_messages("Couldn't connect to 127.0.0.1:18515"), None);
        let ucx = "\
iterations,50.0_percentile_lat,avg_lat,overall_lat,avg_bw,overall_bw,avg_mr,overall_mr
 300,0.242,74103.166,18907.266,13.49,52.89,13,53";
        assert_eq!(ucx_overall(ucx), Some(52.89));
        assert_eq!(ucx_overall(""), None);
    }

    #[test]
    fn writes_as_a_link_does_go_through_as_much_memory() {
        let writes = Writes::as_link(2_408_448, 167_000_000, 1);
        assert_eq!(writes, Writes { message_bytes: 2_408_448, queue_pairs: 34, depth: 1 });
        assert_eq!(Writes::as_link(1000, 1000, 4).queue_pairs, 4);
    }

    #[test]
    fn a_listening_port_is_seen_without_calling_it() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        assert!(listens(port).expect("the kernel's table"));
    }
}
