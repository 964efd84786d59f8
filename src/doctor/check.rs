//! One line of a report.

use std::fmt;

use serde::Serialize;

/// How it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    /// There, and enough.
    Ok,
    /// Missing, but the configuration does not need it.
    Absent,
    /// What is configured will fail, or be far slower than this machine can be.
    Wrong,
}

/// One thing that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Check {
    /// What was looked at.
    pub(crate) check: String,
    pub(crate) verdict: Verdict,
    /// What was found.
    pub(crate) found: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) remedy: Option<String>,
}

// === impl Check ===

impl Check {
    pub(crate) fn ok(check: impl Into<String>, found: impl Into<String>) -> Self {
        Self { check: check.into(), verdict: Verdict::Ok, found: found.into(), remedy: None }
    }

    pub(crate) fn absent(
        check: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let remedy = Some(remedy.into());
        Self { check: check.into(), verdict: Verdict::Absent, found: found.into(), remedy }
    }

    pub(crate) fn wrong(
        check: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { verdict: Verdict::Wrong, ..Self::absent(check, found, remedy) }
    }

    pub(crate) fn is_ok(&self) -> bool {
        self.verdict == Verdict::Ok
    }

    /// Wrong where `needed`, else absent.
    pub(crate) fn lacking(
        needed: bool,
        check: impl Into<String>,
        found: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let verdict = if needed { Verdict::Wrong } else { Verdict::Absent };
        Self { verdict, ..Self::absent(check, found, remedy) }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Ok => "ok",
            Verdict::Absent => "absent",
            Verdict::Wrong => "wrong",
        };
        write!(f, "{verdict:6}  {}: {}", self.check, self.found)?;
        self.remedy.iter().try_for_each(|remedy| write!(f, "; {remedy}"))
    }
}

/// A number of bytes for people.
pub(crate) fn gigabytes(bytes: u64) -> String {
    let bytes = bytes as f64;
    if bytes < 1e9 { format!("{:.0} MB", bytes / 1e6) } else { format!("{:.1} GB", bytes / 1e9) }
}
