//! Datasets of the Hugging Face hub: `hf://datasets/USER/NAME@REVISION/path`.
//!
//! A revision that moves, as `main` does, is pinned to its commit at the first request, so that a job
//! reads one state of it. Large files lie on other hosts, where signed URLs lead; the token never goes
//! there.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use bytes::Bytes;
use hyper::header::{ETAG, HeaderMap, HeaderValue};
use hyper::{Method, Uri};
use serde::Deserialize;
use tokio::sync::OnceCell;

use super::Version;
use super::distant::{ListedPart, Refusal, Remote};
use super::url::encoded;
use super::web::{
    Asked, Followed, Web, WebError, bounded_body, follow, is_anew, same_host, size_of_answer,
    tag_of_answer,
};
use super::web_server::{good, parsed, range_body, range_header};

/// How long a signed URL is used.
const SIGNED_FOR: Duration = Duration::from_secs(300);
/// Signed URLs that are kept.
const SIGNED_MAX: usize = 4096;
/// The longest page of a listing, in bytes.
const PAGE_BYTES_MAX: usize = 16 << 20;

/// One revision of one dataset.
#[derive(Debug)]
pub(crate) struct Hub {
    web: Arc<Web>,
    /// As `https://huggingface.co`.
    base: String,
    token: Option<HeaderValue>,
    /// `user/name`.
    dataset: String,
    revision: String,
    commit: OnceCell<String>,
    /// Where files' bytes lie, by their path.
    signed: Mutex<HashMap<String, Signed>>,
}

/// Where a file's bytes lie, for a while.
#[derive(Clone, Debug)]
struct Signed {
    uri: Uri,
    /// What that host calls their version.
    tag: Option<String>,
    since: Instant,
}

#[derive(Deserialize)]
struct Revision {
    sha: String,
}

/// A line of a listing.
#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    oid: String,
    #[serde(default)]
    size: u64,
    lfs: Option<Lfs>,
    path: String,
}

#[derive(Deserialize)]
struct Lfs {
    oid: String,
}

// === impl Hub ===

impl Hub {
    /// `place` as `user/name@revision`.
    pub(crate) fn new(
        web: Arc<Web>,
        base: &str,
        token: Option<&str>,
        place: &str,
    ) -> Result<Self, String> {
        let (dataset, revision) = place.split_once('@').unwrap_or((place, "main"));
        let header = |token: &str| {
            let mut header = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
                .map_err(|_| "the token of the hub holds what no token does: write it anew")?;
            header.set_sensitive(true);
            Ok::<_, String>(header)
        };
        Ok(Self {
            web,
            base: base.trim_end_matches('/').to_owned(),
            token: token.map(header).transpose()?,
            dataset: dataset.to_owned(),
            revision: revision.to_owned(),
            commit: OnceCell::new(),
            signed: Mutex::default(),
        })
    }

    async fn ask(
        &self,
        method: Method,
        uri: Uri,
        headers: HeaderMap,
        elsewhere: bool,
    ) -> Result<Followed, WebError> {
        let token = self.token.as_ref();
        follow(&self.web, Asked { method, uri, headers, token, elsewhere }).await
    }

    async fn json(&self, uri: Uri) -> Result<(Bytes, HeaderMap), Refusal> {
        let followed = self.ask(Method::GET, uri, HeaderMap::new(), false).await?;
        good(&followed)?;
        let headers = followed.answer.headers().clone();
        Ok((bounded_body(followed.answer, PAGE_BYTES_MAX).await?, headers))
    }

    /// The commit that the revision was at when it was first asked for.
    async fn commit(&self) -> Result<&str, Refusal> {
        let is_commit =
            |text: &str| text.len() == 40 && text.bytes().all(|b| b.is_ascii_hexdigit());
        let ask = || async {
            if is_commit(&self.revision) {
                return Ok(self.revision.clone());
            }
            let revision = encoded(&self.revision).replace('/', "%2F");
            let Self { base, dataset, .. } = self;
            let uri = parsed(format!("{base}/api/datasets/{dataset}/revision/{revision}"))?;
            let (body, _) = self.json(uri).await?;
            let Revision { sha } = serde_json::from_slice(&body).map_err(not_json)?;
            if !is_commit(&sha) {
                return Err(WebError::Unusable("the hub names a commit that is none").into());
            }
            tracing::info!(dataset, revision = self.revision, commit = sha, "a revision is pinned");
            Ok::<_, Refusal>(sha)
        };
        Ok(self.commit.get_or_try_init(ask).await?)
    }

    async fn resolve_url(&self, key: &str) -> Result<Uri, Refusal> {
        let (base, dataset) = (&self.base, &self.dataset);
        let commit = self.commit().await?;
        Ok(parsed(format!("{base}/datasets/{dataset}/resolve/{commit}/{}", encoded(key)))?)
    }

