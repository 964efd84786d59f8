//! Times at which a waiting process logs that it still waits.

use std::time::Duration;

/// A wait is logged after this time.
const FIRST: Duration = Duration::from_secs(5);
/// And again after each such time.
const AGAIN: Duration = Duration::from_secs(60);

/// Decides when to log a wait: after 5 s, then once a minute. Make one for each wait.
#[derive(Clone, Copy, Debug, Default)]
pub struct Reminder {
    told: u32,
}

// === impl Reminder ===

impl Reminder {
    /// Whether to log a wait of length `waited` now. True once for each of these times.
    pub fn is_due(&mut self, waited: Duration) -> bool {
        let due = waited >= FIRST + AGAIN * self.told;
        self.told += u32::from(due);
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_of_after_some_seconds_and_then_now_and_then() {
        let mut reminder = Reminder::default();
        let told: Vec<u64> =
            (0..200).filter(|second| reminder.is_due(Duration::from_secs(*second))).collect();
        assert_eq!(told, [5, 65, 125, 185]);
    }
}
