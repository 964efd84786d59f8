//! Which files the shards of a dataset are.

mod braces;
mod distant;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use glob::MatchOptions;
use headwater_storage_client::{ShardFile, ShardFileError};

use crate::format::is_image;
use crate::kept::{ENTRIES_ENDING, KEPT_ENDING, POSITIONS_ENDING};
use crate::source::{PYTHON, Place, PythonSource, SourceUrl, Sources, Version};
use crate::{FormatKind, StorageError};

pub(crate) use distant::find_distant;

/// Signs of a glob.
const SIGNS: [char; 3] = ['*', '?', '['];
/// Links of a folder that no folder lies in.
const FOLDER_LINKS: u64 = 2;
/// Folders within folders that are looked at: links may lead around.
const FOLDERS_DEEP: u32 = 8;
/// Endings of files that lie beside shards and are none.
const INDEX_ENDINGS: [&str; 4] = [".idx", KEPT_ENDING, ENTRIES_ENDING, POSITIONS_ENDING];

/// The shards' absolute paths: braces in the order in which they expand, globs sorted by name.
/// Files that are named must exist; that they are read is not tried here.
///
/// # Errors
/// A pattern that cannot be read, a glob without a file, a file that is not there.
pub fn find_shards(patterns: &[String]) -> Result<Vec<PathBuf>, StorageError> {
    let mut paths = Vec::new();
    for pattern in patterns {
        if let Some((scheme, _)) = pattern.split_once("://") {
            let fault = format!("`{scheme}` is not looked at here: name files of this host");
            return Err(StorageError::Pattern { pattern: pattern.clone(), fault });
        }
        find_local(pattern, &mut paths)?;
    }
    for path in &paths {
        let open_error = |source| ShardFileError::Open { path: path.clone(), source };
        ShardFile::check_kind(path, &std::fs::metadata(path).map_err(open_error)?)?;
    }
    Ok(paths)
}

/// A place that a pattern names, and its version where a listing said it.
#[derive(Clone, Debug)]
pub(crate) struct FoundPlace {
    pub(crate) place: Place,
    pub(crate) version: Option<Version>,
}

impl From<Place> for FoundPlace {
    fn from(place: Place) -> Self {
        Self { place, version: None }
    }
}

/// The places that patterns name, as [`find_shards`] orders them; folders too.
///
/// # Errors
/// As [`find_shards`]; a source that does not answer, or a place that may not be read.
pub(crate) fn find_places(
    patterns: &[String],
    sources: &Sources,
) -> Result<Vec<FoundPlace>, StorageError> {
    let mut places: Vec<FoundPlace> = Vec::new();
    for pattern in patterns {
        if let Some(class) = pattern.strip_prefix(PYTHON) {
            places.push(Place { source: Arc::new(PythonSource), path: class.into() }.into());
            continue;
        }
        if SourceUrl::is_one(pattern) {
            find_distant(pattern, sources.distant(), &mut places)?;
            continue;
        }
        let mut paths = Vec::new();
        find_local(pattern, &mut paths)?;
        for path in paths {
            let place = Place { source: sources.local(), path };
            let version = place.stat()?.version();
            places.push(FoundPlace { place, version });
        }
    }
    Ok(places)
}

/// What the folders and globs among patterns have on this host now: other texts once files come or go. Only names are
/// looked at, and when each folder within a folder has changed. What cannot be looked at is left out.
#[must_use]
pub fn listed(patterns: &[String]) -> Vec<String> {
    let mut all = Vec::new();
    let local = patterns.iter().filter(|pattern| !SourceUrl::is_one(pattern));
    for name in local.filter_map(|pattern| braces::expand(pattern).ok()).flatten() {
        let mut paths = Vec::new();
        if name.contains(SIGNS) {
            let _ = find_glob(&name, &mut paths);
            all.extend(paths.iter().map(|path| path.display().to_string()));
        } else if !is_file(&name) {
            paths.push(name.into());
        }
        for folder in paths.iter().filter(|path| path.is_dir()) {
            list_folder(folder, FOLDERS_DEEP, &mut all);
        }
    }
    all
}

/// Whether a name looks like that of a tar or an image. There may be many, and none is a folder.
fn is_file(name: &str) -> bool {
    FormatKind::of_name(name) == Some(FormatKind::Tar) || is_image(name)
}

fn list_folder(folder: &Path, deep: u32, all: &mut Vec<String>) {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut entries: Vec<_> = entries.map(|entry| (entry.file_name(), entry)).collect();
    entries.sort_by(|(name, _), (other, _)| name.cmp(other));
    for (name, entry) in entries {
        let name = name.to_string_lossy();
        if name.starts_with('.') || INDEX_ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            continue;
        }
        // Most are files, and not looked at.
        let may_be = entry.file_type().is_ok_and(|kind| kind.is_dir() || kind.is_symlink());
        let inner = may_be.then(|| std::fs::metadata(entry.path()).ok()).flatten();
        let Some(inner) = inner.filter(std::fs::Metadata::is_dir) else {
            all.push(name.into_owned());
            continue;
        };
        all.push(format!("{name} {}.{}", inner.mtime(), inner.mtime_nsec()));
        // A folder counts itself, and each that lies in it; file systems that do not count say 1.
        if inner.nlink() != FOLDER_LINKS && deep > 0 {
            list_folder(&entry.path(), deep - 1, all);
        }
    }
}

