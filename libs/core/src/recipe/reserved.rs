//! Names of a batch: each is given once, and none hides what a batch has in Python anyway.

use super::error::{RecipeError, wrong};
use super::raw::RawSpec;
use super::sequences::SequencesSpec;
use super::spec::Recipe;
use crate::layout::Layout;

/// Names that every batch has, as `Batch` and `TorchBatch` of the Python package have them. Tensors that only some
/// batches have, as `masks`, are refused by the plans that draw them.
const RESERVED: [&str; 27] = [
    Layout::LABELS,
    RawSpec::BYTES,
    RawSpec::SIZES,
    "clear",
    "contact_sheet",
    "copy",
    "digest",
    "epoch",
    "fields",
    "fromkeys",
    "get",
    "group",
    "items",
    "keys",
    "n_masked_patches",
    "pop",
    "popitem",
    "samples",
    "setdefault",
    "step",
    "substituted",
    "tensors",
    "to",
    "torch",
    "update",
    "upperbound",
    "values",
];

/// The names of a batch that were seen so far.
#[derive(Default)]
struct Names(Vec<String>);

// === impl Names ===

impl Names {
    /// Takes the names that come of one `given` name at `key`.
    fn take(
        &mut self,
        key: &str,
        given: &str,
        names: impl IntoIterator<Item = String>,
    ) -> Result<(), RecipeError> {
        for name in names {
            if self.0.contains(&name) || RESERVED.contains(&name.as_str()) {
                let rule = format!(
                    "the batch has something else of the name `{name}`: choose another one"
                );
                return Err(wrong(key.to_owned(), given, rule));
            }
            self.0.push(name);
        }
        Ok(())
    }
}

// === impl Recipe ===

impl Recipe {
    /// Checks the names of image tensors, fields, masks, depth and boxes.
    pub(super) fn validate_names(&self) -> Result<(), RecipeError> {
        let mut names = Names::default();
        for (index, tensor) in self.tensors.iter().enumerate() {
            let sequences = self.sequences_of(&tensor.name);
            let both = [
                Some(tensor.name.clone()),
                tensor.scales_name(),
                sequences.map(SequencesSpec::coord_name),
                sequences.map(SequencesSpec::valid_name),
            ];
            names.take(
                &format!("tensors[{index}].name"),
                &tensor.name,
                both.into_iter().flatten(),
            )?;
        }
        for (index, spec) in self.fields.iter().enumerate() {
            names.take(&format!("fields[{index}].name"), &spec.name, spec.names())?;
        }
        for spec in &self.aligned {
            names.take("tensors.name", &spec.name, [spec.name.clone()])?;
        }
        let mut boxes =
            |spec: &super::BoxesSpec| names.take("fields.name", &spec.name, spec.names());
        self.boxes.iter().try_for_each(&mut boxes)?;
        let mut lies =
            |spec: &super::GeometrySpec| names.take("fields.name", &spec.name, spec.names());
        self.geometry.iter().try_for_each(&mut lies)
    }

    /// The first name of one of its tensors that is among `taken`.
    #[must_use]
    pub fn named_as(&self, taken: &[&str]) -> Option<String> {
        let images = self.tensors.iter().map(|tensor| tensor.name.clone());
        let fields = self.fields.iter().flat_map(|spec| spec.names());
        let mut names = images.chain(fields).chain(self.geometry_names());
        names.find(|name| taken.contains(&name.as_str()))
    }
}
