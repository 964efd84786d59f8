//! What is wrong with a merged configuration, in one line that names the place, the key and the
//! remedy.

use figment::Figment;
use figment::error::Kind;

use crate::error::ConfigError;
use crate::origin::origin;
use crate::sections::Section;

/// Keys that are listed where none is near the one that was written.
const LISTED_MAX: usize = 16;
/// Sections and keys that were elsewhere once, the section where they are now, and the reason.
const MOVED: [(&str, &str, &str, &str); 2] = [
    ("augment", "decode_pixels_max", "recipe", DECIDES),
    ("augment", "decode_jpeg_scans_max", "recipe", DECIDES),
];
const DECIDES: &str = "it decides which samples are bad, so all workers must have the same; a worker's \
                       own bound is `augment.image_pixels_max`";
/// How alike two names are, from 0 to 1, when one may be meant for the other.
const ALIKE_MIN: f64 = 0.8;

/// The first error of a figment.
pub(crate) fn explained(figment: &Figment, error: figment::Error) -> ConfigError {
    let Some(error) = error.clone().into_iter().next() else {
        return ConfigError::Place(error.to_string());
    };
    let path = error.path.as_slice();
    let (key, problem) = match &error.kind {
        Kind::UnknownField(name, known) => {
            // The path has the name already, unless the key stands within an operation.
            let within = match path.split_last() {
                Some((last, within)) if last == name => within,
                _ => path,
            };
            let key = [within, std::slice::from_ref(name)].concat();
            let known = known.iter().copied().filter(|known| is_written(within, known));
            let problem = moved(&key).unwrap_or_else(|| {
                let remedy = remedy(name, &known.collect::<Vec<_>>(), within);
                format!("unknown key `{}`: {remedy}", spelled(&key))
            });
            (key.join("."), problem)
        }
        Kind::MissingField(name) => {
            (path.join("."), format!("`{}` needs a key `{name}`: write it", spelled(path)))
        }
        Kind::UnknownVariant(found, known) => {
            let known: Vec<String> = known.iter().map(|known| format!("`{known}`")).collect();
            let known = known.join(", ");
            (path.join("."), format!("`{}` is `{found}`: must be one of {known}", spelled(path)))
        }
        kind => (path.join("."), format!("`{}` cannot be read: {kind}", spelled(path))),
    };
    let place = origin(figment, &key)
        .or_else(|| error.metadata.as_ref().map(|metadata| metadata.name.to_string()))
        .unwrap_or_else(|| "configuration".to_owned());
    ConfigError::Key { place, problem }
}

/// The one of `known` that `name` may be meant for.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let alike = known.into_iter().map(|known| (strsim::jaro_winkler(name, known), known));
    let best = alike.max_by(|a, b| a.0.total_cmp(&b.0))?;
    (best.0 >= ALIKE_MIN).then_some(best.1)
}

fn remedy(name: &str, known: &[&str], within: &[String]) -> String {
    if let Some(meant) = nearest(name, known.iter().copied()) {
        let meant = spelled(&[within, &[meant.to_owned()]].concat());
        return format!("did you mean `{meant}`?");
    }
    let place = match within {
        [] => "the file".to_owned(),
        within => format!("`{}`", spelled(within)),
    };
    if known.len() <= LISTED_MAX {
        format!("known keys of {place} are {}", known.join(", "))
    } else {
        format!("`headwater config` lists the keys of {place}")
    }
}

/// What to say of a key that is elsewhere now.
fn moved(key: &[String]) -> Option<String> {
    let [section, name] = key else { return None };
    let (.., now, reason) =
        MOVED.iter().find(|(before, key, ..)| before == section && key == name)?;
    Some(format!("`{section}.{name}` is `{now}.{name}` now: {reason}"))
}

/// Whether a field of a section's struct is a key of the file. Fields further down all are.
fn is_written(within: &[String], name: &str) -> bool {
    match within {
        [section] => Section::named(section).is_none_or(|section| section.has(name)),
        _ => true,
    }
}

/// A path with the numbers of entries in brackets: `recipe.tensors[0].views`.
fn spelled(path: &[String]) -> String {
    let mut text = String::new();
    for part in path {
        if part.parse::<usize>().is_ok() {
            text.push_str(&format!("[{part}]"));
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(part);
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use crate::{Loaded, Sources};

    #[test]
    fn an_error_names_keys_as_the_file_does_wherever_the_struct_nests_them() {
        for (text, expected) in [
            (
                "[receiver]\nheartbeat_ms = \"x\"",
                "`receiver.heartbeat_ms` cannot be read: invalid type: found string \"x\", expected u32",
            ),
            ("[receiver]\norder = \"x\"", "`receiver.order` is `x`: must be one of `global`"),
            ("[receiver.masks]\nratio = 1", "unknown key `receiver.masks.ratio`: did you mean"),
            (
                "[storage]\ncache = [{ dir = \"/a\" }]",
                "`storage.cache[0]` needs a key `bytes`: write it",
            ),
            (
                "[augment]\nsesions_max = 1",
                "unknown key `augment.sesions_max`: did you mean `augment.sessions_max`?",
            ),
            ("[augment.leases]\nqueue_parts = 1", "unknown key `augment.leases`: did you mean"),
            ("storage = 1", "`storage` cannot be read: invalid type: found signed int `1`"),
        ] {
            let read = Loaded::read(&Sources::text("job.toml", text));
            let said = read.map(drop).expect_err(text).to_string();
            assert!(said.starts_with(&format!("job.toml: {expected}")), "{said}");
        }
    }
}
