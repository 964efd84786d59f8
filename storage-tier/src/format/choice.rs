//! Which format the files of a dataset are of.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

#[cfg(feature = "format-hdf5")]
use super::Hdf5;
#[cfg(feature = "format-mds")]
use super::Mds;
#[cfg(feature = "format-parquet")]
use super::Parquet;
#[cfg(feature = "format-tfrecord")]
use super::TfRecord;
#[cfg(feature = "format-zarr")]
use super::Zarr;
use super::{Folder, Format, LineKind, Lines, Npy, Python, Tar, Tokens};
use crate::kept::KeptIndices;
use crate::source::{PYTHON, Place, Stat};
use crate::{DatasetConfig, StorageConfig, StorageError};

/// A format by name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FormatKind {
    /// By the ending of each file's name, and for folders by what is in them.
    #[default]
    Auto,
    /// WebDataset tars.
    Tar,
    /// Folders of images, and images that are named one by one.
    Folder,
    /// Parquet, as the Hugging Face hub lays out images.
    Parquet,
    /// TFRecord of `tf.train.Example`.
    TfRecord,
    /// Folders of Mosaic MDS, or their index.json.
    Mds,
    /// Arrays of NumPy: `.npy`, `.npz`.
    Npy,
    /// Arrays of HDF5 and NetCDF-4.
    Hdf5,
    /// Folders of Zarr.
    Zarr,
    /// Tokens of Megatron: a `.bin` file with its `.idx` file.
    Tokens,
    /// Lines of values between commas.
    Csv,
    /// Lines of values between tabs.
    Tsv,
    /// Lines of JSON.
    Jsonl,
    /// Lines of text.
    Text,
    /// Map-style datasets of PyTorch: classes of a module.
    Python,
}

impl FormatKind {
    /// The format that the ending of a name stands for.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase();
        let ends = |(ending, _): &&(&str, Self)| name.ends_with(ending);
        ENDINGS.iter().find(ends).map(|(_, kind)| *kind)
    }
}

impl fmt::Display for FormatKind {
    /// As the configuration has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}

/// Endings of file names, and the format that each stands for.
const ENDINGS: [(&str, FormatKind); 27] = [
    (".tar", FormatKind::Tar),
    (".parquet", FormatKind::Parquet),
    (".tfrecord", FormatKind::TfRecord),
    (".tfrecords", FormatKind::TfRecord),
    (".tfrec", FormatKind::TfRecord),
    (".tfrecord.gz", FormatKind::TfRecord),
    (".tfrecords.gz", FormatKind::TfRecord),
    (".mds", FormatKind::Mds),
    (MDS_INDEX, FormatKind::Mds),
    (".npy", FormatKind::Npy),
    (".npz", FormatKind::Npy),
    (".h5", FormatKind::Hdf5),
    (".hdf5", FormatKind::Hdf5),
    (".nc", FormatKind::Hdf5),
    (".nc4", FormatKind::Hdf5),
    (".zarr", FormatKind::Zarr),
    (".bin", FormatKind::Tokens),
    (".csv", FormatKind::Csv),
    (".csv.gz", FormatKind::Csv),
    (".tsv", FormatKind::Tsv),
    (".tsv.gz", FormatKind::Tsv),
    (".jsonl", FormatKind::Jsonl),
    (".jsonl.gz", FormatKind::Jsonl),
    (".ndjson", FormatKind::Jsonl),
    (".ndjson.gz", FormatKind::Jsonl),
    (".txt", FormatKind::Text),
    (".txt.gz", FormatKind::Text),
];
/// What a folder of MDS has in it.
const MDS_INDEX: &str = "index.json";

/// The formats of one node.
pub(crate) struct Formats<'a> {
    config: &'a StorageConfig,
    dataset: &'a DatasetConfig,
    kept: Arc<KeptIndices>,
    made: HashMap<FormatKind, Arc<dyn Format>>,
}

// === impl Formats ===

