//! A remote each of whose requests goes over a connection of its own.

use std::ops::Range;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;

use super::super::Version;
use super::super::web::anew;
use super::{ListedPart, Refusal, Remote};

/// The remote that it is otherwise.
#[derive(Debug)]
pub(super) struct Anew(pub(super) Arc<dyn Remote>);

#[async_trait]
impl Remote for Anew {
    fn name(&self, key: &str) -> String {
        self.0.name(key)
    }

    async fn head(&self, key: &str) -> Result<Version, Refusal> {
        anew(self.0.head(key)).await
    }

    async fn get(&self, key: &str, version: &Version, range: Range<u64>) -> Result<Bytes, Refusal> {
        anew(self.0.get(key, version, range)).await
    }

    fn can_list(&self) -> bool {
        self.0.can_list()
    }

    async fn list(
        &self,
        folder: &str,
        behind: Option<&str>,
        max: usize,
    ) -> Result<ListedPart, Refusal> {
        anew(self.0.list(folder, behind, max)).await
    }
}
