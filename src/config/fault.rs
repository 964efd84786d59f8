//! What is wrong with a configuration, in one line that names the place, the key and the remedy.

use figment::Figment;
use figment::error::Kind;

use crate::config::keys::is_written;
use crate::config::layers::origin;

/// The first error of a figment as one sentence.
pub(crate) fn sentence(figment: &Figment, error: figment::Error) -> String {
    let Some(error) = error.clone().into_iter().next() else { return error.to_string() };
    let path = error.path.join(".");
    match &error.kind {
        Kind::UnknownField(name, known) => {
            let section = path.strip_suffix(name.as_str()).unwrap_or(&path).trim_end_matches('.');
            let key = if section.is_empty() { name.clone() } else { format!("{section}.{name}") };
            let within =
                if section.is_empty() { "the file".to_owned() } else { format!("`{section}`") };
            let place = place(figment, &key, &error);
            let known: Vec<&str> =
                known.iter().copied().filter(|key| is_written(section, key)).collect();
            format!("{place}: unknown key `{key}`: known keys of {within} are {}", known.join(", "))
        }
        Kind::MissingField(name) => {
            let place = place(figment, &path, &error);
            format!("{place}: `{path}` needs a key `{name}`: write it")
        }
        kind => format!("{}: `{path}` cannot be read: {kind}", place(figment, &path, &error)),
    }
}

fn place(figment: &Figment, key: &str, error: &figment::Error) -> String {
    origin(figment, key)
        .or_else(|| error.metadata.as_ref().map(|metadata| metadata.name.to_string()))
        .unwrap_or_else(|| "configuration".to_owned())
}
