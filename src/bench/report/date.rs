//! Dates.

use std::time::SystemTime;

const SECONDS_A_DAY: u64 = 86_400;

/// A moment as in `2026-11-23 18:40 UTC`.
pub(super) fn date(moment: SystemTime) -> String {
    let seconds = moment.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let (year, month, day) = civil(seconds / SECONDS_A_DAY);
    let minutes = seconds % SECONDS_A_DAY / 60;
    let (hour, minute) = (minutes / 60, minutes % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

/// Year, month and day of a day since 1970, after `civil_from_days` in Howard Hinnant's "chrono-Compatible
/// Low-Level Date Algorithms".
fn civil(days: u64) -> (u64, u64, u64) {
    // Eras of 400 years begin on 1 March, so that a leap day is the last of its year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, (month + 2) % 12 + 1);
    (400 * era + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn dates_are_those_that_date_prints() {
        // `date -u -d @N '+%F %H:%M'`
        for (seconds, expected) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_782_340, "2000-02-28 23:59 UTC"),
            (951_782_400, "2000-02-29 00:00 UTC"),
            (1_795_459_199, "2026-11-23 18:39 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(date(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds)), expected);
        }
    }
}
