//! Files as a place for batches: `file:batches-{000000..}.ten`, one batch in each.

use std::fmt;
use std::path::PathBuf;

/// What begins the URL of a series of files.
pub(super) const SCHEME: &str = "file:";
/// Digits that a number may be written with.
const DIGITS_MAX: usize = 18;
const EXAMPLE: &str = "file:batches-{000000..}.ten";

/// Numbered files, each with one batch. The number of a file follows from its batch's place in the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileSeries {
    head: String,
    tail: String,
    /// Minimum number of digits of a number.
    digits: usize,
    first: u64,
    /// The last number; none where the series has no end.
    last: Option<u64>,
}

// === impl FileSeries ===

impl FileSeries {
    /// Reads what stands behind `file:`.
    ///
    /// # Errors
    /// No range of numbers, or a wrong one; another extension than `.ten`.
    pub(super) fn parse(place: &str) -> Result<Self, String> {
        // As other programs write it: file:///srv/a is /srv/a.
        let place = match place.strip_prefix("//") {
            Some(path) if !path.starts_with('/') => {
                return Err("give a path of this host, as in file:/srv/a-{000000..}.ten".to_owned());
            }
            path => path.unwrap_or(place),
        };
        let range = place.split_once('{').and_then(|(head, rest)| {
            let (range, tail) = rest.split_once('}')?;
            let (first, last) = range.split_once("..")?;
            Some((head, first, last, tail))
        });
        let Some((head, first, last, tail)) = range else {
            return Err(format!("write a range of numbers, as in {EXAMPLE}"));
        };
        let series = Self {
            head: head.to_owned(),
            tail: tail.to_owned(),
            digits: first.len(),
            first: number(first)?,
            last: (!last.is_empty()).then(|| number(last)).transpose()?,
        };
        if series.last.is_some_and(|last| last < series.first) {
            return Err("the numbers of a range are in order".to_owned());
        }
        if tail.contains(['{', '/']) || !tail.ends_with(".ten") {
            return Err(format!("the files' names end with .ten, as in {EXAMPLE}"));
        }
        Ok(series)
    }

    /// File of the batch with this number in the stream, which begins with 0; none where the series has ended.
    #[must_use]
    pub fn path(&self, batch: u64) -> Option<PathBuf> {
        let number = self.first.checked_add(batch)?;
        if self.last.is_some_and(|last| number > last) {
            return None;
        }
        let Self { head, tail, digits, .. } = self;
        Some(PathBuf::from(format!("{head}{number:0digits$}{tail}")))
    }
}

impl fmt::Display for FileSeries {
    /// As in `publish.urls`: `file:batches-{000000..}.ten`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { head, tail, digits, first, last } = self;
        write!(f, "{SCHEME}{head}{{{first:0digits$}..")?;
        if let Some(last) = last {
            write!(f, "{last:0digits$}")?;
        }
        write!(f, "}}{tail}")
    }
}

fn number(text: &str) -> Result<u64, String> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let number = (plain && text.len() <= DIGITS_MAX).then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| {
        format!("`{text}` is not a number of 1 to {DIGITS_MAX} digits: write {EXAMPLE}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn paths(place: &str, batches: [u64; 2]) -> [Option<String>; 2] {
        let series = FileSeries::parse(place).expect("a series");
        batches.map(|batch| series.path(batch).map(|path| path.display().to_string()))
    }

    #[test]
    fn the_file_of_a_batch_follows_from_its_number() {
        let path = |text: &str| Some(text.to_owned());
        assert_eq!(paths("b-{000..}.ten", [0, 1234]), [path("b-000.ten"), path("b-1234.ten")]);
        assert_eq!(paths("/srv/{7..8}.ten", [1, 2]), [path("/srv/8.ten"), None]);
        let series = FileSeries::parse("/srv/{007..011}.ten").expect("a series");
        assert_eq!(series.to_string(), "file:/srv/{007..011}.ten");
        assert_eq!(
            paths("///srv/{00..}x.ten", [9, 10]),
            [path("/srv/09x.ten"), path("/srv/10x.ten")]
        );
    }

    #[test]
    fn what_is_no_series_is_refused_with_the_remedy() {
        for (place, said) in [
            ("batch.ten", "range of numbers"),
            ("b-{0,1}.ten", "range of numbers"),
            ("b-{a..}.ten", "`a` is not a number"),
            ("b-{..9}.ten", "`` is not a number"),
            ("b-{0..0000000000000000000}.ten", "digits"),
            ("b-{9..1}.ten", "in order"),
            ("b-{0..}.tar", "end with .ten"),
            ("b-{0..}/x.ten", "end with .ten"),
            ("b-{0..}-{0..}.ten", "end with .ten"),
            ("//host/b-{0..}.ten", "path of this host"),
        ] {
            let error = FileSeries::parse(place).expect_err(place);
            assert!(error.contains(said), "{place}: {error}");
        }
    }
}
