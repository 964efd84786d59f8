//! A place in a JSON document.

use serde_json::Value;

/// What is at `path`: names of members and numbers of entries with dots between them, as `annotations.boxes`. An empty path is
/// the whole document.
pub(super) fn find<'a>(document: &'a Value, path: &str) -> Option<&'a Value> {
    let names = path.split('.').filter(|_| !path.is_empty());
    names.into_iter().try_fold(document, |value, name| match value {
        Value::Object(members) => members.get(name),
        Value::Array(entries) => entries.get(name.parse::<usize>().ok()?),
        _ => None,
    })
}
