//! What is known of each image besides its bytes.
//!
//! By class folders: `cls`, the number of the class, and `class`, its name. By a file, `metadata.csv`
//! or `metadata.jsonl` in the folder unless another is named: a line for each image, with its name
//! within the folder in `file_name`; the other columns become fields of their names. A column `label`
//! gives `cls` too: its own whole numbers, or the number of each text among all of them, sorted.

use std::collections::{BTreeSet, HashMap};

use super::files::Files;
use super::{CLASS_NAME, CLASS_NUMBER};
use crate::StorageError;
use crate::source::Place;

/// Where labels are looked for when nothing is said.
const USUAL: [&str; 2] = ["metadata.csv", "metadata.jsonl"];
/// The value of `labels` that wants none.
const NOTHING: &str = "none";
const FILE_NAME: &str = "file_name";
const LABEL: &str = "label";
/// Larger ones are not what they are taken for.
const TABLE_BYTES_MAX: u64 = 4 << 30;

/// Fields of images, by name.
#[derive(Debug)]
pub(super) enum Labels {
    /// None.
    Nothing,
    /// The folders at the top, sorted.
    Classes(Vec<String>),
    /// Lines of a file.
    Table(HashMap<String, Vec<(String, String)>>),
}

// === impl Labels ===

impl Labels {
    /// Finds the labels of a folder.
    ///
    /// # Errors
    /// Images beside class folders; a file of labels that cannot be read, or lacks an image.
    pub(super) fn find(wanted: &str, place: &Place, files: &Files) -> Result<Self, StorageError> {
        if wanted == NOTHING {
            return Ok(Self::Nothing);
        }
        let named = if wanted.is_empty() { &USUAL[..] } else { &[wanted] };
        for name in named {
            let beside = place.join(name);
            let Some(object) = beside.open_if_there()? else { continue };
            if object.bytes() > TABLE_BYTES_MAX {
                return Err(broken(&beside, "the whole file", "is over 4 GiB"));
            }
            let text = object.read(0..object.bytes())?;
            object.check_unchanged()?;
            let rows = match name.ends_with(".jsonl") {
                true => json_rows(&beside, &text)?,
                false => csv_rows(&beside, &text)?,
            };
            let table = Self::Table(table(rows));
            let lacks = |at: &usize| table.of(files.name(*at)).is_empty();
            if let Some(at) = (0..files.len()).find(lacks) {
                let fault = format!("holds nothing on `{}`", files.name(at));
                return Err(broken(&beside, "the whole file", &fault));
            }
            return Ok(table);
        }
        if !wanted.is_empty() {
            let reason = "that file of labels is not there: correct `labels`".to_owned();
            return Err(StorageError::Unserved { name: place.join(wanted).name(), reason });
        }
        Self::by_class(place, files)
    }

    fn by_class(place: &Place, files: &Files) -> Result<Self, StorageError> {
        let class = |at| files.name(at).split_once('/').map(|(class, _)| class);
        let classes: BTreeSet<_> = (0..files.len()).filter_map(class).collect();
        let plain = (0..files.len()).find(|&at| class(at).is_none());
        match (classes.is_empty(), plain) {
            (true, _) => Ok(Self::Nothing),
            (false, None) => Ok(Self::Classes(classes.into_iter().map(str::to_owned).collect())),
            (false, Some(at)) => {
                let reason = format!(
                    "`{}` lies beside folders of images, so that their names are no classes: move \
                     it, or set `labels` to `none` or to a file",
                    files.name(at)
                );
                Err(StorageError::Unserved { name: place.name(), reason })
            }
        }
    }

    /// The fields of an image.
    pub(super) fn of(&self, name: &str) -> Vec<(String, String)> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Classes(classes) => {
                let class = name.split('/').next().unwrap_or_default();
                let number = classes.partition_point(|other| other.as_str() < class);
                let fields = [(CLASS_NUMBER, number.to_string()), (CLASS_NAME, class.to_owned())];
                fields.map(|(field, value)| (field.to_owned(), value)).into()
            }
            Self::Table(rows) => rows.get(name).cloned().unwrap_or_default(),
        }
    }
}

type Row = (String, Vec<(String, String)>);

fn broken(place: &Place, at: &str, fault: &str) -> StorageError {
    StorageError::Broken { name: place.name(), place: at.to_owned(), fault: fault.to_owned() }
}

fn csv_rows(place: &Place, text: &[u8]) -> Result<Vec<Row>, StorageError> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut reader = csv::Reader::from_reader(text);
    let fault = |error: csv::Error| {
        let line = error.position().map_or(1, csv::Position::line);
        broken(place, &format!("line {line}"), &error.to_string())
    };
    let head = reader.headers().map_err(fault)?.clone();
    let Some(name) = head.iter().position(|column| column == FILE_NAME) else {
        return Err(broken(place, "line 1", "has no column `file_name`"));
    };
    let mut rows = Vec::new();
    for record in reader.records() {
        let record = record.map_err(fault)?;
        let other = |at: &usize| *at != name && !record[*at].is_empty();
        let fields = (0..record.len()).filter(other);
        let fields = fields.map(|at| (head[at].to_owned(), record[at].to_owned())).collect();
        rows.push((record[name].to_owned(), fields));
    }
    Ok(rows)
}

fn json_rows(place: &Place, text: &[u8]) -> Result<Vec<Row>, StorageError> {
    let mut rows = Vec::new();
    for (at, line) in text.split(|&byte| byte == b'\n').enumerate() {
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        let place_of = format!("line {}", at + 1);
        let parsed: Result<serde_json::Map<String, serde_json::Value>, _> =
            serde_json::from_slice(line);
        let mut object = parsed.map_err(|error| broken(place, &place_of, &error.to_string()))?;
        let Some(serde_json::Value::String(name)) = object.remove(FILE_NAME) else {
            return Err(broken(place, &place_of, "has no text `file_name`"));
        };
        let field = |(column, value)| {
            let value = match value {
                serde_json::Value::Null => return None,
                serde_json::Value::String(text) => text,
                other => other.to_string(),
            };
            Some((column, value))
        };
        rows.push((name, object.into_iter().filter_map(field).collect()));
    }
    Ok(rows)
}

/// The rows by name, with numbers for labels.
fn table(mut rows: Vec<Row>) -> HashMap<String, Vec<(String, String)>> {
    let label =
        |row: &Row| row.1.iter().find(|(column, _)| column == LABEL).map(|(_, l)| l.clone());
    let labels: BTreeSet<String> = rows.iter().filter_map(label).collect();
    let numbers = labels.iter().all(|label| label.parse::<i64>().is_ok());
    let order: Vec<String> = labels.into_iter().collect();
    for row in &mut rows {
        let given = row.1.iter().any(|(column, _)| column == CLASS_NUMBER);
        if let Some(label) = label(row).filter(|_| !given) {
            let rank = || order.partition_point(|other| *other < label).to_string();
            let number = if numbers { label.clone() } else { rank() };
            row.1.push((CLASS_NUMBER.to_owned(), number));
        }
    }
    rows.into_iter().collect()
}
