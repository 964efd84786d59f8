//! Arrays of a group, and what their metadata are now.

use std::collections::VecDeque;

use bytes::Bytes;
use headwater_core::Digester;
use headwater_storage_client::ObjectError;

use super::metadata::{ArrayMetadata, Fault};
use super::{V2_ARRAY, V2_GROUP, V3, below, unserved};
use crate::StorageError;
use crate::source::{Listed, Place, Stat, Version};

/// Largest file of metadata.
const METADATA_BYTES_MAX: u64 = 64 << 20;

/// What was read of files of metadata.
#[derive(Clone)]
pub(super) struct Metadata {
    /// Their names below the place, with their versions.
    pub(super) files: Vec<(String, Version)>,
    /// Bytes and versions of all of them.
    pub(super) contents: Digester,
    pub(super) versions: Digester,
}

/// What a folder is.
pub(super) enum Kind {
    Array(ArrayMetadata),
    Group,
    /// None of Zarr's.
    Other,
}

/// What a folder in a group is.
enum Look {
    Array,
    Group,
    Other,
}

/// Paths of a group's arrays. Without `is_deep`, those in groups within it only where there are no others.
/// Each folder in a group is looked at once, however many objects lie in it.
pub(super) fn arrays_below(
    place: &Place,
    listed: Option<&[Listed]>,
    is_deep: bool,
) -> Result<Vec<String>, StorageError> {
    let fresh = if listed.is_none() { place.list()? } else { Vec::new() };
    let listed = listed.unwrap_or(&fresh);
    let (mut names, mut groups) = (Vec::new(), VecDeque::from([String::new()]));
    while let Some(group) = groups.pop_front() {
        let (folder, mut last) = (place.join(&group), None);
        // Objects of one folder follow each other. Names that begin with a dot are not listed: `.zarray` is asked for.
        for path in listed.iter().filter_map(|listed| listed.path.strip_prefix(&folder.path).ok()) {
            let mut parts = path.iter();
            let (Some(name), Some(_)) = (parts.next(), parts.next()) else { continue };
            if last != Some(name) {
                last = Some(name);
                let Some(name) = name.to_str() else { continue };
                match Look::at(&folder.join(name))? {
                    Look::Array => names.push(below(&group, name)),
                    Look::Group => groups.push_back(below(&group, name)),
                    Look::Other => {}
                }
            }
        }
        if group.is_empty() && !names.is_empty() && !is_deep {
            break;
        }
    }
    names.sort();
    Ok(names)
}

// === impl Look ===

impl Look {
    fn at(folder: &Place) -> Result<Self, StorageError> {
        if folder.join(V2_ARRAY).open_if_there()?.is_some() {
            return Ok(Self::Array);
        }
        let Some(object) = folder.join(V3).open_if_there()? else {
            let group = folder.join(V2_GROUP).open_if_there()?;
            return Ok(if group.is_some() { Self::Group } else { Self::Other });
        };
        let bytes = object.read(0..object.bytes().min(METADATA_BYTES_MAX))?;
        // An array that is not served is met again, and named, where it is read.
        Ok(if ArrayMetadata::v3(&bytes) == Ok(None) { Self::Group } else { Self::Array })
    }
}

// === impl Metadata ===

impl Default for Metadata {
    fn default() -> Self {
        let contents = Digester::new("headwater zarr 1");
        let versions = Digester::new("headwater zarr's versions 1");
        Self { files: Vec::new(), contents, versions }
    }
}

impl Metadata {
    /// What a folder below a place is.
    pub(super) fn read(&mut self, place: &Place, folder: &str) -> Result<Kind, StorageError> {
        let kind = match self.file(place, folder, V3)? {
            Some(json) => {
                ArrayMetadata::v3(&json).map(|array| array.map_or(Kind::Group, Kind::Array))
            }
            None => match self.file(place, folder, V2_ARRAY)? {
                Some(json) => ArrayMetadata::v2(&json).map(Kind::Array),
                None => match self.file(place, folder, V2_GROUP)? {
                    Some(_) => Ok(Kind::Group),
                    None => Ok(Kind::Other),
                },
            },
        };
        kind.map_err(|fault| match fault {
            Fault::Unserved(reason) => unserved(place, folder, &reason),
            Fault::Broken(fault) => {
                let place_of_fault = format!("array `{}`", folder.escape_debug());
                StorageError::Broken { name: place.name(), place: place_of_fault, fault }
            }
        })
    }

    fn file(
        &mut self,
        place: &Place,
        folder: &str,
        name: &str,
    ) -> Result<Option<Bytes>, StorageError> {
        let name = below(folder, name);
        let Some(object) = place.join(&name).open_if_there()? else { return Ok(None) };
        if object.bytes() > METADATA_BYTES_MAX {
            return Err(unserved(place, folder, "its metadata is larger than 64 MiB"));
        }
        let bytes = object.read(0..object.bytes())?;
        object.check_unchanged()?;
        let version = Version::of(&*object);
        self.contents.bytes(&bytes);
        self.versions.bytes(&version.digest().to_bytes());
        self.files.push((name, version));
        Ok(Some(bytes))
    }

    /// Whether all files are still of these versions.
    pub(super) fn is_still(&self, place: &Place) -> Result<bool, StorageError> {
        for (name, version) in &self.files {
            match place.join(name).stat() {
                Ok(Stat::Object(now)) if now == *version => {}
                Ok(_) | Err(ObjectError::NotFound { .. }) => return Ok(false),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}