    fn signed(&self) -> std::sync::MutexGuard<'_, HashMap<String, Signed>> {
        self.signed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A range from where the file's bytes were found before.
    async fn get_signed(
        &self,
        signed: Signed,
        key: &str,
        version: &Version,
        range: Range<u64>,
    ) -> Result<Bytes, Refusal> {
        let asked = Asked {
            method: Method::GET,
            uri: signed.uri,
            headers: range_header(&range),
            token: None,
            elsewhere: true,
        };
        let got = async {
            let followed = follow(&self.web, asked).await?;
            good(&followed)?;
            if tag_of_answer(followed.answer.headers()) != signed.tag {
                return Err(Refusal::Changed);
            }
            range_body(followed, version, range).await
        };
        let got = got.await;
        if got.is_err() {
            self.signed().remove(key);
        }
        // Whatever it says: the hub is asked again, and knows.
        got.map_err(|refusal| match refusal {
            Refusal::NotFound | Refusal::Changed => {
                Refusal::Passing(Box::new(WebError::Unusable("a signed URL holds no longer")))
            }
            Refusal::Final(error) | Refusal::Passing(error) => Refusal::Passing(error),
        })
    }

    fn keep_signed(&self, key: &str, followed: &Followed) {
        let tag = tag_of_answer(followed.answer.headers());
        let now = Signed { uri: followed.uri.clone(), tag, since: Instant::now() };
        let mut signed = self.signed();
        if signed.len() >= SIGNED_MAX {
            signed.retain(|_, signed| signed.since.elapsed() < SIGNED_FOR);
            if signed.len() >= SIGNED_MAX {
                signed.clear();
            }
        }
        signed.insert(key.to_owned(), now);
    }
}

#[async_trait]
impl Remote for Hub {
    fn name(&self, key: &str) -> String {
        format!("hf://datasets/{}@{}/{key}", self.dataset, self.revision)
    }

    async fn head(&self, key: &str) -> Result<Version, Refusal> {
        let uri = self.resolve_url(key).await?;
        let followed = self.ask(Method::HEAD, uri, HeaderMap::new(), false).await?;
        if !followed.answer.status().is_redirection() {
            good(&followed)?;
        }
        let headers = followed.answer.headers();
        let linked = number(headers, "x-linked-size");
        // The length of a redirect is its own.
        let own = || size_of_answer(headers).filter(|_| followed.answer.status().is_success());
        let why = "the hub tells neither size nor `ETag` of it";
        match (linked.or_else(own), tag(headers)) {
            (Some(bytes), Some(tag)) => Ok(Version { bytes, tag }),
            _ => Err(WebError::Unusable(why).into()),
        }
    }

    async fn get(&self, key: &str, version: &Version, range: Range<u64>) -> Result<Bytes, Refusal> {
        let known = self.signed().get(key).cloned();
        // The host that it leads to may be what is broken: the hub may name another one.
        if let Some(signed) = known
            && signed.since.elapsed() < SIGNED_FOR
            && !is_anew()
        {
            return self.get_signed(signed, key, version, range).await;
        }
        let uri = self.resolve_url(key).await?;
        let followed = self.ask(Method::GET, uri.clone(), range_header(&range), true).await?;
        good(&followed)?;
        let headers = followed.first_host.as_ref().unwrap_or(followed.answer.headers());
        if tag(headers).is_some_and(|tag| tag != version.tag) {
            return Err(Refusal::Changed);
        }
        if !same_host(&followed.uri, &uri) {
            self.keep_signed(key, &followed);
        }
        range_body(followed, version, range).await
    }

    /// A page. The mark is the URL of the next one.
    async fn list(
        &self,
        folder: &str,
        behind: Option<&str>,
        _: usize,
    ) -> Result<ListedPart, Refusal> {
        let (base, dataset) = (&self.base, &self.dataset);
        let commit = self.commit().await?;
        let folder =
            if folder.is_empty() { String::new() } else { format!("/{}", encoded(folder)) };
        let first = format!("{base}/api/datasets/{dataset}/tree/{commit}{folder}?recursive=true");
        let first = parsed(first)?;
        let page = match behind {
            Some(page) => parsed(page.to_owned())?,
            None => first.clone(),
        };
        let (body, headers) = self.json(page).await?;
        let entries: Vec<Entry> = serde_json::from_slice(&body).map_err(not_json)?;
        let next = next_page(&headers).filter(|next| same_host(next, &first));
        let files = entries.into_iter().filter(|entry| entry.kind == "file");
        let object = |entry: Entry| {
            let tag = entry.lfs.map_or(entry.oid, |lfs| lfs.oid);
            (entry.path, Version { bytes: entry.size, tag })
        };
        Ok(ListedPart {
            objects: files.map(object).collect(),
            mark: next.map(|next| next.to_string()),
        })
    }
}

/// The version of a file: SHA-256 of a large one, git's own of another.
fn tag(headers: &HeaderMap) -> Option<String> {
    let linked = headers.get("x-linked-etag").or_else(|| headers.get(ETAG))?;
    let text = linked.to_str().ok()?.trim();
    Some(text.strip_prefix("W/").unwrap_or(text).trim_matches('"').to_owned())
}

fn number(headers: &HeaderMap, name: &str) -> Option<u64> {
    headers.get(name)?.to_str().ok()?.trim().parse().ok()
}

/// `<https://..>; rel="next"`.
fn next_page(headers: &HeaderMap) -> Option<Uri> {
    let links = headers.get("link")?.to_str().ok()?;
    let next = links.split(',').find(|link| link.contains("rel=\"next\""))?;
    next.split_once('<')?.1.split_once('>')?.0.parse().ok()
}

fn not_json(error: serde_json::Error) -> Refusal {
    Refusal::Passing(Box::new(error))
}
