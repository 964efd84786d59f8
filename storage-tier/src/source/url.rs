//! URLs of objects: which source, which name there, and what may be named at all.

/// The URL of an object or a folder, without credentials.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SourceUrl {
    pub(crate) scheme: Scheme,
    /// Bucket, container or host; for the hub `user/name@revision`.
    pub(crate) place: String,
    /// What is named there; empty for all of it.
    pub(crate) key: String,
}

/// What kind of source it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    S3,
    Gcs,
    Azure,
    Http,
    Https,
    Hub,
}

const SCHEMES: [(&str, Scheme); 9] = [
    ("s3", Scheme::S3),
    ("s3a", Scheme::S3),
    ("gs", Scheme::Gcs),
    ("az", Scheme::Azure),
    ("abfs", Scheme::Azure),
    ("abfss", Scheme::Azure),
    ("http", Scheme::Http),
    ("https", Scheme::Https),
    ("hf", Scheme::Hub),
];
const HUB_FORM: &str = "write `hf://datasets/USER/NAME@REVISION/path`";

// === impl Scheme ===

impl Scheme {
    /// As it is written in messages.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gs",
            Self::Azure => "az",
            Self::Http => "http",
            Self::Https => "https",
            Self::Hub => "hf",
        }
    }
}

// === impl SourceUrl ===

impl SourceUrl {
    /// Whether a name is a URL at all.
    pub(crate) fn is_one(name: &str) -> bool {
        name.contains("://")
    }

    /// Reads one. A key may hold the signs of a pattern.
    ///
    /// # Errors
    /// Says what is wrong and how to write it.
    pub(crate) fn parse(url: &str) -> Result<Self, String> {
        let (name, rest) = url.split_once("://").ok_or("has no scheme: write `s3://bucket/key`")?;
        let known = SCHEMES.iter().find(|(known, _)| known.eq_ignore_ascii_case(name));
        let Some((_, scheme)) = known.copied() else {
            let names: Vec<_> = SCHEMES.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            return Err(format!("`{}` is not served: there are {names}", name.escape_debug()));
        };
        if rest.chars().any(|c| c.is_control()) {
            return Err("holds a control character: leave it out".to_owned());
        }
        let (place, key) = match scheme {
            Scheme::Hub => hub_parts(rest)?,
            _ => {
                let (place, key) = rest.split_once('/').unwrap_or((rest, ""));
                (place.to_owned(), key)
            }
        };
        check_place(scheme, &place)?;
        if matches!(scheme, Scheme::Http | Scheme::Https) && key.contains(['?', '#', '*', '[']) {
            let why =
                "a web server lists nothing and takes no queries here: name each file, braces help";
            return Err(why.to_owned());
        }
        if key.split('/').any(|part| part == ".." || part == ".") {
            return Err("holds `.` or `..`: name the object itself".to_owned());
        }
        let key = key.trim_matches('/').to_owned();
        Ok(Self { scheme, place, key })
    }

    /// Whether it lies below this one, which is read from `storage.roots`.
    pub(crate) fn holds(&self, other: &Self) -> bool {
        let below = match other.key.strip_prefix(&self.key) {
            Some(rest) => self.key.is_empty() || rest.is_empty() || rest.starts_with('/'),
            None => false,
        };
        (self.scheme, &self.place) == (other.scheme, &other.place) && below
    }
}

/// `user/name@revision` and the path.
fn hub_parts(rest: &str) -> Result<(String, &str), String> {
    let rest = rest.strip_prefix("datasets/").ok_or(HUB_FORM)?;
    let (user, rest) = rest.split_once('/').ok_or(HUB_FORM)?;
    let (name, path) = rest.split_once('/').unwrap_or((rest, ""));
    if user.contains('@') {
        return Err(HUB_FORM.to_owned());
    }
    let (name, revision) = name.split_once('@').unwrap_or((name, "main"));
    // `refs/convert/parquet` and `refs/pr/1` are the revisions with slashes.
    let (revision, path) = match (revision, path.splitn(3, '/').collect::<Vec<_>>().as_slice()) {
        ("refs", [kind @ ("convert" | "pr"), which, rest @ ..]) => {
            (format!("refs/{kind}/{which}"), rest.first().copied().unwrap_or(""))
        }
        _ => (revision.replace("%2F", "/").replace("%2f", "/"), path),
    };
    Ok((format!("{user}/{name}@{revision}"), path))
}

/// Buckets, hosts and names of datasets have few signs, and none of a password.
fn check_place(scheme: Scheme, place: &str) -> Result<(), String> {
    if scheme != Scheme::Hub && place.contains('@') {
        let azure = "write `az://container/path`, and the account in `AZURE_STORAGE_ACCOUNT_NAME`";
        let other = "leave out what is before the `@`: credentials come from the environment";
        return Err(if scheme == Scheme::Azure { azure } else { other }.to_owned());
    }
    let also: &[char] = match scheme {
        Scheme::Http | Scheme::Https => &['.', '-', ':', '[', ']', '_'],
        Scheme::Hub => &['.', '-', '_', '/', '@'],
        _ => &['.', '-', '_', '$', ':'],
    };
    let fine = |c: char| c.is_ascii_alphanumeric() || also.contains(&c);
    let named = !place.is_empty() && place.split(['/', '@']).all(|part| !part.is_empty());
    if !named || !place.chars().all(fine) || place.contains("..") {
        let what = match scheme {
            Scheme::Http | Scheme::Https => "host",
            Scheme::Hub => return Err(HUB_FORM.to_owned()),
            _ => "bucket",
        };
        return Err(format!("`{}` is no name of a {what}", place.escape_debug()));
    }
    Ok(())
}

