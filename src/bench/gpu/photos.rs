//! Images with the bytes of their files.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Endings of files that are images.
const ENDINGS: [&str; 4] = ["jpg", "jpeg", "png", "webp"];

/// The images of a folder and of its shards, in an order that does not depend on the file system.
///
/// # Errors
/// The folder cannot be read, or holds none.
pub(super) fn read(folder: &Path) -> Result<Vec<Vec<u8>>> {
    let mut images = Vec::new();
    let entries = fs::read_dir(folder);
    for entry in entries.with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if is_image(&path) {
            images.push(fs::read(&path).with_context(|| path.display().to_string())?);
        } else if path.extension().is_some_and(|ending| ending == "tar") {
            of_shard(&path, &mut images).with_context(|| path.display().to_string())?;
        }
    }
    images.sort();
    ensure!(
        !images.is_empty(),
        "{} holds no images and no shards: name a folder with some",
        folder.display()
    );
    Ok(images)
}

fn of_shard(path: &Path, images: &mut Vec<Vec<u8>>) -> Result<()> {
    let mut archive = tar::Archive::new(File::open(path)?);
    for member in archive.entries()? {
        let mut member = member?;
        if is_image(&member.path()?) {
            let mut image = Vec::new();
            member.read_to_end(&mut image)?;
            images.push(image);
        }
    }
    Ok(())
}

fn is_image(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_of_shards_and_files_beside_them_are_read_and_nothing_else() {
        let shards = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/photos");
        let of_shards = read(&shards).unwrap();
        let folder = tempfile::tempdir().unwrap();
        fs::copy(shards.join("photos-000003.tar"), folder.path().join("some.tar")).unwrap();
        fs::write(folder.path().join("one.JPG"), b"image").unwrap();
        fs::write(folder.path().join("manifest.csv"), b"no image").unwrap();
        let found = read(folder.path()).unwrap();
        assert!(of_shards.len() > found.len() && found.len() > 1, "{}", found.len());
        assert!(found.contains(&b"image".to_vec()));
        let jpegs = found.iter().filter(|image| image.starts_with(&[0xff, 0xd8]));
        assert!(jpegs.count() >= found.len() - 2);
    }

    #[test]
    fn a_folder_without_images_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let error = read(folder.path()).unwrap_err().to_string();
        assert!(error.contains("holds no images and no shards"), "{error}");
    }
}
