//! A list in place of the built-in order: which samples come is read, or drawn by weights of samples.
//!
//! Samples are named by their numbers, which count from 0 through all shards of the first dataset, then
//! through those of the next one.

mod alias;
mod error;
mod groups;
mod listed;

pub use error::ListError;
pub(super) use groups::BatchLengths;
pub(super) use listed::Listed;

use crate::{Digest, Digester};
use alias::AliasTable;

/// Largest number of entries of a list, over all rows: 16 GiB of numbers.
pub const LIST_ENTRIES_MAX: u64 = 1 << 31;

/// Values in rows of one length.
#[derive(Clone, Debug, PartialEq)]
pub struct Rows<T> {
    columns: usize,
    values: Vec<T>,
}

/// What the order of samples is read from. Made once, then shared.
///
/// Memory: 8 bytes a number. With groups 4 bytes more for each number, and 4 bytes for each number of the
/// two rows that were looked at last. Where a row has a number twice, 4 bytes more for each number. Weights
/// take 12 bytes a sample.
#[derive(Clone, Debug)]
pub struct OrderList {
    kind: ListKind,
    digest: Digest,
}

#[derive(Clone, Debug)]
enum ListKind {
    Numbers { numbers: Rows<u64>, groups: Option<Rows<u32>> },
    Weights(AliasTable),
}

// === impl Rows ===

impl<T> Rows<T> {
    /// One row.
    #[must_use]
    pub fn one(values: Vec<T>) -> Self {
        Self { columns: values.len(), values }
    }

    /// Rows of `columns` values each, one after the other; `None` where the values do not fill whole rows.
    #[must_use]
    pub fn of_columns(columns: usize, values: Vec<T>) -> Option<Self> {
        let whole = columns > 0 && values.len().is_multiple_of(columns);
        (whole || values.is_empty()).then_some(Self { columns, values })
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.columns).unwrap_or(0)
    }

    /// Values of a row.
    #[must_use]
    pub fn columns(&self) -> usize {
        self.columns
    }

    /// All values, row after row.
    #[must_use]
    pub fn values(&self) -> &[T] {
        &self.values
    }

    /// All values, row after row.
    #[must_use]
    pub fn into_values(self) -> Vec<T> {
        self.values
    }

    fn row(&self, row: usize) -> &[T] {
        &self.values[row * self.columns..][..self.columns]
    }

    fn shape(&self) -> String {
        format!("{} x {}", self.rows(), self.columns)
    }

    fn check(&self, what: &'static str) -> Result<(), ListError> {
        let entries = self.values.len() as u64;
        match entries {
            0 => Err(ListError::Empty { what }),
            1..=LIST_ENTRIES_MAX => Ok(()),
            _ => Err(ListError::TooLong { what, entries, most: LIST_ENTRIES_MAX }),
        }
    }
}

// === impl OrderList ===

impl OrderList {
    /// Numbers of samples, one row for each epoch: epoch `e` goes through row `e % rows`. With `groups`, which
    /// has one for each number, no batch mixes groups.
    ///
    /// # Errors
    /// No number, more than [`LIST_ENTRIES_MAX`], groups of another shape.
    pub fn numbers(numbers: Rows<u64>, groups: Option<Rows<u32>>) -> Result<Self, ListError> {
        numbers.check("the list")?;
        if let Some(groups) = &groups {
            groups.check("the list of groups")?;
            let (of_groups, of_list) = (groups.shape(), numbers.shape());
            if of_groups != of_list {
                return Err(ListError::GroupsShape { groups: of_groups, list: of_list });
            }
        }
        let mut digester = Digester::new("headwater order list 1");
        digester.bytes(b"numbers").number(numbers.rows() as u64).number(numbers.columns() as u64);
        for &number in numbers.values() {
            digester.number(number);
        }
        if let Some(groups) = &groups {
            digester.bytes(b"groups");
            for &group in groups.values() {
                digester.number(group.into());
            }
        }
        let digest = digester.finish();
        Ok(Self { kind: ListKind::Numbers { numbers, groups }, digest })
    }

    /// One weight for each sample of the datasets, of any sum: each position of an epoch draws its sample by
    /// them, so a sample may come several times or not at all. The draw of a position follows from seed,
    /// epoch and position.
    ///
    /// # Errors
    /// No weight, more than [`LIST_ENTRIES_MAX`], a negative one, one that is not finite, only zeros.
    pub fn weights(weights: Vec<f64>) -> Result<Self, ListError> {
        let weights = Rows::one(weights);
        weights.check("the list of weights")?;
        let table = AliasTable::new(weights.values())?;
        let mut digester = Digester::new("headwater order list 1");
        digester.bytes(b"weights").number(weights.columns() as u64);
        // Zero is added: minus zero is the same weight.
        for weight in weights.values() {
            digester.number((weight + 0.0).to_bits());
        }
        Ok(Self { kind: ListKind::Weights(table), digest: digester.finish() })
    }

    /// Whether its numbers have groups.
    #[must_use]
    pub fn has_groups(&self) -> bool {
        matches!(self.kind, ListKind::Numbers { groups: Some(_), .. })
    }

    /// Checks that all groups are below `count`.
    ///
    /// # Errors
    /// The first one that is not.
    pub fn check_groups(&self, count: u32) -> Result<(), ListError> {
        let ListKind::Numbers { groups: Some(groups), .. } = &self.kind else { return Ok(()) };
        let Some(at) = groups.values().iter().position(|&group| group >= count) else {
            return Ok(());
        };
        let (row, place) = (at / groups.columns(), at % groups.columns());
        Err(ListError::GroupBeyond { row, place, group: groups.values()[at], count })
    }

    /// Identity of the content: XXH3-128 of the numbers and groups, or of the weights, whatever the file
    /// was that they come from.
    #[must_use]
    pub fn digest(&self) -> Digest {
        self.digest
    }
}
