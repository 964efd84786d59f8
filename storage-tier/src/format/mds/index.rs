//! `index.json`: which shards a folder has, and what their columns are.

use std::sync::Arc;

use headwater_core::manifest::SHARD_SAMPLES_MAX;
use serde::Deserialize;

use super::column::Column;
use crate::StorageError;
use crate::format::arrays::no_such;
use crate::source::{Place, Stat, Version};

/// Bytes of the file, at most.
const INDEX_BYTES_MAX: u64 = 256 << 20;

/// A folder and its shards.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// The file itself, and its version.
    pub(super) place: Place,
    pub(super) version: Version,
    /// The folder's name.
    pub(super) folder: String,
    pub(super) shards: Arc<[Shard]>,
}

#[derive(Debug, Deserialize)]
struct Written {
    version: u32,
    shards: Vec<Shard>,
}

/// A shard as the file has it.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Shard {
    format: String,
    version: u32,
    pub(super) column_names: Vec<String>,
    pub(super) column_encodings: Vec<String>,
    pub(super) column_sizes: Vec<Option<u32>>,
    pub(super) compression: Option<String>,
    pub(super) raw_data: File,
    pub(super) zip_data: Option<File>,
    pub(super) samples: u32,
}

/// A file of a shard.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct File {
    pub(super) basename: String,
    pub(super) bytes: u64,
    pub(super) hashes: std::collections::BTreeMap<String, String>,
}

// === impl Index ===

impl Index {
    /// Reads the index of a folder; the place may be the folder or the file.
    ///
    /// # Errors
    /// A file that cannot be read or is not such an index; no shards in it.
    pub(super) fn read(place: &Place) -> Result<Self, StorageError> {
        if place.file_name().contains(".mds") {
            let reason = "it is one shard of MDS: name its folder, or the index.json beside it";
            return Err(StorageError::Unserved { name: place.name(), reason: reason.to_owned() });
        }
        let inner = match place.stat()? {
            Stat::Folder => place.join("index.json"),
            Stat::Object(_) => place.clone(),
        };
        let folder = inner.path.parent().and_then(std::path::Path::file_name).unwrap_or_default();
        let folder = folder.to_string_lossy().into_owned();
        let object = inner.open()?;
        let broken = |place: &str, fault: &str| StorageError::broken(object.name(), place, fault);
        if object.bytes() > INDEX_BYTES_MAX {
            return Err(broken("its size", "it is over the limit of 256 MiB"));
        }
        let bytes = object.read(0..object.bytes())?;
        object.check_unchanged()?;
        let written: Written = serde_json::from_slice(&bytes)
            .map_err(|error| broken("index.json", &error.to_string()))?;
        if written.version != 2 {
            return Err(StorageError::Unserved {
                name: object.name(),
                reason: format!("version {} of MDS is not known, only 2", written.version),
            });
        }
        for (number, shard) in written.shards.iter().enumerate() {
            shard.check().map_err(|fault| broken(&format!("shard {number}"), &fault))?;
        }
        if written.shards.iter().all(|shard| shard.samples == 0) {
            return Err(broken("its shards", "there are no samples"));
        }
        let shards = written.shards.into_iter().filter(|shard| shard.samples > 0).collect();
        Ok(Self { version: Version::of(&*object), place: inner, folder, shards })
    }
}

// === impl Shard ===

impl Shard {
    fn check(&self) -> Result<(), String> {
        if self.format != "mds" || self.version != 2 {
            return Err(format!("it is {} {}, not mds 2", self.format, self.version));
        }
        let columns = self.column_names.len();
        if columns == 0
            || columns != self.column_encodings.len()
            || columns != self.column_sizes.len()
        {
            return Err("its columns do not have a name, an encoding and a size each".to_owned());
        }
        if self.samples > SHARD_SAMPLES_MAX {
            return Err(format!("it has {} samples, limit {SHARD_SAMPLES_MAX}", self.samples));
        }
        let files = [Some(&self.raw_data), self.zip_data.as_ref()];
        if let Some(file) = files.into_iter().flatten().find(|file| !file.is_below()) {
            return Err(format!(
                "`{}` is not the name of a file beside it or below",
                file.basename
            ));
        }
        Ok(())
    }

    /// The file that is read.
    pub(super) fn file(&self) -> &File {
        self.zip_data.as_ref().unwrap_or(&self.raw_data)
    }

    /// What its keys begin with.
    pub(super) fn stem(&self) -> &str {
        let name = &self.raw_data.basename;
        name.strip_suffix(".mds").unwrap_or(name)
    }

    /// Its columns. `wanted` names those that become fields; none: all.
    ///
    /// # Errors
    /// An encoding that cannot be served; a size that is not the encoding's; a column that is wanted
    /// and not there.
    pub(super) fn columns(&self, wanted: &[String]) -> Result<Vec<Column>, String> {
        let names = &self.column_names;
        if let Some(missing) = wanted.iter().find(|wanted| !names.contains(wanted)) {
            return Err(no_such(missing, names.iter().map(String::as_str)));
        }
        let columns = names.iter().zip(&self.column_encodings).zip(&self.column_sizes);
        let column = |((name, encoding), &size): ((&String, &String), &Option<u32>)| {
            if wanted.is_empty() || wanted.contains(name) {
                Column::new(name, encoding, size)
            } else {
                Ok(Column::left_out(name, size))
            }
        };
        columns.map(column).collect()
    }
}

// === impl File ===

impl File {
    /// Whether it leads to a file beside the index or in a folder below, as `merge_index` of the package `streaming`
    /// writes it.
    fn is_below(&self) -> bool {
        self.basename.split('/').all(|part| !matches!(part, "" | "." | ".."))
    }
}
