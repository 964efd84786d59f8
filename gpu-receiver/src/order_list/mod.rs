//! A list of samples as the order: read from files, or handed over by the trainer's program.

mod file;
mod number;
#[cfg(test)]
mod tests;

use std::path::Path;
use std::sync::Arc;

use headwater_core::sampler::{Order, OrderList, Rows, Sampler, SamplerError};
use headwater_core::{Manifest, Recipe};

use crate::config::{DatasetUse, OrderConfig, ReceiverConfig};
use crate::error::ReceiverError;
use crate::setup::sampler_config;
use number::Number;

/// Arrays in place of the files of `receiver.order_list`, `receiver.order_groups` and
/// `receiver.order_weights`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OrderArrays {
    /// Numbers of samples, one row for each epoch.
    pub list: Option<Rows<u64>>,
    /// Groups of these numbers, in rows likewise.
    pub groups: Option<Rows<u32>>,
    /// One weight for each sample of the datasets.
    pub weights: Option<Rows<f64>>,
}

/// An array as NumPy describes it.
#[derive(Clone, Copy, Debug)]
pub struct RawArray<'a> {
    /// Name of the elements' type: `<i8`, `<u4`, `<f4` and so on.
    pub descr: &'a str,
    /// Lengths of the axes, the outermost first.
    pub shape: &'a [u64],
    /// The elements, in C order.
    pub bytes: &'a [u8],
}

// === impl OrderArrays ===

impl OrderArrays {
    /// Whether there is no array.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// Takes an array as what the key of `[receiver]` would give a file for.
    ///
    /// # Errors
    /// An array of another shape or type, or with a number that the key does not take.
    pub fn set(&mut self, key: &str, array: RawArray<'_>) -> Result<(), ReceiverError> {
        match key {
            "order_groups" => self.groups = Some(array.rows("order_groups")?),
            "order_weights" => self.weights = Some(array.rows("order_weights")?),
            _ => self.list = Some(array.rows("order_list")?),
        }
        Ok(())
    }
}

// === impl RawArray ===

impl RawArray<'_> {
    fn rows<T: TryFrom<Number, Error = String>>(
        self,
        key: &'static str,
    ) -> Result<Rows<T>, ReceiverError> {
        let read = number::Element::parse(self.descr).and_then(|element| {
            let entries = number::entries(self.shape)?;
            if entries.checked_mul(element.bytes as u64) != Some(self.bytes.len() as u64) {
                return Err(format!("{entries} elements are not {} bytes", self.bytes.len()));
            }
            let elements = self.bytes.chunks_exact(element.bytes);
            let values = number::values(elements.map(|bytes| element.number(bytes)), self.shape)?;
            number::in_rows(self.shape, values)
        });
        read.map_err(|reason| ReceiverError::OrderList { key, place: "array".into(), reason })
    }
}

/// The order of samples that a receiver of this configuration follows.
///
/// Blocks while a list is read.
///
/// # Errors
/// A list that is missing, cannot be read or does not fit the datasets; a configuration that the sampler
/// refuses.
pub fn open_sampler(
    config: &ReceiverConfig,
    recipe: &Recipe,
    datasets: &[DatasetUse],
    manifests: Vec<Arc<Manifest>>,
    arrays: OrderArrays,
) -> Result<Sampler, ReceiverError> {
    let order = sampler_config(config, recipe, datasets);
    let sampler = match order_list(config, arrays)? {
        Some(list) => {
            check_groups(recipe, &list)?;
            tracing::info!(digest = %list.digest(), "samples come in the order of a list");
            Sampler::with_list(order, manifests, Arc::new(list))?
        }
        None if recipe.has_buckets() => return Err(without_groups(config.order.order)),
        None => Sampler::new(order, manifests)?,
    };
    Ok(sampler)
}

/// Checks that the recipe has a size for each group of the list, if its batches differ in size.
fn check_groups(recipe: &Recipe, list: &OrderList) -> Result<(), ReceiverError> {
    if !recipe.has_buckets() {
        return Ok(());
    }
    if !list.has_groups() {
        let value = "not given".to_owned();
        return Err(ReceiverError::Config { key: "order_groups", value, rule: GROUPS_NEEDED });
    }
    Ok(list.check_groups(recipe.buckets()).map_err(SamplerError::from)?)
}

const GROUPS_NEEDED: &str = "with aspect_buckets of recipe.tensors the order must be \"list\" with order_list and \
     order_groups, whose groups choose the sizes: `headwater datasets buckets` writes both";

fn without_groups(order: Order) -> ReceiverError {
    let value = format!("{order:?}").to_lowercase();
    ReceiverError::Config { key: "order", value, rule: GROUPS_NEEDED }
}

/// The list that a configuration asks for, out of its files or `arrays`; `None` where the order is another.
///
/// # Errors
/// No list, a file that cannot be read, or what has no meaning as a list; names the key and the file.
pub fn order_list(
    config: &ReceiverConfig,
    arrays: OrderArrays,
) -> Result<Option<OrderList>, ReceiverError> {
    config.validate()?;
    if config.order.order != Order::List {
        if arrays.is_empty() {
            return Ok(None);
        }
        let value = format!("{:?}", config.order.order).to_lowercase();
        let rule = "with a list of samples it must be \"list\"";
        return Err(ReceiverError::Config { key: "order", value, rule });
    }
    let OrderArrays { list, groups, weights } = arrays;
    let list = either(&config.order, "order_list", list)?;
    let groups = either(&config.order, "order_groups", groups)?;
    let weights = either::<f64>(&config.order, "order_weights", weights)?;
    let wrong = |rule| Err(ReceiverError::Config { key: "order", value: "\"list\"".into(), rule });
    let made = match (list, groups, weights) {
        (Some(list), groups, None) => OrderList::numbers(list, groups),
        (None, None, Some(weights)) if weights.rows() > 1 => {
            return wrong("weights of samples have one axis, and there are two");
        }
        (None, None, Some(weights)) => OrderList::weights(weights.into_values()),
        (None, Some(_), None) => return wrong("needs receiver.order_list beside its groups"),
        (None, None, None) => {
            return wrong("needs receiver.order_list or receiver.order_weights");
        }
        (_, _, Some(_)) => {
            return wrong("takes a list or weights of samples, and both are given");
        }
    };
    made.map(Some).map_err(|error| headwater_core::sampler::SamplerError::from(error).into())
}

/// The array of a key, or what its file holds.
fn either<T: TryFrom<Number, Error = String>>(
    config: &OrderConfig,
    key: &'static str,
    array: Option<Rows<T>>,
) -> Result<Option<Rows<T>>, ReceiverError> {
    let file = config.files().find(|(of, _)| *of == key).map(|(_, path)| path);
    let fault = |path: &Path, reason| {
        let place = path.display().to_string();
        ReceiverError::OrderList { key, place, reason }
    };
    match (array, file) {
        (Some(_), Some(path)) => {
            Err(fault(path, "an array is given, too: leave one of them out".to_owned()))
        }
        (array, None) => Ok(array),
        (None, Some(path)) => file::read(path).map(Some).map_err(|reason| fault(path, reason)),
    }
}
