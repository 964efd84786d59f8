//! The images of a folder, in order.

use std::path::Path;

use crate::StorageError;
use crate::format::FormatKind;
use crate::format::kind::MDS_INDEX;
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
        let (mut shards, mut table_below) = (None::<(String, u8)>, None);
        let is_table = |name: &str| USUAL_TABLES.contains(&name.rsplit('/').next().unwrap_or(name));
        // Any other file may be a link that leads nowhere.
        let needed =
            |path: &Path| path.to_str().is_none_or(|name| is_image(name) || is_table(name));
        for Listed { path, version } in place.list_needed(&needed)? {
            let within = path.strip_prefix(&place.path).unwrap_or(&path);
            let Some(name) = within.to_str() else {
                let reason = format!("`{}` is not UTF-8: rename it", within.display());
                return Err(StorageError::Unserved { name: place.name(), reason });
            };
            if is_image(name) {
                named.push((name.to_owned(), version));
                continue;
            }
            if name.contains('/') && is_table(name) {
                table_below.get_or_insert_with(|| name.to_owned());
            }
            // Shards rather than what lies beside them.
            let least = shards.as_ref().map_or(u8::MAX, |(_, beside)| *beside);
            if named.is_empty() && least > 0 {
                shards = shards_of(name).filter(|(_, beside)| *beside < least).or(shards);
            }
        }
        if named.is_empty() {
            let reason = match shards {
                Some((pattern, _)) => {
                    let example = place.join(&pattern).name();
                    format!(
                        "no image lies in that folder: name the shards in it, as in `{example}`"
                    )
                }
                None => "no image lies in that folder: name another".to_owned(),
            };
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

/// A pattern for the shards that a file is one of, or lies in, and how often such files lie beside others; `None` where
/// its name says nothing.
fn shards_of(name: &str) -> Option<(String, u8)> {
    let mut folder = String::new();
    for part in name.split('/') {
        if let Some((ending, kind)) = FormatKind::ending_of(part) {
            let pattern = if ending == MDS_INDEX { "" } else { &format!("*{ending}") };
            return Some((format!("{folder}{pattern}"), kind.lies_beside()));
        }
        folder.push_str(part);
        folder.push('/');
    }
    None
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

    fn folder(names: &[&str]) -> (tempfile::TempDir, Place) {
        let folder = tempfile::tempdir().unwrap();
        for name in names {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "x").unwrap();
        }
        let place = Place::of_file(folder.path());
        (folder, place)
    }

    #[test]
    fn a_folder_without_an_image_says_which_shards_lie_in_it() {
        for (names, pattern) in [
            (
                &["README.md", "a.csv", "data/train-0.parquet", "data/train-1.parquet"][..],
                "data/*.parquet`",
            ),
            (&["a.txt", "b.tar"], "*.tar`"),
            (&["a.txt"], "*.txt`"),
            (&["00000.parquet", "00000.tar", "00000_stats.json"], "*.tar`"),
            (&["set/train/index.json", "set/train/shard.00000.mds.zstd"], "set/train/`"),
            (&["x/y.zarr/0/zarr.json"], "x/*.zarr`"),
            (&["a.md"], "in that folder: name another"),
        ] {
            let (_folder, place) = folder(names);
            let error = Files::find(&place).unwrap_err().sentence();
            assert!(
                error.contains("no image lies in that folder") && error.contains(pattern),
                "{error}"
            );
        }
    }

    #[test]
    fn only_a_link_that_should_lead_to_an_image_or_a_table_may_not_lead_nowhere() {
        let (top, place) = folder(&["a/0.jpg", "b/1.jpg"]);
        let link =
            |name: &str| std::os::unix::fs::symlink("/nowhere", top.path().join(name)).unwrap();
        link("a/notes");
        link("README.md");
        assert_eq!(Files::find(&place).unwrap().len(), 2);
        for needed in ["a/2.jpg", "metadata.csv"] {
            link(needed);
            let error = Files::find(&place).unwrap_err().sentence();
            assert!(error.contains(needed), "{error}");
            std::fs::remove_file(top.path().join(needed)).unwrap();
        }
    }

    #[test]
    fn the_order_is_by_class_then_folder_then_name() {
        let mut names = ["a/c/1.jpg", "a/2.jpg", "a-b/0.jpg", "a/1.jpg", "a/c-d/0.jpg", "0.jpg"];
        names.sort_by(|a, b| order(a).cmp(&order(b)));
        assert_eq!(names, ["0.jpg", "a/1.jpg", "a/2.jpg", "a/c/1.jpg", "a/c-d/0.jpg", "a-b/0.jpg"]);
    }
}
