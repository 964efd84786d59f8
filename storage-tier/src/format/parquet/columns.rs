//! Which columns become fields, and the fields' names.

use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::file::metadata::ParquetMetaData;
use parquet::schema::types::ColumnDescriptor;
use serde_json::Value;

use crate::format::arrays::no_such;

/// The columns that are read.
#[derive(Debug)]
pub(super) struct Columns {
    pub(super) fields: Vec<Column>,
    /// The column that keys are taken from, where there is one: a leaf of the schema.
    pub(super) key: Option<usize>,
}

/// A column that becomes a field.
#[derive(Debug)]
pub(super) struct Column {
    /// Its number among the leaves of the schema.
    pub(super) leaf: usize,
    /// Name of the field.
    pub(super) name: String,
    /// Names of the classes, and of the field that holds them; for numbers of classes.
    pub(super) classes: Option<(String, Vec<String>)>,
}

// === impl Columns ===

impl Columns {
    /// All columns that are read, in the order of the schema.
    pub(super) fn leaves(&self) -> Vec<usize> {
        let mut leaves: Vec<usize> = self.fields.iter().map(|column| column.leaf).collect();
        leaves.extend(self.key);
        leaves.sort_unstable();
        leaves
    }

    /// Names of the fields, in order.
    pub(super) fn names(&self) -> Vec<String> {
        let names = |column: &Column| {
            let class = column.classes.as_ref().map(|(name, _)| name.clone());
            [Some(column.name.clone()), class]
        };
        self.fields.iter().flat_map(names).flatten().collect()
    }
}

/// Chooses: every column with one value a row. An image as the hub writes it, a group of `bytes` and
/// `path`, is one field; the paths of the first are the keys. Lists, maps, decimals and half-precision
/// numbers are left out.
///
/// # Errors
/// Two fields of one name; no column at all.
pub(super) fn choose(metadata: &ParquetMetaData, wanted: &[String]) -> Result<Columns, String> {
    let schema = metadata.file_metadata().schema_descr();
    let features = features(metadata);
    let leaves: Vec<&ColumnDescriptor> = schema.columns().iter().map(AsRef::as_ref).collect();
    let mut columns = Columns { fields: Vec::new(), key: None };
    for (leaf, column) in leaves.iter().enumerate() {
        let path = column.path().parts();
        let part = |last: &str| match path {
            [parent, own] if own == last && column.physical_type() == Physical::BYTE_ARRAY => {
                Some(parent)
            }
            _ => None,
        };
        let beside = |other: &str, group: &String| {
            let path = [group.clone(), other.to_owned()];
            leaves.iter().filter(|leaf| leaf.path().parts().first() == Some(group)).count() == 2
                && leaves.iter().any(|leaf| {
                    leaf.path().parts() == path && leaf.physical_type() == Physical::BYTE_ARRAY
                })
        };
        if column.max_rep_level() > 0 || !is_plain(column) {
            continue;
        }
        if part("path").is_some_and(|group| beside("bytes", group)) {
            columns.key = columns.key.or(Some(leaf));
            continue;
        }
        let image = part("bytes").filter(|group| beside("path", group));
        let name = image.cloned().unwrap_or_else(|| path.join("."));
        let whole = matches!(column.physical_type(), Physical::INT32 | Physical::INT64);
        let classes = whole.then(|| class_names(&features, path)).flatten();
        let classes = classes.map(|names| (format!("{name}.name"), names));
        columns.fields.push(Column { leaf, name, classes });
    }
    let names = columns.names();
    if let Some(missing) = wanted.iter().find(|wanted| !names.contains(wanted)) {
        return Err(no_such(missing, names.iter().map(String::as_str)));
    }
    if !wanted.is_empty() {
        columns.fields.retain(|column| wanted.contains(&column.name));
    }
    let mut names = columns.names();
    names.sort_unstable();
    if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(format!("two columns would be the field `{}`", twice[0]));
    }
    if names.is_empty() {
        return Err("it has no column with one value a row".to_owned());
    }
    Ok(columns)
}

/// Whether values are what their bytes say.
fn is_plain(column: &ColumnDescriptor) -> bool {
    let numbers = !matches!(
        column.logical_type_ref(),
        Some(LogicalType::Decimal { .. } | LogicalType::Float16)
    );
    numbers
        && column.converted_type() != ConvertedType::DECIMAL
        && column.physical_type() != Physical::INT96
}

/// The features that the hub's library keeps in the footer, by column.
fn features(metadata: &ParquetMetaData) -> Value {
    let pairs = metadata.file_metadata().key_value_metadata();
    let written = pairs.into_iter().flatten().find(|pair| pair.key == "huggingface");
    let parsed = written
        .and_then(|pair| pair.value.as_deref())
        .and_then(|json| serde_json::from_str::<Value>(json).ok());
    parsed.map(|mut json| json["info"]["features"].take()).unwrap_or_default()
}

fn class_names(features: &Value, path: &[String]) -> Option<Vec<String>> {
    let mut feature = features;
    for part in path {
        feature = feature.get(part)?;
    }
    if feature.get("_type")? != "ClassLabel" {
        return None;
    }
    let names = feature.get("names")?.as_array()?;
    names.iter().map(|name| name.as_str().map(str::to_owned)).collect()
}
