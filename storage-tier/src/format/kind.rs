//! The formats by their names, and by the endings of files.

use std::fmt;

use serde::{Deserialize, Serialize};

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
pub(super) const MDS_INDEX: &str = "index.json";

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

// === impl FormatKind ===

impl FormatKind {
    /// The format that the ending of a name stands for.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ending_of(name).map(|(_, kind)| kind)
    }

    /// As [`Self::of_name`], with the ending.
    pub(super) fn ending_of(name: &str) -> Option<(&'static str, Self)> {
        let name = name.to_ascii_lowercase();
        ENDINGS.iter().find(|(ending, _)| name.ends_with(ending)).copied()
    }

    /// How often its files lie beside those of a dataset and are none of its own: 0, never. img2dataset writes a Parquet
    /// file of its log beside each tar.
    pub(super) fn lies_beside(self) -> u8 {
        match self {
            Self::Tar => 0,
            Self::Csv | Self::Tsv | Self::Jsonl | Self::Text => 2,
            _ => 1,
        }
    }
}

impl fmt::Display for FormatKind {
    /// As the configuration has it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&format!("{self:?}").to_lowercase())
    }
}
