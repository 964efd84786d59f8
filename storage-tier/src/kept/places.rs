//! Where files lie that are kept of shards.

use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

use headwater_core::Digest;
use headwater_own_files::{is_anothers, may_replace};

use crate::source::Place;

const ANOTHERS: &str = "another user's file lies there";

/// Folders for what is kept of shards.
#[derive(Clone, Debug, Default)]
pub(crate) struct KeptPlaces {
    /// Where all of it lies; without one, beside the shards.
    pub(crate) folder: Option<PathBuf>,
    /// For shards whose own folder cannot be written to.
    pub(crate) fallback: Option<PathBuf>,
}

// === impl KeptPlaces ===

impl KeptPlaces {
    /// Where a file with this ending is looked for and written to, the first choice first.
    pub(super) fn of(&self, shard: &Place, ending: &str) -> Vec<PathBuf> {
        let name = if shard.source.is_local() {
            shard.path.as_os_str().as_encoded_bytes().to_vec()
        } else {
            shard.name().into_bytes()
        };
        let digest = Digest::of(&name);
        let in_folder = |folder: &Path| folder.join(format!("{digest}{ending}"));
        if let Some(folder) = &self.folder {
            return vec![in_folder(folder)];
        }
        let beside = shard.source.is_local().then(|| {
            let mut beside = shard.path.clone().into_os_string();
            beside.push(ending);
            PathBuf::from(beside)
        });
        let fallback = self.fallback.as_deref().map(in_folder);
        beside.into_iter().chain(fallback).collect()
    }

    /// Writes the file of a shard of `owner`'s to the first place that can be written to and where no other user's
    /// lies, unless that [gives way](may_replace); which one that was.
    ///
    /// # Errors
    /// The last place, and why it cannot be written to.
    pub(super) fn write(
        &self,
        shard: &Place,
        owner: Option<u32>,
        ending: &str,
        bytes: &[u8],
    ) -> Result<PathBuf, (PathBuf, io::Error)> {
        let mut last = None;
        for place in self.of(shard, ending) {
            let written = match stays(&place, owner) {
                true => Err(io::Error::new(io::ErrorKind::PermissionDenied, ANOTHERS)),
                false => write(&place, ending, bytes),
            };
            match written {
                Ok(()) => return Ok(place),
                Err(error) => last = Some((place, error)),
            }
        }
        let nowhere = || (shard.path.clone(), io::ErrorKind::NotFound.into());
        Err(last.unwrap_or_else(nowhere))
    }
}

/// Whether another user's file lies there that this user's may not replace.
pub(super) fn stays(place: &Path, owner: Option<u32>) -> bool {
    place.symlink_metadata().is_ok_and(|found| !may_replace(&found, owner))
}

/// Whether what lies there keeps out this file, and no other one of the folder.
pub(super) fn is_in_the_way(place: &Path) -> bool {
    place.symlink_metadata().is_ok_and(|found| found.is_dir() || is_anothers(&found))
}

/// Under another name first, so that nobody sees half of it.
fn write(place: &Path, ending: &str, bytes: &[u8]) -> io::Result<()> {
    let folder = place.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    // Others may read what one user has made.
    let permissions = fs::Permissions::from_mode(0o644);
    let mut file = tempfile::Builder::new()
        .prefix(".")
        .suffix(ending)
        .permissions(permissions)
        .tempfile_in(folder)?;
    file.write_all(bytes)?;
    file.persist(place)?;
    Ok(())
}