/// A path as it stands in a URL, if it is not one yet: what is `%41` there already stays so.
pub(crate) fn encoded_url(path: &str) -> String {
    path.split('%').map(encoded).collect::<Vec<_>>().join("%")
}

/// A path as it stands in a URL.
pub(crate) fn encoded(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,;=:@".contains(&byte);
        if plain {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> (Scheme, String, String) {
        let url = SourceUrl::parse(url).unwrap_or_else(|fault| panic!("{url}: {fault}"));
        (url.scheme, url.place, url.key)
    }

    #[test]
    fn each_scheme_has_its_parts() {
        let own = |scheme, place: &str, key: &str| (scheme, place.to_owned(), key.to_owned());
        assert_eq!(parse("s3://b/ds/a.tar"), own(Scheme::S3, "b", "ds/a.tar"));
        assert_eq!(parse("S3A://b"), own(Scheme::S3, "b", ""));
        assert_eq!(parse("gs://b/x/"), own(Scheme::Gcs, "b", "x"));
        assert_eq!(parse("abfs://c/a*.tar"), own(Scheme::Azure, "c", "a*.tar"));
        assert_eq!(parse("http://h:81/a b"), own(Scheme::Http, "h:81", "a b"));
        let hub = |url: &str, place: &str, key: &str| {
            assert_eq!(parse(url), own(Scheme::Hub, place, key));
        };
        hub("hf://datasets/u/n/d/x.parquet", "u/n@main", "d/x.parquet");
        hub("hf://datasets/u/n@v1.0/x", "u/n@v1.0", "x");
        hub("hf://datasets/u/n@refs/convert/parquet/d/x", "u/n@refs/convert/parquet", "d/x");
        hub("hf://datasets/u/n@refs%2Fpr%2F7/x", "u/n@refs/pr/7", "x");
    }

    #[test]
    fn what_cannot_be_served_is_named_with_a_remedy() {
        for (url, named) in [
            ("ftp://h/x", "`ftp` is not served: there are s3, s3a, gs"),
            ("s3:///x", "is no name of a bucket"),
            ("s3://AKIA:secret@b/x", "leave out what is before the `@`"),
            ("az://c@account/x", "AZURE_STORAGE_ACCOUNT_NAME"),
            ("https://u:p@h/x", "leave out what is before the `@`"),
            ("https://h/x?sig=1", "takes no queries"),
            ("https://h/*.tar", "name each file"),
            ("hf://u/n/x", "hf://datasets/USER/NAME"),
            ("hf://datasets/u", "hf://datasets/USER/NAME"),
            ("hf://datasets/u@main/n/x", "hf://datasets/USER/NAME"),
            ("hf://datasets/u/n@/x", "hf://datasets/USER/NAME"),
            ("s3://b/../c/x", "name the object itself"),
            ("s3://b/a\nb", "control character"),
        ] {
            let fault = SourceUrl::parse(url).unwrap_err();
            assert!(fault.contains(named), "{url}: {fault}");
            assert!(!fault.contains("secret"), "{fault}");
        }
    }

    #[test]
    fn a_root_holds_what_lies_below_it_and_nothing_beside_it() {
        let url = |url| SourceUrl::parse(url).unwrap();
        let root = url("s3://b/ds/");
        for (other, holds) in [
            ("s3://b/ds/a.tar", true),
            ("s3://b/ds", true),
            ("s3://b/ds2/a.tar", false),
            ("s3://b/a.tar", false),
            ("s3://c/ds/a.tar", false),
            ("gs://b/ds/a.tar", false),
        ] {
            assert_eq!(root.holds(&url(other)), holds, "{other}");
        }
        assert!(url("s3://b").holds(&url("s3://b/x")));
    }

    #[test]
    fn any_bytes_are_a_url_or_are_refused() {
        let seeds = ["s3://b/k", "hf://datasets/u/n@r/p", "https://h:1/p", "az://c/p"];
        let mut state = 1_u64;
        for seed in seeds.iter().cycle().take(20_000) {
            let mut bytes = seed.as_bytes().to_vec();
            for _ in 0..3 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = (state >> 33) as usize % bytes.len();
                bytes[at] = (state >> 40) as u8;
            }
            let Ok(url) = SourceUrl::parse(&String::from_utf8_lossy(&bytes)) else { continue };
            assert!(!url.place.is_empty() && !url.key.starts_with('/'), "{url:?}");
            assert!(!url.place.contains(char::is_whitespace) && !url.key.contains("/../"));
            assert!(url.holds(&url));
        }
    }

    #[test]
    fn paths_are_encoded_for_urls() {
        assert_eq!(encoded("a b/ü%?#.tar"), "a%20b/%C3%BC%25%3F%23.tar");
        assert_eq!(encoded_url("a b/%41.tar"), "a%20b/%41.tar");
    }
}
