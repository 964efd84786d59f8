//! Where a process's trace goes.

use std::path::{Path, PathBuf};

use crate::error::TraceError;

/// What placeholders in a path stand for.
#[derive(Clone, Debug)]
pub struct Names<'a> {
    /// `%t`: the tier.
    pub tier: &'a str,
    /// `%r`: the rank.
    pub rank: u32,
    /// Ranks of the job. Where there is more than one, a path without `%r` or `%p` gets the rank.
    pub world_size: u32,
}

/// The path of a trace as somebody wrote it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TracePath {
    text: String,
    ending: &'static str,
}

const ENDINGS: [&str; 2] = [".json", ".pfw.gz"];

// === impl TracePath ===

impl TracePath {
    /// # Errors
    /// It ends in no known ending, or has a placeholder that there is not.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let path = || text.to_owned();
        let ending = ENDINGS.into_iter().find(|ending| text.ends_with(ending));
        let ending = ending.ok_or_else(|| TraceError::Kind { path: path() })?;
        let parsed = Self { text: text.to_owned(), ending };
        parsed.filled(&Names { tier: "", rank: 0, world_size: 1 })?;
        Ok(parsed)
    }

    /// The same with a word before its ending: `out.json` becomes `out-word.json`. It may hold placeholders.
    #[must_use]
    pub fn tagged(&self, word: &str) -> Self {
        let stem = &self.text[..self.text.len() - self.ending.len()];
        Self { text: format!("{stem}-{word}{}", self.ending), ending: self.ending }
    }

    /// As it is written.
    #[must_use]
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether the file is DFTracer's.
    pub(crate) fn is_dftracer(path: &Path) -> bool {
        path.to_string_lossy().ends_with(ENDINGS[1])
    }

    /// The file of one process.
    ///
    /// # Errors
    /// A placeholder that there is not.
    pub fn of_process(&self, names: &Names<'_>) -> Result<PathBuf, TraceError> {
        let has = |letter| self.text.contains(letter);
        if names.world_size > 1 && !has("%r") && !has("%p") {
            return self.tagged(&format!("rank{}", names.rank)).filled(names);
        }
        self.filled(names)
    }

    fn filled(&self, names: &Names<'_>) -> Result<PathBuf, TraceError> {
        let mut path = String::new();
        let mut letters = self.text.chars();
        while let Some(letter) = letters.next() {
            if letter != '%' {
                path.push(letter);
                continue;
            }
            match letters.next() {
                Some('r') => path.push_str(&names.rank.to_string()),
                Some('t') => path.push_str(names.tier),
                Some('h') => path.push_str(&host()),
                Some('p') => path.push_str(&std::process::id().to_string()),
                Some('%') => path.push('%'),
                other => {
                    let letter = other.map(String::from).unwrap_or_default();
                    return Err(TraceError::Placeholder { path: self.text.clone(), letter });
                }
            }
        }
        Ok(path.into())
    }
}

/// Name of this host.
pub(crate) fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str, rank: u32, world_size: u32) -> String {
        let names = Names { tier: "receiver", rank, world_size };
        let path = TracePath::parse(text).and_then(|path| path.of_process(&names));
        path.map_or_else(|error| error.to_string(), |path| path.display().to_string())
    }

    #[test]
    fn ranks_of_a_job_never_share_a_file() {
        assert_eq!(path("out.json", 0, 1), "out.json");
        assert_eq!(path("a/out.json", 3, 8), "a/out-rank3.json");
        assert_eq!(path("out.pfw.gz", 3, 8), "out-rank3.pfw.gz");
        assert_eq!(path("%t/r%r.json", 3, 8), "receiver/r3.json");
        let own = std::process::id();
        assert_eq!(path("%p%%.json", 3, 8), format!("{own}%.json"));
    }

    #[test]
    fn what_cannot_be_a_trace_is_named_with_the_remedy() {
        assert!(path("out.txt", 0, 1).contains("`out.txt`") && path("o", 0, 1).contains(".pfw.gz"));
        assert!(path("a%q.json", 0, 1).contains("`%q`"));
        let tagged = TracePath::parse("out.pfw.gz").unwrap().tagged("augment-0");
        assert_eq!(tagged.text(), "out-augment-0.pfw.gz");
    }
}
