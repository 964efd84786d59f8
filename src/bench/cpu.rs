//! CPU time of processes, which other programs on the machine change less than its clock.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use rustix::param::clock_ticks_per_second;

/// User and system time of all threads of a process so far, to a hundredth of a second:
/// `utime` and `stime` of `/proc/PID/stat`, proc(5).
///
/// # Errors
/// There is no such process.
pub(super) fn cpu_time(process: u32) -> Result<Duration> {
    let path = format!("/proc/{process}/stat");
    let stat = fs::read_to_string(&path).with_context(|| path.clone())?;
    let ticks =
        ticks(&stat).with_context(|| format!("{path} does not have the format of proc(5)"))?;
    Ok(Duration::from_secs_f64(ticks as f64 / clock_ticks_per_second() as f64))
}

/// The same of this process and of all its children that have ended, in ticks.
///
/// # Errors
/// The kernel does not say.
pub(super) fn ticks_with_children() -> Result<u64> {
    let path = "/proc/self/stat";
    let stat = fs::read_to_string(path).context(path)?;
    let mut fields = after_name(&stat).context(path)?.skip(11).take(4).map(str::parse::<u64>);
    fields.try_fold(0, |all, ticks| Ok(all + ticks?))
}

fn ticks(stat: &str) -> Option<u64> {
    let mut fields = after_name(stat)?.skip(11);
    Some(fields.next()?.parse::<u64>().ok()? + fields.next()?.parse::<u64>().ok()?)
}

/// Fields from the third on: the second is the program's name in parentheses, which may hold anything.
fn after_name(stat: &str) -> Option<impl Iterator<Item = &str>> {
    Some(stat.rsplit_once(')')?.1.split_ascii_whitespace())
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn a_name_with_spaces_and_parentheses_moves_no_field() {
        let stat = "7 (a) b) R 1 7 7 0 -1 4194304 100 0 0 0 31 11 5 6 20 0 1 0 100 1000 10";
        assert_eq!(ticks(stat), Some(42));
        assert_eq!(ticks("7 (a) R 1"), None);
    }

    #[test]
    fn a_process_that_computes_is_seen_to() {
        let own = std::process::id();
        let before = cpu_time(own).unwrap();
        let started = Instant::now();
        while cpu_time(own).unwrap() < before + Duration::from_millis(30) {
            assert!(started.elapsed() < Duration::from_secs(60));
        }
    }
}
