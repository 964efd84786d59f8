//! What is known of each image besides its bytes.
//!
//! By class folders: `cls`, the number of the class, and `class`, its name. By a file, `metadata.csv`
//! or `metadata.jsonl` in the folder unless another is named: a line for each image, with its name
//! within the folder in `file_name`; the other columns become fields of their names. A column `label`
//! gives `cls` too: its own whole numbers, or the number of each text among all of them, sorted. Numbers with a
//! fraction are not classes.

use std::collections::{BTreeSet, HashMap};

use super::files::{Files, USUAL_TABLES};
use super::{CLASS_NAME, CLASS_NUMBER};
use crate::StorageError;
use crate::format::json;
use crate::source::Place;

/// The value of `labels` that wants none.
const NOTHING: &str = "none";
const FILE_NAME: &str = "file_name";
const LABEL: &str = "label";
/// Names of parts of a dataset. Folders that have no other names are not classes.
const SPLITS: [&str; 9] =
    ["train", "training", "val", "valid", "validation", "test", "testing", "dev", "eval"];
/// Larger ones are not what they are taken for.
const TABLE_BYTES_MAX: u64 = 4 << 30;

/// Fields of images, by name.
#[derive(Debug)]
pub(super) enum Labels {
    /// None.
    Nothing,
    /// Numbers of the folders at the top.
    Classes(HashMap<String, usize>),
    /// Lines of a file, and the numbers that their texts have.
    Table(HashMap<String, Vec<(String, String)>>, HashMap<String, usize>),
}

// === impl Labels ===

impl Labels {
    /// Finds the labels of a folder.
    ///
    /// # Errors
    /// Images beside class folders, folders that are not classes or have no image; a file of labels that cannot be read,
    /// or lacks an image; a class that is not among those that are given.
    pub(super) fn find(
        wanted: &str,
        classes: &[String],
        place: &Place,
        files: &Files,
    ) -> Result<Self, StorageError> {
        if wanted == NOTHING {
            return Ok(Self::Nothing);
        }
        let mut seen = BTreeSet::new();
        if let Some(twice) = classes.iter().find(|class| !seen.insert(*class)) {
            let reason = format!("`classes` has `{twice}` twice: name each once");
            return Err(StorageError::Unserved { name: place.name(), reason });
        }
        let named = if wanted.is_empty() { &USUAL_TABLES[..] } else { &[wanted] };
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
            let (rows, numbers) = table(rows, classes).map_err(|label| {
                let reason = format!("label `{label}` is not among `classes`: correct one of them");
                StorageError::Unserved { name: beside.name(), reason }
            })?;
            let table = Self::Table(rows, numbers);
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
        Self::by_class(classes, place, files)
    }

    fn by_class(given: &[String], place: &Place, files: &Files) -> Result<Self, StorageError> {
        let unserved = |reason| StorageError::Unserved { name: place.name(), reason };
        let class = |at| files.name(at).split_once('/').map(|(class, _)| class);
        let classes: BTreeSet<_> = (0..files.len()).filter_map(class).collect();
        let plain = (0..files.len()).find(|&at| class(at).is_none());
        match (classes.is_empty(), plain) {
            (true, _) => Ok(Self::Nothing),
            (false, None) if given.is_empty() => {
                if let Some(fault) = no_classes(&classes, place, files) {
                    return Err(unserved(fault));
                }
                Ok(Self::Classes(numbers(classes.into_iter())))
            }
            (false, None) => {
                let numbers = numbers(given.iter().map(String::as_str));
                match classes.into_iter().find(|class| !numbers.contains_key(*class)) {
                    Some(class) => Err(unserved(format!(
                        "folder `{class}` is not among `classes`: add it, or move the folder"
                    ))),
                    None => Ok(Self::Classes(numbers)),
                }
            }
            (false, Some(at)) => {
                let reason = format!(
                    "`{}` lies beside folders of images, so the folders' names cannot be classes: move it, \
                     or set `labels` to `none` or to a file",
                    files.name(at)
                );
                Err(unserved(reason))
            }
        }
    }

    /// Names of the classes by their numbers.
    pub(super) fn classes(&self) -> Vec<String> {
        let numbers = match self {
            Self::Nothing => return Vec::new(),
            Self::Classes(numbers) | Self::Table(_, numbers) => numbers,
        };
        let mut classes: Vec<(&String, &usize)> = numbers.iter().collect();
        classes.sort_unstable_by_key(|(_, number)| **number);
        classes.into_iter().map(|(name, _)| name.clone()).collect()
    }