impl<'a> Formats<'a> {
    pub(crate) fn new(
        config: &'a StorageConfig,
        dataset: &'a DatasetConfig,
        kept: Arc<KeptIndices>,
    ) -> Self {
        Self { config, dataset, kept, made: HashMap::new() }
    }

    /// The format of a place.
    ///
    /// # Errors
    /// A name that says nothing; options that the format cannot work with.
    pub(crate) fn of(&mut self, place: &Place) -> Result<Arc<dyn Format>, StorageError> {
        let kind = self.kind_of(place)?;
        self.of_kind(kind)
    }

    /// The name of a place's format.
    ///
    /// # Errors
    /// A place whose name says nothing, and that cannot be looked at.
    pub(crate) fn kind_of(&self, place: &Place) -> Result<FormatKind, StorageError> {
        match self.dataset.format {
            FormatKind::Auto => guess(place),
            kind => Ok(kind),
        }
    }

    /// A format by its name.
    ///
    /// # Errors
    /// This program was built without it.
    pub(crate) fn of_kind(&mut self, kind: FormatKind) -> Result<Arc<dyn Format>, StorageError> {
        if let Some(made) = self.made.get(&kind) {
            return Ok(made.clone());
        }
        let format = self.make(kind)?;
        self.made.insert(kind, format.clone());
        Ok(format)
    }

    fn make(&self, kind: FormatKind) -> Result<Arc<dyn Format>, StorageError> {
        let lines = |kind| Arc::new(Lines::new(kind, self.dataset));
        Ok(match kind {
            FormatKind::Auto | FormatKind::Tar => {
                Arc::new(Tar::new(self.config, self.kept.clone()))
            }
            FormatKind::Folder => Arc::new(Folder::new(self.dataset)),
            #[cfg(feature = "format-parquet")]
            FormatKind::Parquet => Arc::new(Parquet::new(self.dataset)),
            #[cfg(feature = "format-tfrecord")]
            FormatKind::TfRecord => Arc::new(TfRecord::new(self.dataset, self.kept.clone())),
            #[cfg(feature = "format-mds")]
            FormatKind::Mds => Arc::new(Mds::new(self.dataset, self.kept.clone())),
            FormatKind::Npy => Arc::new(Npy::new(self.dataset)),
            FormatKind::Tokens => Arc::new(Tokens::new(self.dataset)),
            FormatKind::Csv => lines(LineKind::Csv),
            FormatKind::Tsv => lines(LineKind::Tsv),
            FormatKind::Jsonl => lines(LineKind::Json),
            FormatKind::Text => lines(LineKind::Text),
            FormatKind::Python => Arc::new(Python::new(self.config, self.dataset)),
            #[cfg(feature = "format-hdf5")]
            FormatKind::Hdf5 => Arc::new(Hdf5::new(self.dataset)),
            #[cfg(feature = "format-zarr")]
            FormatKind::Zarr => Arc::new(Zarr::new(self.dataset)),
            #[allow(unreachable_patterns)]
            left_out => {
                return Err(StorageError::Config {
                    key: "format",
                    value: left_out.to_string(),
                    remedy: "this program was built without it: build it with its cargo feature",
                });
            }
        })
    }
}

/// A name without a known ending is taken for a tar, as it always was.
fn guess(place: &Place) -> Result<FormatKind, StorageError> {
    if place.name().starts_with(PYTHON) {
        return Ok(FormatKind::Python);
    }
    if let Some(kind) = FormatKind::of_name(&place.file_name()) {
        return Ok(kind);
    }
    Ok(match place.stat()? {
        Stat::Folder if place.join(MDS_INDEX).open_if_there()?.is_some() => FormatKind::Mds,
        #[cfg(feature = "format-zarr")]
        Stat::Folder if Zarr::is_at(place)? => FormatKind::Zarr,
        Stat::Folder => FormatKind::Folder,
        Stat::Object(_) => FormatKind::Tar,
    })
}
