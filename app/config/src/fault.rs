//! What is wrong with a merged configuration, in one line that names the place, the key and the
//! remedy.

use figment::Figment;
use figment::error::Kind;
use serde_json::Value;

use crate::Config;
use crate::error::ConfigError;
use crate::origin::origin;
use crate::sections::Section;
use crate::wanted::{key_within, wanted};

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
            let path =
                &[path, &key_within(figment, path, &error.kind).unwrap_or_default()].concat();
            let known = known.iter().copied().filter(|known| is_taken(path, known));
            let meant = nearest(found, known.clone());
            let meant =
                meant.map(|meant| format!("did you mean `{meant}`? It ")).unwrap_or_default();
            let known: Vec<String> = known.map(|known| format!("`{known}`")).collect();
            let known = known.join(", ");
            let problem =
                format!("`{}` is `{found}`: {meant}must be one of {known}", spelled(path));
            (path.join("."), problem)
        }
        kind => {
            let within = key_within(figment, path, kind).unwrap_or_default();
            let key = [path, &within].concat();
            let problem = match wanted(kind) {
                Some(wanted) => format!("`{}` {wanted}", spelled(&key)),
                None => format!("`{}` cannot be read: {kind}", spelled(&key)),
            };
            (key.join("."), problem)
        }
    };
    let place = origin(figment, &key)
        .or_else(|| error.metadata.as_ref().map(|metadata| metadata.name.to_string()))
        .unwrap_or_else(|| "configuration".to_owned());
    ConfigError::Key { place, problem }
}

/// The error of a list that has more values than its key takes; a reader of few does not look at the others.
pub(crate) fn cut_list(figment: &Figment, config: &Config) -> Option<ConfigError> {
    let given = figment.extract::<Value>().ok()?;
    let taken = serde_json::to_value(config).ok()?;
    let (path, len, most) = cut(&given, &taken, &mut Vec::new())?;
    let key = path.join(".");
    let place = origin(figment, &key).unwrap_or_else(|| "configuration".to_owned());
    let problem = format!("`{}` has {len} values: give a list of {most}", spelled(&path));
    Some(ConfigError::Key { place, problem })
}

fn cut(given: &Value, taken: &Value, at: &mut Vec<String>) -> Option<(Vec<String>, usize, usize)> {
    let pairs: Vec<(String, &Value, &Value)> = match (given, taken) {
        (Value::Object(given), Value::Object(taken)) => {
            let both = |(name, value)| Some((String::clone(name), value, taken.get(name)?));
            given.iter().filter_map(both).collect()
        }
        (Value::Array(given), Value::Array(taken)) => {
            if given.len() > taken.len() {
                return Some((at.clone(), given.len(), taken.len()));
            }
            let pairs = given.iter().zip(taken).enumerate();
            pairs.map(|(number, (given, taken))| (number.to_string(), given, taken)).collect()
        }
        _ => return None,
    };
    pairs.into_iter().find_map(|(name, given, taken)| {
        at.push(name);
        let found = cut(given, taken, at);
        at.pop();
        found
    })
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

/// Whether a key takes a value of its type. Images of a preset have few of all element types.
fn is_taken(path: &[String], value: &str) -> bool {
    const OF_IMAGES: [&str; 6] = ["bf16", "f16", "f32", "u8", "fp8_e4m3", "mxfp8_e4m3"];
    match path {
        [recipe, dtype] if recipe == "recipe" && dtype == "dtype" => OF_IMAGES.contains(&value),
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
                "`receiver.heartbeat_ms` is \"x\": give a whole number, 0 or more",
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
            ("storage = 1", "`storage` is 1: give a table of keys and values"),
            (
                "[recipe]\nmean = [0.5, 0.5, 0.5, 0.5]",
                "`recipe.mean` has 4 values: give a list of 3",
            ),
            (
                "[receiver.mixing]\ncutmix_minmax = [0.2, 0.5, 0.9]",
                "`receiver.mixing.cutmix_minmax` has 3 values: give a list of 2",
            ),
        ] {
            let read = Loaded::read(&Sources::text("job.toml", text));
            let said = read.map(drop).expect_err(text).to_string();
            assert!(said.starts_with(&format!("job.toml: {expected}")), "{said}");
        }
    }
}
