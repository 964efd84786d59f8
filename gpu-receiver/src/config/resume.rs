//! Whether a receiver goes on where an earlier one stopped.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Where a receiver begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Written", into = "Written")]
pub enum Resume {
    /// At the start.
    #[default]
    No,
    /// At the newest whole checkpoint, or at the start where there is none. All of them broken is an
    /// error.
    Yes,
    /// As `Yes`, but at the start where all are broken.
    Fresh,
}

/// How it is written.
#[derive(Serialize, Deserialize)]
#[serde(untagged, expecting = "is not true, false or \"fresh\"")]
enum Written {
    Flag(bool),
    Word(String),
}

// === impl Resume ===

impl From<bool> for Resume {
    fn from(resume: bool) -> Self {
        if resume { Self::Yes } else { Self::No }
    }
}

impl TryFrom<Written> for Resume {
    type Error = String;

    fn try_from(written: Written) -> Result<Self, String> {
        match written {
            Written::Flag(resume) => Ok(resume.into()),
            Written::Word(word) if word == "fresh" => Ok(Self::Fresh),
            Written::Word(word) => Err(format!("`{word}` is not true, false or \"fresh\"")),
        }
    }
}

impl From<Resume> for Written {
    fn from(resume: Resume) -> Self {
        match resume {
            Resume::No => Self::Flag(false),
            Resume::Yes => Self::Flag(true),
            Resume::Fresh => Self::Word("fresh".to_owned()),
        }
    }
}

impl fmt::Display for Resume {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::No => "false",
            Self::Yes => "true",
            Self::Fresh => "\"fresh\"",
        })
    }
}
