//! The images of a folder: `CLASS/IMAGE`, or only images without classes.

use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use headwater_core::{Digest, Digester};
use headwater_storage_client::SAMPLE_MAX_BYTES;

/// Endings of images and the fields that they become.
const ENDINGS: [(&str, &str); 11] = [
    ("jpg", "jpg"),
    ("jpeg", "jpg"),
    ("png", "png"),
    ("webp", "webp"),
    ("gif", "gif"),
    ("bmp", "bmp"),
    ("tif", "tif"),
    ("tiff", "tif"),
    ("ppm", "ppm"),
    ("pgm", "pgm"),
    ("pbm", "pbm"),
];
/// Folders in folders; links may go round in circles.
const DEPTH_MAX: usize = 16;
/// So that a name, with its field, fits a tar header as it is: 100 bytes.
const KEY_BYTES_MAX: usize = 80;
const DIGEST_DIGITS: usize = 16;

/// What a folder has, in order.
#[derive(Debug, Default)]
pub(crate) struct Images {
    pub(crate) images: Vec<Image>,
    /// Names of the classes; the position is the label. Empty: there are no labels.
    pub(crate) classes: Vec<String>,
    /// Files that are no images by their names.
    pub(crate) left_out: Vec<PathBuf>,
}

/// One image.
#[derive(Clone, Debug)]
pub(crate) struct Image {
    pub(crate) path: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) key: String,
    pub(crate) field: &'static str,
    /// Place of its class.
    pub(crate) label: Option<usize>,
}

// === impl Images ===

impl Images {
    /// Looks through a folder. `classes` gives the labels of another split; by default they are
    /// the folders, sorted.
    pub(crate) fn find(folder: &Path, classes: Option<Vec<String>>) -> Result<Self> {
        let (mut class_folders, mut files) = (Vec::new(), Vec::new());
        for path in entries(folder)? {
            if path.is_dir() { class_folders.push(path) } else { files.push(path) }
        }
        let mut found = Self::default();
        if class_folders.is_empty() && classes.is_none() {
            files.into_iter().try_for_each(|path| found.add(path, folder, None))?;
            return found.checked(folder);
        }
        if let Some(image) = files.iter().find(|path| field(path).is_some()) {
            bail!(
                "`{}` lies beside the folders of classes: put it into one of them",
                image.display()
            );
        }
        found.left_out = files;
        let names = class_folders.iter().map(|path| text_name(path)).collect::<Result<Vec<_>>>()?;
        found.classes = classes.unwrap_or_else(|| names.clone());
        for (path, name) in class_folders.iter().zip(names) {
            let Some(label) = found.classes.iter().position(|class| *class == name) else {
                bail!("class `{name}` of `{}` is not among those given", folder.display());
            };
            found.walk(path, folder, label, 1)?;
        }
        found.checked(folder)
    }

    /// Shuffles the images. The order depends only on the seed.
    pub(crate) fn shuffle(&mut self, seed: u64) {
        let place = |image: &Image| -> Digest {
            Digester::new("headwater pack order 1")
                .number(seed)
                .bytes(image.key.as_bytes())
                .finish()
        };
        self.images.sort_by_cached_key(place);
    }

    fn walk(&mut self, folder: &Path, top: &Path, label: usize, depth: usize) -> Result<()> {
        if depth > DEPTH_MAX {
            bail!(
                "`{}` is over {DEPTH_MAX} folders deep: is it a link in a circle",
                folder.display()
            );
        }
        for path in entries(folder)? {
            if path.is_dir() {
                self.walk(&path, top, label, depth + 1)?;
            } else {
                self.add(path, top, Some(label))?;
            }
        }
        Ok(())
    }

    fn add(&mut self, path: PathBuf, top: &Path, label: Option<usize>) -> Result<()> {
        let Some(field) = field(&path) else {
            self.left_out.push(path);
            return Ok(());
        };
        let name = path.display();
        let metadata =
            fs::metadata(&path).with_context(|| format!("cannot read image `{name}`"))?;
        let bytes = metadata.len();
        if bytes == 0 || bytes > SAMPLE_MAX_BYTES || !metadata.is_file() {
            bail!(
                "`{name}` is no image: {bytes} bytes, must be 1 to {SAMPLE_MAX_BYTES}; remove or \
                 replace it"
            );
        }
        let key = key(path.strip_prefix(top).unwrap_or(&path));
        self.images.push(Image { path, bytes, key, field, label });
        Ok(())
    }

    /// Gives each image a unique key.
    fn checked(mut self, folder: &Path) -> Result<Self> {
        if self.images.is_empty() {
            let folder = folder.display();
            bail!(
                "no images in `{folder}`: they are files CLASS/NAME.jpg, .png, .webp, .gif, .bmp, .tif, .ppm"
            );
        }
        let mut used = HashSet::new();
        for image in &mut self.images {
            let base = image.key.clone();
            let mut number = 2;
            while !used.insert(image.key.clone()) {
                image.key = format!("{base}-{number}");
                number += 1;
            }
        }
        Ok(self)
    }
}

