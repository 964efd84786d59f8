//! The images of a folder, in order.

use crate::StorageError;
use crate::source::{Listed, Place, Version};

/// Endings of files that are images, as torchvision has them.
const ENDINGS: [&str; 9] = ["jpg", "jpeg", "png", "ppm", "bmp", "pgm", "tif", "tiff", "webp"];

/// Where labels are looked for when nothing is said.
pub(super) const USUAL_TABLES: [&str; 2] = ["metadata.csv", "metadata.jsonl"];

/// Names, sizes and versions of files, packed: a folder may have millions.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Names within the folder and versions, one after the other.
    text: String,
    files: Vec<File>,
    /// Whether they are all images of the folder.
    is_whole: bool,
    /// A usual file of labels in a folder below.
    table_below: Option<String>,
}

#[derive(Debug)]
struct File {
    /// Where its version starts, and where that ends.
    tag: u64,
    end: u64,
    bytes: u64,
}

// === impl Files ===

impl Files {
    /// Lists a folder.
    ///
    /// # Errors
    /// It cannot be listed, holds no image, or a name that is not UTF-8.
    pub(super) fn find(place: &Place) -> Result<Self, StorageError> {
        let mut named = Vec::new();
        let (mut tars, mut table_below) = (false, None);
        for Listed { path, version } in place.list()? {
            let within = path.strip_prefix(&place.path).unwrap_or(&path);
            let Some(name) = within.to_str() else {
                let reason = format!("`{}` is not UTF-8: rename it", within.display());
                return Err(StorageError::Unserved { name: place.name(), reason });
            };
            tars |= name.ends_with(".tar");
            if is_image(name) {
                named.push((name.to_owned(), version));
            } else if name.rsplit_once('/').is_some_and(|(_, file)| USUAL_TABLES.contains(&file)) {
                table_below.get_or_insert_with(|| name.to_owned());
            }
        }
        if named.is_empty() {
            let remedy = if tars { "name the shards in it, as in" } else { "name others, as in" };
            let example = place.join("*.tar").name();
            let reason = format!("no image lies in that folder: {remedy} `{example}`");
            return Err(StorageError::Unserved { name: place.name(), reason });
        }
        named.sort_by(|(a, _), (b, _)| order(a).cmp(&order(b)));
        Ok(Self { is_whole: true, table_below, ..Self::of(named) })
    }

    /// Whether they are all images of the folder, and not those of a list.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// A usual file of labels in a folder below, within which it names images.
    pub(super) fn table_below(&self) -> Option<&str> {
        self.table_below.as_deref()
    }

    /// Those, in this order.
    pub(super) fn of(named: Vec<(String, Version)>) -> Self {
        let mut files = Self::default();
        for (name, version) in named {
            files.push(&name, &version);
        }
        files
    }

    fn push(&mut self, name: &str, version: &Version) {
        self.text.push_str(name);
        let tag = self.text.len() as u64;
        self.text.push_str(&version.tag);
        let end = self.text.len() as u64;
        self.files.push(File { tag, end, bytes: version.bytes });
    }

    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Name within the folder, with `/` between its parts.
    pub(super) fn name(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.files[at - 1].end };
        &self.text[start as usize..self.files[at].tag as usize]
    }

    /// What tells its version, besides its size.
    pub(super) fn tag(&self, at: usize) -> &str {
        let file = &self.files[at];
        &self.text[file.tag as usize..file.end as usize]
    }

    /// Its size.
    pub(super) fn bytes(&self, at: usize) -> u64 {
        self.files[at].bytes
    }

    /// Its version.
    pub(super) fn version(&self, at: usize) -> Version {
        Version { bytes: self.bytes(at), tag: self.tag(at).to_owned() }
    }
}

/// Whether a file's name says that it is an image.
pub(crate) fn is_image(name: &str) -> bool {
    ENDINGS.contains(&&*ending(name))
}

/// What follows the last dot of a file's name, in small letters.
pub(super) fn ending(name: &str) -> String {
    let file = name.rsplit('/').next().unwrap_or(name);
    file.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase()).unwrap_or_default()
}

/// The class at the top, the folder, the name.
fn order(name: &str) -> (&str, &str, &str) {
    let (folder, file) = name.rsplit_once('/').unwrap_or(("", name));
    (folder.split('/').next().unwrap_or(""), folder, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_is_by_class_then_folder_then_name() {
        let mut names = ["a/c/1.jpg", "a/2.jpg", "a-b/0.jpg", "a/1.jpg", "a/c-d/0.jpg", "0.jpg"];
        names.sort_by(|a, b| order(a).cmp(&order(b)));
        assert_eq!(names, ["0.jpg", "a/1.jpg", "a/2.jpg", "a/c/1.jpg", "a/c-d/0.jpg", "a-b/0.jpg"]);
    }
}
