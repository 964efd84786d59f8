//! The metrics of a process, from a text in Prometheus' format.

use std::collections::BTreeMap;
use std::ops::Bound;

/// Values at one moment, by name with labels, as in `headwater_storage_read_bytes_total{way="file"}`.
/// Buckets of histograms are left out.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Metrics {
    values: BTreeMap<String, f64>,
}

// === impl Metrics ===

impl Metrics {
    /// Parses a text. Lines that are not understood are left out.
    pub(crate) fn of(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self { values: lines.filter_map(line).filter(|(key, _)| !is_bucket(key)).collect() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// A counter's value; 0 if it does not exist.
    pub(crate) fn get(&self, key: &str) -> u64 {
        self.values.get(key).map_or(0, |value| *value as u64)
    }

    /// A metric's value, if it exists.
    pub(crate) fn value(&self, key: &str) -> Option<f64> {
        self.values.get(key).copied()
    }

    /// All series of a metric: key and value.
    pub(crate) fn series<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (&'a str, f64)> {
        let from_name = self.values.range::<str, _>((Bound::Included(name), Bound::Unbounded));
        let same_start = from_name.take_while(move |(key, _)| key.starts_with(name));
        let own = same_start
            .filter(move |(key, _)| matches!(key.as_bytes().get(name.len()), None | Some(b'{')));
        own.map(|(key, value)| (key.as_str(), *value))
    }

    /// The sum over all labels of a metric, if it exists.
    pub(crate) fn sum(&self, name: &str) -> Option<f64> {
        self.series(name).map(|(_, value)| value).reduce(|sum, value| sum + value)
    }

    /// A label of the first series that has it.
    pub(crate) fn label(&self, name: &str, label: &str) -> Option<String> {
        self.series(name).find_map(|(key, _)| label_of(key, label))
    }

    /// Sums by the values of a label.
    pub(crate) fn by_label(&self, name: &str, label: &str) -> BTreeMap<String, f64> {
        let mut sums = BTreeMap::new();
        for (key, value) in self.series(name) {
            if let Some(label) = label_of(key, label) {
                *sums.entry(label).or_default() += value;
            }
        }
        sums
    }

    /// Those whose label has a value.
    pub(crate) fn of_label(&self, label: &str, value: &str) -> Self {
        let is_of = |key: &str| label_of(key, label).is_some_and(|found| found == value);
        let values = self.values.iter().filter(|(key, _)| is_of(key));
        Self { values: values.map(|(key, value)| (key.clone(), *value)).collect() }
    }

    /// Whether a counter is less than it was: the process began anew.
    pub(crate) fn began_after(&self, earlier: &Self) -> bool {
        let is_counter = |key: &str| {
            let name = key.split('{').next().unwrap_or(key);
            name.ends_with("_total") || name.ends_with("_count")
        };
        let mut counters = earlier.values.iter().filter(|(key, _)| is_counter(key));
        counters.any(|(key, before)| self.value(key).is_none_or(|now| now < *before))
    }

    /// Adds the metrics of another process.
    pub(crate) fn add(&mut self, other: &Self) {
        for (key, value) in &other.values {
            *self.values.entry(key.clone()).or_default() += value;
        }
    }
}

/// `NAME{LABELS} VALUE [TIMESTAMP]`. Labels may hold blanks.
fn line(text: &str) -> Option<(String, f64)> {
    let key_ends = match text.find('{') {
        Some(at) => at + labels_end(&text[at..])?,
        None => text.find(char::is_whitespace)?,
    };
    let (key, rest) = text.split_at(key_ends);
    let value = rest.split_whitespace().next()?.parse().ok()?;
    Some((key.to_owned(), value))
}

/// Length of `{..}`. Quoted values may hold braces.
fn labels_end(text: &str) -> Option<usize> {
    let (mut is_quoted, mut is_escaped) = (false, false);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'}' if !is_quoted => return Some(at + 1),
            _ => {}
        }
    }
    None
}

fn is_bucket(key: &str) -> bool {
    key.split('{').next().is_some_and(|name| name.ends_with("_bucket"))
}

/// The value of one label in `name{a="b",c="d"}`.
fn label_of(key: &str, label: &str) -> Option<String> {
    let mut rest = key.split_once('{')?.1;
    loop {
        let (name, quoted) = rest.split_once("=\"")?;
        let (value, length) = unquote(quoted);
        if name.trim_start_matches([',', ' ']) == label {
            return Some(value);
        }
        rest = quoted.get(length..)?;
    }
}

/// A value up to its closing quote, and the bytes of both.
fn unquote(text: &str) -> (String, usize) {
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return (value, at + 1),
            '\\' => match characters.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, escaped)) => value.push(escaped),
                None => {}
            },
            plain => value.push(plain),
        }
    }
    (value, text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_several_processes_add_up() {
        let mut metrics = Metrics::default();
        let text = "# HELP a b\na_total{way=\"file\"} 3\nb 1.5\n";
        metrics.add(&Metrics::of(text));
        metrics.add(&Metrics::of(text));
        assert_eq!(metrics.get("a_total{way=\"file\"}"), 6);
        assert_eq!(metrics.get("b"), 3);
        assert_eq!(metrics.get("c"), 0);
    }

    #[test]
    fn labels_may_hold_whatever_text_may() {
        let metrics = Metrics::of(
            "info{job=\"a \\\"b\\\" {c}\",rank=\"0\"} 1\n\
             info{rank=\"1\",job=\"x\\\\y\\n\"} 2 1700000000000\n\
             information 7\nbroken{a=\"b\nnot a number\nlate +Inf\n\
             t_seconds_bucket{le=\"1\"} 3\nt_seconds_count 3\n",
        );
        assert_eq!(metrics.label("info", "job").as_deref(), Some("a \"b\" {c}"));
        assert_eq!(metrics.label("info", "world_size"), None);
        let jobs = metrics.by_label("info", "job");
        assert_eq!(jobs.get("x\\y\n"), Some(&2.0));
        assert_eq!(metrics.by_label("info", "rank").len(), 2);
        assert_eq!(metrics.sum("info"), Some(3.0), "not `information`");
        assert_eq!(metrics.sum("broken"), None);
        assert_eq!(metrics.value("late"), Some(f64::INFINITY));
        assert_eq!(metrics.sum("t_seconds_bucket"), None);
        assert_eq!(metrics.sum("t_seconds_count"), Some(3.0));
    }

    #[test]
    fn a_process_that_began_anew_is_known_by_its_counters() {
        let began = |then: &str, now: &str| Metrics::of(now).began_after(&Metrics::of(then));
        assert!(!began("a_total 3\ng 9\n", "a_total 3\ng 1\nb_total 1\n"), "a gauge may fall");
        assert!(began("a_total{x=\"1\"} 3\n", "a_total{x=\"1\"} 2\n"));
        assert!(began("a_total 3\n", "g 1\n"), "it has not counted yet");
        assert!(began("s_seconds_count 3\n", "s_seconds_count 1\n"));
    }
}
