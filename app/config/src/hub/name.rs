//! Names of datasets in the hub, whole and short.

use std::fmt;
use std::str::FromStr;

/// Longest name of a folder, in bytes.
const PART_BYTES_MAX: usize = 64;

/// The whole name of a split.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct SplitName([String; 4]);

/// What a person writes: `NAME`, `NAME/SPLIT`, `CONFIDENTIALITY/MODALITY/NAME` or all four.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Confidentiality and modality.
    place: Option<[String; 2]>,
    name: String,
    split: Option<String>,
}

// === impl SplitName ===

impl SplitName {
    /// Names of the four levels, outermost first.
    pub const LEVELS: [&str; 4] = ["confidentiality", "modality", "name", "split"];

    /// Checks the names of the four folders.
    ///
    /// # Errors
    /// A sentence with the first name that cannot be used.
    pub fn new(parts: [String; 4]) -> Result<Self, String> {
        for (part, level) in parts.iter().zip(Self::LEVELS) {
            check(part).map_err(|fault| format!("{level} {fault}"))?;
        }
        Ok(Self(parts))
    }

    /// The name of one level, 0 to 3.
    ///
    /// # Panics
    /// There is no such level.
    #[must_use]
    pub fn part(&self, level: usize) -> &str {
        &self.0[level]
    }

    /// The dataset without the split.
    #[must_use]
    pub fn dataset(&self) -> &[String] {
        &self.0[..3]
    }
}

impl fmt::Display for SplitName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.join("/"))
    }
}

// === impl Reference ===

impl Reference {
    /// Whether a split is meant.
    #[must_use]
    pub fn fits(&self, split: &SplitName) -> bool {
        let [confidentiality, modality, name, of] = &split.0;
        self.name == *name
            && self.split.as_ref().is_none_or(|split| split == of)
            && self.place.as_ref().is_none_or(|[c, m]| c == confidentiality && m == modality)
    }

    /// Whether it is the whole name of a split.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.place.is_some() && self.split.is_some()
    }
}

impl FromStr for Reference {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<&str> = text.trim_end_matches('/').split('/').collect();
        for part in &parts {
            check(part).map_err(|fault| format!("`{text}` names no dataset: {fault}"))?;
        }
        let own = |part: &&str| (*part).to_owned();
        let (place, name, split) = match &parts[..] {
            [name] => (None, own(name), None),
            [name, split] => (None, own(name), Some(own(split))),
            [c, m, name] => (Some([own(c), own(m)]), own(name), None),
            [c, m, name, split] => (Some([own(c), own(m)]), own(name), Some(own(split))),
            _ => {
                return Err(format!(
                    "`{text}` names no dataset: write NAME, NAME/SPLIT or \
                     CONFIDENTIALITY/MODALITY/NAME/SPLIT"
                ));
            }
        };
        Ok(Self { place, name, split })
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place.iter().flatten();
        let parts: Vec<&str> =
            place.chain([&self.name]).chain(&self.split).map(String::as_str).collect();
        f.write_str(&parts.join("/"))
    }
}

/// What is wrong with the name of a folder. Names are kept to what every shell, file system and
/// URL takes as it is.
fn check(part: &str) -> Result<(), String> {
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let starts_well = part.starts_with(|c: char| c.is_ascii_alphanumeric());
    if !starts_well || !part.chars().all(known) || part.len() > PART_BYTES_MAX {
        return Err(format!(
            "`{part}` cannot be used: names in the hub are up to {PART_BYTES_MAX} letters, digits, \
             `-`, `_` and `.`, the first a letter or digit"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> SplitName {
        let parts: Vec<String> = text.split('/').map(str::to_owned).collect();
        SplitName::new(parts.try_into().unwrap()).unwrap()
    }

    #[test]
    fn each_form_means_the_splits_that_have_it() {
        let all = ["public/rgb/a/train", "public/rgb/a/val", "secret/rgb/a/train", "public/ir/b/v"];
        let meant = |text: &str| {
            let reference: Reference = text.parse().unwrap();
            assert_eq!(reference.to_string(), text);
            all.into_iter().filter(|name| reference.fits(&split(name))).collect::<Vec<_>>()
        };
        assert_eq!(meant("a"), all[..3]);
        assert_eq!(meant("a/train"), [all[0], all[2]]);
        assert_eq!(meant("public/rgb/a"), all[..2]);
        assert_eq!(meant("secret/rgb/a/train"), [all[2]]);
        assert!(meant("rgb").is_empty());
    }

    #[test]
    fn what_no_folder_may_be_called_is_refused() {
        for bad in ["", "..", ".a", "-a", "a b", "a/../b", "a//b", "a/b/c/d/e", "ä", "a=b", "{a}"]
        {
            assert!(bad.parse::<Reference>().is_err(), "{bad}");
        }
        let long = "a".repeat(PART_BYTES_MAX);
        assert!(long.parse::<Reference>().is_ok());
        assert!(format!("{long}a").parse::<Reference>().is_err());
        let parts = ["public", "r gb", "a", "train"].map(str::to_owned);
        assert!(SplitName::new(parts).unwrap_err().starts_with("modality `r gb`"));
    }
}
