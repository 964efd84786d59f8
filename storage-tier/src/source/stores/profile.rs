//! The files of AWS's tools: `~/.aws/credentials` and `~/.aws/config`, which `object_store` does not
//! read.

use std::collections::HashMap;
use std::path::PathBuf;

use object_store::aws::AmazonS3ConfigKey;

/// The longest file that is read, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
const KEYS: [(&str, AmazonS3ConfigKey); 5] = [
    ("aws_access_key_id", AmazonS3ConfigKey::AccessKeyId),
    ("aws_secret_access_key", AmazonS3ConfigKey::SecretAccessKey),
    ("aws_session_token", AmazonS3ConfigKey::Token),
    ("region", AmazonS3ConfigKey::Region),
    ("endpoint_url", AmazonS3ConfigKey::Endpoint),
];

/// What the files say of a profile.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Profile {
    /// Its name, if it holds a key.
    pub(super) name: Option<String>,
    pub(super) settings: Vec<(AmazonS3ConfigKey, String)>,
}

/// The profile of the environment: `AWS_PROFILE`, else `default`.
///
/// # Errors
/// A file that is there and cannot be read, or a profile that was named and is not there.
pub(super) fn read() -> Result<Profile, String> {
    let from_env = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let home = from_env("HOME").map(PathBuf::from);
    let file = |variable, name: &str| {
        let own = || Some(home.as_ref()?.join(".aws").join(name));
        from_env(variable).map(PathBuf::from).or_else(own)
    };
    let credentials = text(file("AWS_SHARED_CREDENTIALS_FILE", "credentials"))?;
    let config = text(file("AWS_CONFIG_FILE", "config"))?;
    let named = from_env("AWS_PROFILE").map(|name| name.to_string_lossy().into_owned());
    profile(&credentials, &config, named)
}

fn text(path: Option<PathBuf>) -> Result<String, String> {
    let Some(path) = path else { return Ok(String::new()) };
    let fault = |error: std::io::Error| format!("`{}` cannot be read: {error}", path.display());
    match std::fs::metadata(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(String::new()),
        Err(error) => return Err(fault(error)),
        Ok(found) if found.len() > FILE_BYTES_MAX => {
            return Err(format!("`{}` is too long for a file of credentials", path.display()));
        }
        Ok(_) => {}
    }
    std::fs::read_to_string(&path).map_err(fault)
}

/// Both files' words on a profile; those of `credentials` come first.
fn profile(credentials: &str, config: &str, named: Option<String>) -> Result<Profile, String> {
    let name = named.clone().unwrap_or_else(|| "default".to_owned());
    let of_config = if name == "default" { name.clone() } else { format!("profile {name}") };
    let first = section(credentials, &name);
    let second = section(config, &of_config);
    if let (Some(name), None, None) = (&named, &first, &second) {
        return Err(format!("`AWS_PROFILE` names `{name}`, which is in no file of `~/.aws`"));
    }
    let mut both = second.unwrap_or_default();
    both.extend(first.unwrap_or_default());
    let setting = |(name, key): (&str, _)| both.get(name).map(|value| (key, value.clone()));
    let settings: Vec<_> = KEYS.into_iter().filter_map(setting).collect();
    let holds = settings.iter().any(|(key, _)| *key == AmazonS3ConfigKey::AccessKeyId);
    Ok(Profile { name: holds.then_some(name), settings })
}

/// Keys and values of a section.
fn section(text: &str, wanted: &str) -> Option<HashMap<String, String>> {
    let mut found: Option<HashMap<String, String>> = None;
    let mut inside = false;
    for line in text.lines().map(str::trim_end) {
        if let Some(name) = line.trim().strip_prefix('[').and_then(|l| l.strip_suffix(']')) {
            inside = name.trim() == wanted;
            if inside {
                found.get_or_insert_default();
            }
        } else if let (true, Some((key, value))) = (inside, line.split_once('=')) {
            // Lines that are moved in belong to a section within the section.
            let plain = !line.starts_with([' ', '\t', '#', ';']);
            if let (true, Some(found)) = (plain, found.as_mut()) {
                found.insert(key.trim().to_ascii_lowercase(), value.trim().to_owned());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const CREDENTIALS: &str = "# mine\n[default]\naws_access_key_id = A\naws_secret_access_key=B=\n\
                               [other]\naws_access_key_id = C\n";
    const CONFIG: &str = "[default]\nregion = eu-west-1\ns3 =\n  endpoint_url = http://nested\n\
                          [profile other]\nendpoint_url = http://here:9000\n";

    #[test]
    fn a_profile_is_read_from_both_files() {
        use AmazonS3ConfigKey::{AccessKeyId, Endpoint, Region, SecretAccessKey};
        let own = |key, value: &str| (key, value.to_owned());
        let found = profile(CREDENTIALS, CONFIG, None).unwrap();
        let settings =
            vec![own(AccessKeyId, "A"), own(SecretAccessKey, "B="), own(Region, "eu-west-1")];
        assert_eq!(found, Profile { name: Some("default".to_owned()), settings });
        let found = profile(CREDENTIALS, CONFIG, Some("other".to_owned())).unwrap();
        assert_eq!(found.settings[1], own(Endpoint, "http://here:9000"));
        let fault = profile(CREDENTIALS, CONFIG, Some("third".to_owned())).unwrap_err();
        assert!(fault.contains("`AWS_PROFILE` names `third`"), "{fault}");
        assert_eq!(profile("", "", None).unwrap(), Profile::default());
    }
}
