//! Which format the files of a dataset are of.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

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
use super::folder::{ListedImage, ListedImages, is_image};
use super::kind::{FormatKind, MDS_INDEX};
use super::{Folder, Format, LineKind, Lines, Megatron, Npy, Packs, Python, Tar, Tokens};
use crate::find::FoundPlace;
use crate::kept::KeptIndices;
use crate::source::{PYTHON, Place, Stat};
use crate::{DatasetConfig, StorageConfig, StorageError};

/// The formats of one node.
pub(crate) struct Formats<'a> {
    config: &'a StorageConfig,
    dataset: &'a DatasetConfig,
    kept: Arc<KeptIndices>,
    made: HashMap<FormatKind, Arc<dyn Format>>,
}

/// A place of a dataset and how it is read.
pub(crate) struct Formatted {
    pub(crate) place: Place,
    pub(crate) kind: FormatKind,
    pub(crate) format: Arc<dyn Format>,
    /// Images that are named one by one.
    is_listed: bool,
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

    /// The places of a dataset with their formats. Images that are named one by one are one place together: the folder
    /// that they lie in.
    ///
    /// # Errors
    /// As [`Self::of`]; an image that is named twice.
    pub(crate) fn of_all(
        &mut self,
        places: Vec<FoundPlace>,
    ) -> Result<Vec<Formatted>, StorageError> {
        let (mut found, mut images) = (Vec::new(), ListedImages::default());
        for FoundPlace { place, version } in places {
            let kind = self.kind_of(&place)?;
            let is_image = kind == FormatKind::Folder && is_image(&place.file_name());
            let version = match version {
                None if is_image => place.stat()?.version(),
                found => found.filter(|_| is_image),
            };
            if let Some(version) = version {
                if let Err(image) = images.push(ListedImage { place, version }) {
                    found.extend(self.listed(&mut images)?);
                    // Nothing is before it.
                    let _ = images.push(image);
                }
                continue;
            }
            found.extend(self.listed(&mut images)?);
            let format = self.of_kind(kind)?;
            found.push(Formatted { place, kind, format, is_listed: false });
        }
        found.extend(self.listed(&mut images)?);
        let mut folders = HashSet::new();
        let again = found.iter().filter(|found| found.is_listed);
        let again =
            again.map(|found| &found.place).find(|place| !folders.insert(place.whole_name()));
        if let Some(place) = again {
            let reason = "images in it are named before and after something else: name them one after another";
            return Err(StorageError::Unserved { name: place.name(), reason: reason.to_owned() });
        }
        if let [first, _, ..] = &found[..]
            && first.format.is_in_order()
        {
            let reason = format!(
                "with `megatron` or `pack`, a dataset has one order of samples and so one shard, and it has {}: name all \
                 corpora in one list, or make a dataset of each",
                found.len()
            );
            return Err(StorageError::Unserved { name: first.place.name(), reason });
        }
        Ok(found)
    }

    fn listed(&self, images: &mut ListedImages) -> Result<Option<Formatted>, StorageError> {
        let kind = FormatKind::Folder;
        let folder = images.folder(self.dataset)?;
        Ok(folder.map(|(place, folder)| {
            let format = Arc::new(folder) as Arc<dyn Format>;
            Formatted { place, kind, format, is_listed: true }
        }))
    }

    /// The name of a place's format.
    ///
    /// # Errors
    /// A place whose name says nothing, and that cannot be looked at.
    pub(crate) fn kind_of(&self, place: &Place) -> Result<FormatKind, StorageError> {
        match self.dataset.format {
            FormatKind::Auto if self.dataset.megatron.is_some() || self.dataset.pack.is_some() => {
                Ok(FormatKind::Tokens)
            }
            FormatKind::Auto => guess(place),
            kind => Ok(kind),
        }
    }

    /// A format by its name.
    ///
    /// # Errors
    /// This program was built without it.
    pub(crate) fn of_kind(&mut self, kind: FormatKind) -> Result<Arc<dyn Format>, StorageError> {
        let keys =
            [("pack", self.dataset.pack.is_some()), ("megatron", self.dataset.megatron.is_some())];
        if let Some((key, _)) =
            keys.into_iter().find(|(_, given)| *given && kind != FormatKind::Tokens)
        {
            let reason = format!(
                "`{key}` is for tokens, and its format is {}",
                format!("{kind:?}").to_lowercase()
            );
            return Err(StorageError::Unserved { name: self.dataset.name.clone(), reason });
        }
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
                Arc::new(Tar::new(self.config.on_broken_shard, self.kept.clone()))
            }
            FormatKind::Folder => Arc::new(Folder::new(self.dataset)),
            #[cfg(feature = "format-parquet")]
            FormatKind::Parquet => Arc::new(Parquet::new(self.dataset)),
            #[cfg(feature = "format-tfrecord")]
            FormatKind::TfRecord => Arc::new(TfRecord::new(self.dataset, self.kept.clone())),
            #[cfg(feature = "format-mds")]
            FormatKind::Mds => Arc::new(Mds::new(self.dataset, self.kept.clone())),
            FormatKind::Npy => Arc::new(Npy::new(self.dataset)),
            FormatKind::Tokens => match (Packs::new(self.dataset)?, Megatron::new(self.dataset)?) {
                (Some(packs), _) => Arc::new(packs),
                (None, Some(megatron)) => Arc::new(megatron),
                (None, None) => Arc::new(Tokens::new(self.dataset)),
            },
            FormatKind::Csv => lines(LineKind::Csv),
            FormatKind::Tsv => lines(LineKind::Tsv),
            FormatKind::Jsonl => lines(LineKind::Json),
            FormatKind::Text => lines(LineKind::Text),
            FormatKind::Python => Arc::new(Python::new(&self.config.python, self.dataset)),
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
    if is_image(&place.file_name()) {
        return Ok(FormatKind::Folder);
    }
    Ok(match place.stat()? {
        Stat::Folder if place.join(MDS_INDEX).open_if_there()?.is_some() => FormatKind::Mds,
        #[cfg(feature = "format-zarr")]
        Stat::Folder if Zarr::is_at(place)? => FormatKind::Zarr,
        Stat::Folder => FormatKind::Folder,
        Stat::Object(_) => FormatKind::Tar,
    })
}