/// What a folder has, sorted, without hidden files.
fn entries(folder: &Path) -> Result<Vec<PathBuf>> {
    let what = || format!("cannot read folder `{}`", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).with_context(what)? {
        let entry = entry.with_context(what)?;
        if !entry.file_name().as_encoded_bytes().starts_with(b".") {
            paths.push(entry.path());
        }
    }
    paths.sort_unstable();
    Ok(paths)
}

fn text_name(path: &Path) -> Result<String> {
    match path.file_name().and_then(|name| name.to_str()) {
        Some(name) => Ok(name.to_owned()),
        None => bail!("the name of folder `{}` is not UTF-8: rename it", path.display()),
    }
}

fn field(path: &Path) -> Option<&'static str> {
    let ending = path.extension()?.to_str()?.to_ascii_lowercase();
    ENDINGS.iter().find(|(known, _)| *known == ending).map(|(_, field)| *field)
}

/// The path as a key: letters, digits, `-`, `_` and `/`. A dot would begin the field, and a space
/// ends a word of DALI's index.
fn key(path: &Path) -> String {
    let stem = path.with_extension("");
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_/".contains(c) { c } else { '_' };
    let mut key: String = stem.to_string_lossy().chars().map(plain).collect();
    if key.len() > KEY_BYTES_MAX {
        let digest = Digest::of(stem.as_os_str().as_encoded_bytes()).to_string();
        key.truncate(KEY_BYTES_MAX - DIGEST_DIGITS - 1);
        key = format!("{key}-{}", &digest[..DIGEST_DIGITS]);
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(files: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for file in files {
            let path = folder.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, b"x").unwrap();
        }
        folder
    }

    fn keys(found: &Images) -> Vec<(&str, &str, Option<usize>)> {
        found.images.iter().map(|i| (i.key.as_str(), i.field, i.label)).collect()
    }

    #[test]
    fn labels_are_places_of_sorted_classes_and_keys_are_safe_and_unique() {
        let files = [
            "dog/b.JPEG",
            "dog/a.v2.png",
            "cat/x y.jpg",
            "cat/x_y.webp",
            "cat/deep/z.jpg",
            "cat/.hidden.jpg",
            "cat/notes.txt",
            "README",
        ];
        let folder = folder(&files);
        fs::create_dir(folder.path().join("bird")).unwrap();
        let found = Images::find(folder.path(), None).unwrap();
        assert_eq!(found.classes, ["bird", "cat", "dog"]);
        let expected = [
            ("cat/deep/z", "jpg", Some(1)),
            ("cat/x_y", "jpg", Some(1)),
            ("cat/x_y-2", "webp", Some(1)),
            ("dog/a_v2", "png", Some(2)),
            ("dog/b", "jpg", Some(2)),
        ];
        assert_eq!(keys(&found), expected);
        assert_eq!(found.left_out.len(), 2);
    }

    #[test]
    fn the_classes_of_another_split_are_kept_to() {
        let folder = folder(&["dog/a.jpg"]);
        let classes = |names: &[&str]| Some(names.iter().map(|n| (*n).to_owned()).collect());
        let found = Images::find(folder.path(), classes(&["cat", "dog"])).unwrap();
        assert_eq!(keys(&found), [("dog/a", "jpg", Some(1))]);
        let error = Images::find(folder.path(), classes(&["cat"])).unwrap_err().to_string();
        assert!(error.contains("`dog`"), "{error}");
    }

    #[test]
    fn images_without_folders_have_no_labels_and_both_are_refused() {
        let flat = folder(&["b.jpg", "a.jpg"]);
        let found = Images::find(flat.path(), None).unwrap();
        assert_eq!(keys(&found), [("a", "jpg", None), ("b", "jpg", None)]);
        let mixed = folder(&["b.jpg", "cat/a.jpg"]);
        assert!(Images::find(mixed.path(), None).unwrap_err().to_string().contains("b.jpg"));
        assert!(Images::find(folder(&["a/b.txt"]).path(), None).is_err());
    }

    #[test]
    fn a_key_fits_a_tar_header() {
        let long = format!("{}/{}.jpg", "c".repeat(70), "é".repeat(70));
        let key = key(Path::new(&long));
        assert_eq!(key.len(), KEY_BYTES_MAX);
        assert!(key.starts_with("cccc") && key.is_ascii());
    }

    #[test]
    fn a_shuffled_order_follows_from_the_seed() {
        let names: Vec<String> = (0..50).map(|i| format!("c/{i:02}.jpg")).collect();
        let folder = folder(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let shuffled = |seed| {
            let mut found = Images::find(folder.path(), None).unwrap();
            found.shuffle(seed);
            found.images.into_iter().map(|image| image.key).collect::<Vec<_>>()
        };
        assert_eq!(shuffled(1), shuffled(1));
        assert_ne!(shuffled(1), shuffled(2));
        assert!(!shuffled(1).is_sorted());
    }
}
