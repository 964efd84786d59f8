//! Patterns of URLs: braces as for files, globs by listing the folder before the first sign.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};

use super::{FoundPlace, INDEX_ENDINGS, braces};
use crate::StorageError;
use crate::source::{Listed, Place, Registry, SUMS_FILE, Version};

const SIGNS: [char; 3] = ['*', '?', '['];

/// Finds the places of one pattern. Those that are named are not looked for: whoever opens them does.
///
/// # Errors
/// A pattern that cannot be read, a source that does not list, a glob that fits nothing.
pub(crate) fn find_distant(
    pattern: &str,
    registry: &Registry,
    places: &mut Vec<FoundPlace>,
) -> Result<(), StorageError> {
    let fault = |fault| StorageError::Pattern { pattern: pattern.to_owned(), fault };
    let mut listings = HashMap::new();
    for name in braces::expand(pattern).map_err(fault)? {
        let place = registry
            .place(&name)
            .map_err(|why| StorageError::Pattern { pattern: name.clone(), fault: why })?;
        let key = place.path.to_string_lossy().into_owned();
        if !key.contains(SIGNS) {
            places.push(place.into());
            continue;
        }
        let glob = Pattern::new(&key)
            .map_err(|error| fault(format!("{error}: write brackets and stars as a shell does")))?;
        let found = matching(&glob, &place, &mut listings)?;
        if found.is_empty() {
            return Err(StorageError::NoMatch { pattern: name });
        }
        let at = |(path, version)| FoundPlace {
            place: Place { source: place.source.clone(), path },
            version,
        };
        places.extend(found.into_iter().map(at));
    }
    Ok(())
}

/// Objects and folders that a glob fits, in the order of their names, with the objects' versions.
fn matching(
    glob: &Pattern,
    place: &Place,
    listings: &mut HashMap<(String, PathBuf), Vec<Listed>>,
) -> Result<BTreeMap<PathBuf, Option<Version>>, StorageError> {
    let folder = folder_before_signs(glob.as_str());
    let root = place.source.name(Path::new(""));
    let listed = match listings.entry((root, folder.clone())) {
        std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
        std::collections::hash_map::Entry::Vacant(new) => new.insert(place.source.list(&folder)?),
    };
    let options = MatchOptions {
        require_literal_separator: true,
        require_literal_leading_dot: true,
        ..MatchOptions::default()
    };
    let mut found = BTreeMap::new();
    for object in listed.iter() {
        // An object, or a folder that it lies in.
        let fits = |path: &&Path| glob.matches_path_with(path, options);
        let Some(path) = object.path.ancestors().find(fits) else { continue };
        let name = path.to_string_lossy();
        let beside = INDEX_ENDINGS.iter().any(|ending| name.ends_with(ending))
            || path.file_name().is_some_and(|name| name == SUMS_FILE);
        if !beside {
            // A folder has none.
            let version = (path == object.path).then(|| object.version.clone());
            found.insert(path.to_owned(), version);
        }
    }
    Ok(found)
}

/// The folder that all names that fit a glob lie in.
fn folder_before_signs(glob: &str) -> PathBuf {
    let constant = glob.split(SIGNS).next().unwrap_or_default();
    constant.rsplit_once('/').map_or("", |(folder, _)| folder).into()
}
