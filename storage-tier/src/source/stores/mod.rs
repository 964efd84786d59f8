//! Object stores by the `object_store` crate: S3 and what speaks its protocol, Google, Azure.
//!
//! The crate signs, lists and reads; its requests go through this node's own HTTP client, and are
//! made again by this node's own rules.

mod connector;
mod profile;

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::StreamExt;
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::MicrosoftAzureBuilder;
use object_store::gcp::GoogleCloudStorageBuilder;
use object_store::path::Path;
use object_store::{
    BackoffConfig, Error, GetOptions, GetRange, ObjectMeta, ObjectStore, RetryConfig,
};

use super::Version;
use super::distant::{ListedPart, Refusal, Remote};
use super::url::Scheme;
use super::web::{Web, WebError};
use connector::Connector;

/// One bucket or container.
#[derive(Debug)]
pub(crate) struct Bucket {
    /// As `s3://bucket`.
    base: String,
    store: Arc<dyn ObjectStore>,
}

/// A store that cannot be spoken to as it is configured.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct Unusable(String);

// === impl Bucket ===

impl Bucket {
    /// A bucket, by what the environment says of its store. Nothing is asked yet.
    ///
    /// # Errors
    /// The environment holds what cannot work; says what.
    pub(crate) fn open(scheme: Scheme, bucket: &str, web: &Arc<Web>) -> Result<Self, String> {
        let base = format!("{}://{bucket}", scheme.name());
        let store = match scheme {
            Scheme::Gcs => gcs(bucket, web),
            Scheme::Azure => azure(bucket, web),
            _ => s3(bucket, web),
        };
        Ok(Self { base, store: store? })
    }

    /// A bucket of an S3 store with these options, and none of the environment's.
    #[cfg(test)]
    pub(crate) fn s3_with(
        bucket: &str,
        web: &Arc<Web>,
        options: &[(AmazonS3ConfigKey, String)],
    ) -> Self {
        let mut builder = AmazonS3Builder::new();
        for (key, value) in options {
            builder = builder.with_config(*key, value);
        }
        let store = s3_built(builder, bucket, web).unwrap();
        Self { base: format!("s3://{bucket}"), store }
    }

    fn version(meta: &ObjectMeta) -> Result<Version, Refusal> {
        // The time of the last change has whole seconds: two objects may share one.
        let tag = meta.e_tag.as_ref().ok_or(WebError::Unusable(
            "the store tells no `ETag`, so that a change would not be noticed: copy the object to \
             another place",
        ))?;
        // Some stores quote it in headers and not in listings.
        Ok(Version { bytes: meta.size, tag: tag.trim_matches('"').to_owned() })
    }
}

fn s3(bucket: &str, web: &Arc<Web>) -> Result<Arc<dyn ObjectStore>, String> {
    let mut builder = AmazonS3Builder::from_env();
    let profile = profile::read()?;
    for (key, value) in profile.settings {
        // The environment comes first.
        if builder.get_config_value(&key).is_none() {
            builder = builder.with_config(key, value);
        }
    }
    let has = |key| builder.get_config_value(&key).is_some();
    let from = match (has(AmazonS3ConfigKey::AccessKeyId), profile.name) {
        (true, Some(profile)) => format!("profile `{profile}`, after the environment"),
        (true, None) => "environment".to_owned(),
        (false, _) if has(AmazonS3ConfigKey::WebIdentityTokenFile) => "web identity".to_owned(),
        (false, _) => "the machine's role (none in the environment, no profile)".to_owned(),
    };
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint);
    tracing::info!(bucket, credentials = from, endpoint, "an S3 store is a source");
    s3_built(builder, bucket, web)
}

fn s3_built(
    builder: AmazonS3Builder,
    bucket: &str,
    web: &Arc<Web>,
) -> Result<Arc<dyn ObjectStore>, String> {
    let connector = Connector::new(web.clone(), "AWS_ALLOW_HTTP");
    let builder = builder.with_bucket_name(bucket).with_retry(once());
    Ok(Arc::new(builder.with_http_connector(connector).build().map_err(|e| e.to_string())?))
}

fn gcs(bucket: &str, web: &Arc<Web>) -> Result<Arc<dyn ObjectStore>, String> {
    let connector = Connector::new(web.clone(), "GOOGLE_ALLOW_HTTP");
    let builder = GoogleCloudStorageBuilder::from_env().with_bucket_name(bucket);
    let builder = builder.with_retry(once()).with_http_connector(connector);
    Ok(Arc::new(builder.build().map_err(|error| error.to_string())?))
}

