//! The hub on the disk.

use std::fs;
use std::path::{Path, PathBuf};

use super::{HubRoot, Reference, SplitName};
use crate::ConfigError;

/// Ending of shards.
const SHARD_ENDING: &str = ".tar";
/// Names shown when one is not found.
const NAMES_SHOWN_MAX: usize = 12;
/// What a pattern of shards would not take as it is.
const PATTERN_SIGNS: [char; 6] = ['*', '?', '[', ']', '{', '}'];

/// A hub that is there.
#[derive(Clone, Debug)]
pub struct Hub {
    root: HubRoot,
    splits: Vec<Split>,
    strays: Vec<Stray>,
}

/// One split: a folder of shards.
#[derive(Clone, Debug)]
pub struct Split {
    /// Its whole name.
    pub name: SplitName,
    /// The folder with its shards.
    pub folder: PathBuf,
}

/// What lies in the hub and belongs to no dataset.
#[derive(Clone, Debug)]
pub struct Stray {
    /// The file or folder.
    pub path: PathBuf,
    /// Why it belongs to none.
    pub why: String,
}

// === impl Hub ===

impl Hub {
    /// Looks at the folders of a hub, not yet at the shards.
    ///
    /// # Errors
    /// The hub is not there, or a folder cannot be read.
    pub fn open(root: HubRoot) -> Result<Self, ConfigError> {
        let HubRoot { path, origin } = &root;
        if !path.is_dir() {
            return Err(ConfigError::Hub(format!(
                "no hub at `{}` ({origin}): name its folder by `--root DIR` or \
                 HEADWATER_DATASETS_ROOT, or begin it with `headwater datasets add`",
                path.display()
            )));
        }
        let mut hub = Self { root, splits: Vec::new(), strays: Vec::new() };
        let top = hub.root.path.clone();
        hub.walk(&top, &mut Vec::new())?;
        hub.splits.sort_by(|a, b| a.name.cmp(&b.name));
        hub.strays.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(hub)
    }

    /// Its folder, and who named it.
    #[must_use]
    pub fn root(&self) -> &HubRoot {
        &self.root
    }

    /// All splits, by name.
    #[must_use]
    pub fn splits(&self) -> &[Split] {
        &self.splits
    }

    /// Shards and folders that no dataset has.
    #[must_use]
    pub fn strays(&self) -> &[Stray] {
        &self.strays
    }

    /// The splits of the one dataset that is meant.
    ///
    /// # Errors
    /// No dataset, or more than one, could be meant; lists those that there are.
    pub fn dataset(&self, reference: &Reference) -> Result<Vec<&Split>, ConfigError> {
        let splits: Vec<&Split> =
            self.splits.iter().filter(|split| reference.fits(&split.name)).collect();
        let Some(first) = splits.first() else {
            return Err(ConfigError::Hub(self.unknown(reference)));
        };
        if splits.iter().any(|split| split.name.dataset() != first.name.dataset()) {
            return Err(ambiguous(reference, &splits));
        }
        Ok(splits)
    }

    /// The one split that is meant.
    ///
    /// # Errors
    /// No split, or more than one, could be meant; lists those that there are.
    pub fn split(&self, reference: &Reference) -> Result<&Split, ConfigError> {
        match self.dataset(reference)?[..] {
            [split] => Ok(split),
            ref splits => Err(ambiguous(reference, splits)),
        }
    }

    fn unknown(&self, reference: &Reference) -> String {
        let names: Vec<String> = self.splits.iter().map(|split| split.name.to_string()).collect();
        let more = names.len().saturating_sub(NAMES_SHOWN_MAX);
        let mut known = names[..names.len() - more].join(", ");
        match (names.is_empty(), more) {
            (true, _) => known = "none".to_owned(),
            (_, 0) => {}
            _ => known.push_str(&format!(" and {more} more (`headwater datasets preview`)")),
        }
        let HubRoot { path, origin } = &self.root;
        format!(
            "no dataset `{reference}` in the hub `{}` ({origin}), there are: {known}",
            path.display()
        )
    }

    /// `parts` are the names of the folders above.
    fn walk(&mut self, folder: &Path, parts: &mut Vec<String>) -> Result<(), ConfigError> {
        if let Ok(parts) = <[String; 4]>::try_from(parts.clone()) {
            match SplitName::new(parts) {
                Ok(name) => self.splits.push(Split { name, folder: folder.to_owned() }),
                Err(fault) => self.strays.push(Stray { path: folder.to_owned(), why: fault }),
            }
            return Ok(());
        }
        for (name, path) in entries(folder)? {
            if path.is_dir() {
                parts.push(name);
                self.walk(&path, parts)?;
                parts.pop();
            } else if name.ends_with(SHARD_ENDING) {
                let why = format!(
                    "shards lie four folders deep, {}",
                    SplitName::LEVELS.map(str::to_uppercase).join("/")
                );
                self.strays.push(Stray { path, why });
            }
        }
        Ok(())
    }
}

fn ambiguous(reference: &Reference, splits: &[&Split]) -> ConfigError {
    let names: Vec<String> = splits.iter().map(|split| split.name.to_string()).collect();
    ConfigError::Hub(format!(
        "`{reference}` may be any of {}: write one of these",
        names.join(", ")
    ))
}

// === impl Split ===

impl Split {
    /// Its shards, sorted by name.
    ///
    /// # Errors
    /// The folder cannot be read.
    pub fn shards(&self) -> Result<Vec<PathBuf>, ConfigError> {
        let files = entries(&self.folder)?.into_iter();
        let shards = files.filter(|(name, path)| name.ends_with(SHARD_ENDING) && path.is_file());
        let mut shards: Vec<PathBuf> = shards.map(|(_, path)| path).collect();
        shards.sort_unstable();
        Ok(shards)
    }

    /// The pattern of its shards, for a storage node.
    ///
    /// # Errors
    /// There are no shards, or the folder's name would be a pattern itself.
    pub fn pattern(&self) -> Result<String, ConfigError> {
        let folder = self.folder.display().to_string();
        if folder.contains(PATTERN_SIGNS) {
            return Err(ConfigError::Hub(format!(
                "the hub's folder has signs of patterns in its name (`{folder}`): reach it by \
                 another path, such as a symbolic link"
            )));
        }
        if self.shards()?.is_empty() {
            return Err(ConfigError::Hub(format!(
                "dataset `{}` has no shards yet: put some into `{folder}`",
                self.name
            )));
        }
        Ok(format!("{folder}/*{SHARD_ENDING}"))
    }
}

/// What lies in a folder, without hidden files, by names that are text.
fn entries(folder: &Path) -> Result<Vec<(String, PathBuf)>, ConfigError> {
    let fault = |error| {
        let folder = folder.display();
        ConfigError::Hub(format!("cannot read folder `{folder}` of the hub: {error}"))
    };
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            found.push((name, entry.path()));
        }
    }
    Ok(found)
}