    /// The fields of an image.
    pub(super) fn of(&self, name: &str) -> Vec<(String, String)> {
        match self {
            Self::Nothing => Vec::new(),
            Self::Classes(classes) => {
                let class = name.split('/').next().unwrap_or_default();
                let number = classes.get(class).copied().unwrap_or_default();
                let fields = [(CLASS_NUMBER, number.to_string()), (CLASS_NAME, class.to_owned())];
                fields.map(|(field, value)| (field.to_owned(), value)).into()
            }
            Self::Table(rows, _) => rows.get(name).cloned().unwrap_or_default(),
        }
    }
}

fn numbers<'a>(classes: impl Iterator<Item = &'a str>) -> HashMap<String, usize> {
    classes.enumerate().map(|(number, class)| (class.to_owned(), number)).collect()
}

/// Why folders of images are not taken for classes, where nobody says which there are.
fn no_classes(classes: &BTreeSet<&str>, place: &Place, files: &Files) -> Option<String> {
    const REMEDY: &str = "or list all classes in `classes`";
    if let Some(table) = files.table_below() {
        let (folder, _) = table.rsplit_once('/').unwrap_or_default();
        let part = place.join(folder).name();
        return Some(format!(
            "`{table}` has labels of its own folder: name that one, `{part}`, {REMEDY}"
        ));
    }
    if classes.iter().all(|class| SPLITS.contains(class)) {
        let split = classes.first().copied().unwrap_or_default();
        let part = place.join(split).name();
        return Some(format!(
            "its folders are parts of a dataset, not classes: name one, as in `{part}`, {REMEDY}"
        ));
    }
    let empty = if files.is_whole() { empty_folder(place, classes) } else { None }?;
    Some(format!(
        "folder `{empty}` has no image, and would be a class without any: list all classes in `classes`, or move the \
         folder, so that all others have the numbers that they have elsewhere"
    ))
}

/// The first folder beside classes without an image in it. Object stores have none.
fn empty_folder(place: &Place, classes: &BTreeSet<&str>) -> Option<String> {
    let entries = std::fs::read_dir(place.source.is_local().then_some(&place.path)?).ok()?;
    let folder = |entry: std::fs::DirEntry| {
        let name = entry.file_name().into_string().ok()?;
        // The root of a file system has the second.
        let is_hidden = name.starts_with('.') || name == "lost+found";
        (!is_hidden && entry.path().is_dir() && !classes.contains(name.as_str())).then_some(name)
    };
    entries.filter_map(|entry| folder(entry.ok()?)).min()
}

type Row = (String, Vec<(String, String)>);
/// Fields of images by name, and the numbers of texts.
type Table = (HashMap<String, Vec<(String, String)>>, HashMap<String, usize>);

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
        let parsed: Result<serde_json::Map<String, serde_json::Value>, _> = json::parsed(line);
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

/// The rows by name, with numbers for labels, and the numbers of texts; a label that is not among the classes.
fn table(mut rows: Vec<Row>, classes: &[String]) -> Result<Table, String> {
    let label =
        |row: &Row| row.1.iter().find(|(column, _)| column == LABEL).map(|(_, l)| l.clone());
    let labels: BTreeSet<String> = rows.iter().filter_map(label).collect();
    // One rule for all rows: whole numbers, as pandas writes them too (`10.0`); other numbers, which are not classes; texts.
    let are_whole = labels.iter().all(|label| whole_number(label).is_some());
    let is_finite = |label: &String| label.parse::<f64>().is_ok_and(f64::is_finite);
    let are_numbers = labels.iter().all(is_finite);
    let order = match classes {
        [] => numbers(labels.iter().map(String::as_str)),
        given => numbers(given.iter().map(String::as_str)),
    };
    let is_own = |row: &Row| row.1.iter().any(|(column, _)| column == CLASS_NUMBER);
    let has_own = rows.iter().any(is_own);
    for row in &mut rows {
        let given = is_own(row);
        let Some(label) = label(row).filter(|_| !given) else { continue };
        let number = match (classes.is_empty(), are_whole, are_numbers) {
            (true, true, _) => whole_number(&label).ok_or(label)?,
            (true, false, true) => continue,
            _ => order.get(&label).ok_or(label)?.to_string(),
        };
        row.1.push((CLASS_NUMBER.to_owned(), number));
    }
    // Numbers of their own need not be those of the texts.
    let has_names = !has_own && (!classes.is_empty() || !are_numbers);
    Ok((rows.into_iter().collect(), if has_names { order } else { HashMap::new() }))
}

/// A whole number as it is, or without its fraction of zeros.
fn whole_number(text: &str) -> Option<String> {
    let whole = text.split_once('.').map_or(text, |(whole, fraction)| {
        if fraction.bytes().all(|digit| digit == b'0') { whole } else { text }
    });
    whole.parse::<i64>().is_ok().then(|| whole.to_owned())
}