fn find_local(pattern: &str, paths: &mut Vec<PathBuf>) -> Result<(), StorageError> {
    let fault = |fault| StorageError::Pattern { pattern: pattern.to_owned(), fault };
    for name in braces::expand(pattern).map_err(fault)? {
        if name.contains(SIGNS) {
            find_glob(&name, paths)?;
        } else {
            paths.push(existing(Path::new(&name))?);
        }
    }
    Ok(())
}

fn find_glob(pattern: &str, paths: &mut Vec<PathBuf>) -> Result<(), StorageError> {
    let options = MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: true,
        ..MatchOptions::default()
    };
    let found = glob::glob_with(pattern, options).map_err(|error| StorageError::Pattern {
        pattern: pattern.to_owned(),
        fault: format!("{error}: write brackets and stars as a shell does"),
    })?;
    let mut names = Vec::new();
    for path in found {
        let path = path.map_err(|error| StorageError::Pattern {
            pattern: pattern.to_owned(),
            fault: format!("{error}: allow the folder to be read"),
        })?;
        let name = path.to_string_lossy();
        if !INDEX_ENDINGS.iter().any(|ending| name.ends_with(ending)) {
            names.push(existing(&path)?);
        }
    }
    if names.is_empty() {
        return Err(StorageError::NoMatch { pattern: pattern.to_owned() });
    }
    names.sort_unstable();
    paths.append(&mut names);
    Ok(())
}

fn existing(path: &Path) -> Result<PathBuf, StorageError> {
    let open_error = |source| ShardFileError::Open { path: path.to_owned(), source };
    std::fs::metadata(path).map_err(open_error)?;
    Ok(std::path::absolute(path).map_err(open_error)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_has_grown_is_listed_otherwise_and_one_with_an_index_is_not() {
        let top = tempfile::tempdir().expect("a folder");
        let class = top.path().join("train/n01440764");
        std::fs::create_dir_all(&class).expect("a folder");
        let patterns = [top.path().display().to_string(), format!("{}/*/*", top.path().display())];
        let before = listed(&patterns);
        std::fs::write(top.path().join("train.hwidx"), "").expect("a file");
        std::fs::write(top.path().join("train.1f.hwfilter"), "").expect("a file");
        std::fs::write(top.path().join(".draft"), "").expect("a file");
        assert_eq!(listed(&patterns), before);
        std::fs::write(class.join("a.jpg"), "").expect("a file");
        let grown = listed(&patterns);
        assert_ne!(grown, before);
        let braces = [format!("{}/{{train,val}}", top.path().display())];
        let before = listed(&braces);
        std::fs::write(class.join("b.jpg"), "").expect("a file");
        assert_ne!(listed(&braces), before);
        std::fs::write(top.path().join("train/b.tar"), "").expect("a file");
        assert_ne!(listed(&patterns), grown);
        assert_eq!(listed(&["s3://bucket/*.tar".to_owned(), "none/*".to_owned()]), [""; 0]);
    }

    fn folder(names: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            std::fs::write(folder.path().join(name), b"").unwrap();
        }
        folder
    }

    fn find(folder: &tempfile::TempDir, pattern: &str) -> Result<Vec<String>, String> {
        let pattern = folder.path().join(pattern).display().to_string();
        let name = |path: PathBuf| path.file_name().unwrap().to_str().unwrap().to_owned();
        find_shards(&[pattern])
            .map(|paths| paths.into_iter().map(name).collect())
            .map_err(|error| error.sentence())
    }

    #[test]
    fn braces_keep_their_order_and_globs_are_sorted() {
        let folder = folder(&["b-1.tar", "b-0.tar", "a-0.tar", "a-1.tar", "a-10.tar"]);
        assert_eq!(
            find(&folder, "{b,a}-{1,0}.tar").unwrap(),
            ["b-1.tar", "b-0.tar", "a-1.tar", "a-0.tar"]
        );
        assert_eq!(find(&folder, "*-?.tar").unwrap(), ["a-0.tar", "a-1.tar", "b-0.tar", "b-1.tar"]);
        assert_eq!(
            find(&folder, "{b,a}-*.tar").unwrap(),
            ["b-0.tar", "b-1.tar", "a-0.tar", "a-1.tar", "a-10.tar"]
        );
    }

    #[test]
    fn indices_and_hidden_files_are_no_shards() {
        let beside = ["a.idx", "a.tar.idx", "a.tar.hwidx", "a.tar.hwentries", "a.tar.1f.hwfilter"];
        let folder = folder(&[&beside[..], &["a.tar", ".b.tar"]].concat());
        assert_eq!(find(&folder, "*").unwrap(), ["a.tar"]);
    }

    #[test]
    fn what_is_missing_is_named() {
        let folder = folder(&["a-0.tar"]);
        let error = find(&folder, "a-{0..1}.tar").unwrap_err();
        assert!(error.contains("a-1.tar") && error.contains("check that it exists"), "{error}");
        let error = find(&folder, "c-*.tar").unwrap_err();
        assert!(error.contains("c-*.tar") && error.contains("no file fits"), "{error}");
        let error = find_shards(&["s3://bucket/a.tar".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("s3://bucket/a.tar"), "{error}");
        let error = find(&folder, "a-[.tar").unwrap_err();
        assert!(error.contains("a-[.tar"), "{error}");
    }
}