fn azure(container: &str, web: &Arc<Web>) -> Result<Arc<dyn ObjectStore>, String> {
    let connector = Connector::new(web.clone(), "AZURE_ALLOW_HTTP");
    let builder = MicrosoftAzureBuilder::from_env().with_container_name(container);
    let builder = builder.with_retry(once()).with_http_connector(connector);
    Ok(Arc::new(builder.build().map_err(|error| error.to_string())?))
}

/// Requests are made again in one place only: not here.
fn once() -> RetryConfig {
    RetryConfig { backoff: BackoffConfig::default(), max_retries: 0, ..Default::default() }
}

fn path(key: &str) -> Result<Path, Refusal> {
    Path::parse(key).map_err(|error| Refusal::Final(Box::new(error)))
}

/// What the crate's error means here. Its own text is not told: it may hold a signed URL.
fn refusal(error: Error) -> Refusal {
    match error {
        Error::NotFound { .. } => return Refusal::NotFound,
        Error::Precondition { .. } => return Refusal::Changed,
        Error::InvalidPath { source } => return Refusal::Final(Box::new(source)),
        _ => {}
    }
    if let Some(error) = connector::cause(&error) {
        return error.into();
    }
    let text = error.to_string();
    let text = text.split_whitespace().map(|word| word.split('?').next().unwrap_or(word));
    Refusal::Passing(Box::new(Unusable(text.collect::<Vec<_>>().join(" "))))
}

#[async_trait]
impl Remote for Bucket {
    fn name(&self, key: &str) -> String {
        format!("{}/{key}", self.base)
    }

    async fn head(&self, key: &str) -> Result<Version, Refusal> {
        let options = GetOptions { head: true, ..Default::default() };
        let got = self.store.get_opts(&path(key)?, options).await.map_err(refusal)?;
        Self::version(&got.meta)
    }

    async fn get(&self, key: &str, version: &Version, range: Range<u64>) -> Result<Bytes, Refusal> {
        let quoted = !version.tag.starts_with("W/");
        let options = GetOptions {
            if_match: quoted.then(|| format!("\"{}\"", version.tag)),
            range: Some(GetRange::Bounded(range.clone())),
            ..Default::default()
        };
        let got = self.store.get_opts(&path(key)?, options).await.map_err(refusal)?;
        if Self::version(&got.meta)? != *version {
            return Err(Refusal::Changed);
        }
        let wanted = range.end - range.start;
        let length = |got: u64| Refusal::from(WebError::Length { wanted, got });
        if got.range != range {
            return Err(length(got.range.end - got.range.start));
        }
        let mut chunks = got.into_stream();
        let mut whole = BytesMut::with_capacity(wanted as usize);
        while let Some(chunk) = chunks.next().await {
            let chunk = chunk.map_err(refusal)?;
            if (whole.len() + chunk.len()) as u64 > wanted {
                return Err(length((whole.len() + chunk.len()) as u64));
            }
            whole.extend_from_slice(&chunk);
        }
        if whole.len() as u64 != wanted {
            return Err(length(whole.len() as u64));
        }
        Ok(whole.freeze())
    }

    /// The mark is the last name of a part: stores list in the order of names.
    async fn list(
        &self,
        folder: &str,
        behind: Option<&str>,
        max: usize,
    ) -> Result<ListedPart, Refusal> {
        let prefix = path(folder)?;
        let listed = match behind {
            Some(name) => self.store.list_with_offset(Some(&prefix), &path(name)?),
            None => self.store.list(Some(&prefix)),
        };
        let mut listed = listed.take(max);
        let (mut found, mut mark): (Vec<(String, Version)>, _) = (Vec::new(), None);
        while let Some(meta) = listed.next().await {
            let meta: ObjectMeta = match meta {
                Ok(meta) => meta,
                Err(error) => {
                    // What came before it is kept, and what follows is asked for again.
                    let in_order = found.is_sorted_by(|(a, _), (b, _)| a < b);
                    mark = found.last().map(|(name, _)| name.clone()).filter(|_| in_order);
                    if mark.is_none() {
                        return Err(refusal(error));
                    }
                    break;
                }
            };
            found.push((meta.location.as_ref().to_owned(), Self::version(&meta)?));
        }
        Ok(ListedPart { objects: found, mark })
    }
}
