//! Images that are named one by one: the files of a list, or those that a glob fits.
//!
//! They are samples of the folder that all of them lie in, in the order in which they are named. Classes are the folders
//! in it, as where the folder itself is named.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::Folder;
use super::files::Files;
use crate::source::{Place, Version};
use crate::{DatasetConfig, StorageError};

/// A file by its place, and its version when it was found.
pub(crate) struct ListedImage {
    pub(crate) place: Place,
    pub(crate) version: Version,
}

/// Images of one source, one after the other in a list.
#[derive(Default)]
pub(crate) struct ListedImages(Vec<ListedImage>);

// === impl ListedImages ===

impl ListedImages {
    /// Takes an image, unless it is of another source than those before.
    pub(crate) fn push(&mut self, image: ListedImage) -> Result<(), ListedImage> {
        let root = |image: &ListedImage| image.place.source.name(Path::new(""));
        match self.0.last() {
            Some(last) if root(last) != root(&image) => Err(image),
            _ => {
                self.0.push(image);
                Ok(())
            }
        }
    }

    /// The folder of them all, with these images only; `None` without an image.
    ///
    /// # Errors
    /// An image that is named twice, a name that is not UTF-8, labels that do not fit.
    pub(crate) fn folder(
        &mut self,
        dataset: &DatasetConfig,
    ) -> Result<Option<(Place, Folder)>, StorageError> {
        let images = std::mem::take(&mut self.0);
        let Some(first) = images.first() else { return Ok(None) };
        let parent =
            |image: &ListedImage| image.place.path.parent().unwrap_or(Path::new("")).to_owned();
        let path = images.iter().skip(1).fold(parent(first), |folder, image| {
            if image.place.path.starts_with(&folder) {
                folder
            } else {
                common(&folder, &parent(image))
            }
        });
        let place = Place { source: first.place.source.clone(), path };
        let unserved = |image: &Place, reason: &str| StorageError::Unserved {
            name: image.name(),
            reason: reason.to_owned(),
        };
        let (mut seen, mut named) = (HashSet::new(), Vec::with_capacity(images.len()));
        for ListedImage { place: image, version } in &images {
            let within = image.path.strip_prefix(&place.path).unwrap_or(&image.path);
            let Some(name) = within.to_str() else {
                return Err(unserved(image, "its name is not UTF-8: rename it"));
            };
            if !seen.insert(name) {
                return Err(unserved(image, "it is named twice: name it once"));
            }
            named.push((name.to_owned(), version.clone()));
        }
        let folder = Folder::new(dataset);
        folder.keep(&place, Files::of(named))?;
        Ok(Some((place, folder)))
    }
}

/// The folder that both lie in.
fn common(one: &Path, other: &Path) -> PathBuf {
    let both = one.components().zip(other.components());
    both.take_while(|(a, b)| a == b).map(|(part, _)| part).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Stat;

    /// A list of files of this host, which hold their names.
    fn images(top: &Path, names: &[&str]) -> ListedImages {
        let mut images = ListedImages::default();
        for name in names {
            let path = top.join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, name).unwrap();
            let place = Place::of_file(&path);
            let Stat::Object(version) = place.stat().unwrap() else { panic!("a file") };
            assert!(images.push(ListedImage { place, version }).is_ok());
        }
        images
    }

    #[test]
    fn files_are_samples_of_the_folder_that_all_lie_in_as_they_are_named() {
        let top = tempfile::tempdir().unwrap();
        let dataset = DatasetConfig::default();
        let listed = |names: &[&str]| {
            let (place, folder) = images(top.path(), names).folder(&dataset).unwrap().unwrap();
            let listing = folder.listing(&place).unwrap();
            let index = listing.index(&place, 0).unwrap();
            let keys: Vec<String> =
                (0..index.samples()).map(|at| index.key(at).unwrap().to_owned()).collect();
            let inner = place.path.strip_prefix(top.path()).unwrap().display().to_string();
            (inner, keys, index.field_names().join(" "))
        };
        let strings =
            |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(
            listed(&["t/b/1.jpg", "t/a/2.jpg"]),
            ("t".into(), strings(&["b/1.jpg", "a/2.jpg"]), "jpg cls class".into())
        );
        assert_eq!(listed(&["t/b/9.jpg"]), ("t/b".into(), strings(&["9.jpg"]), "jpg".into()));
        // `t/b2` does not lie in `t/b`.
        assert_eq!(listed(&["t/b/1.jpg", "t/b2/1.jpg"]).0, "t");
    }

    #[test]
    fn an_image_that_is_named_twice_is_refused() {
        let top = tempfile::tempdir().unwrap();
        let error =
            images(top.path(), &["a.jpg", "b.jpg", "a.jpg"]).folder(&DatasetConfig::default());
        let error = error.unwrap_err().sentence();
        assert!(error.contains("a.jpg") && error.contains("named twice"), "{error}");
        assert!(ListedImages::default().folder(&DatasetConfig::default()).unwrap().is_none());
    }
}
