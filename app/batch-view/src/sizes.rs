//! Sizes of the encoded images of a batch, which all draws of crops follow from.
//!
//! A receiver does not know them: they are read from the storage tier again, for a few samples and only when
//! somebody asks.

use std::sync::Arc;

use headwater_core::draw::Extent;
use headwater_core::recipe::DecodeLimits;
use headwater_core::{Manifest, SampleRef};
use headwater_receiver::ReceiverConfig;
use headwater_render::decode::Decoder;
use headwater_render::part::SampleFields;
use headwater_storage_client::{
    EncodedSample, LocalFiles, StorageClient, StorageClientConfig, StorageClientError,
};
use tokio::sync::OnceCell;

/// Longest wait for the storage tier to answer the first time.
const WAIT_LIMIT_MS: u64 = 5_000;

/// Reads images again.
#[derive(Debug)]
pub(crate) struct Sizes {
    client: OnceCell<StorageClient>,
    config: StorageClientConfig,
    /// Which files of a sample to read; the error says why they cannot be named.
    fields: Result<SampleFields, String>,
    limits: DecodeLimits,
}

// === impl Sizes ===

impl Sizes {
    pub(crate) fn new(config: &ReceiverConfig, limits: DecodeLimits) -> Self {
        let fields = SampleFields::parse(&config.samples.image_field, &config.samples.label_field);
        Self {
            client: OnceCell::new(),
            config: StorageClientConfig {
                nodes: config.storage.clone(),
                local_files: LocalFiles::Off,
                access: config.security.clone(),
                wait_limit_ms: WAIT_LIMIT_MS,
                ..StorageClientConfig::default()
            },
            fields: fields.map_err(|error| error.to_string()),
            limits,
        }
    }

    /// Width and height of each image of `samples`; `used` are the numbers in their shards of the ones that are
    /// in the batch.
    ///
    /// # Errors
    /// A sentence for people: the storage tier does not answer, or an image cannot be decoded.
    pub(crate) async fn read(
        &self,
        manifests: &[Arc<Manifest>],
        samples: &[(SampleRef, u32)],
    ) -> Result<Vec<Extent>, String> {
        let fields = self.fields.clone()?;
        let encoded =
            self.encoded(manifests, samples, &fields).await.map_err(|error| error.to_string())?;
        let limits = self.limits;
        let sizes = tokio::task::spawn_blocking(move || {
            let mut decoder = Decoder::new(limits).map_err(|error| error.to_string())?;
            let size = |sample: &EncodedSample| {
                let image = fields.image(sample).map_err(|fault| fault.to_string())?;
                let image = decoder.decode(&image).map_err(|error| error.to_string())?;
                Ok(image.extent())
            };
            encoded.iter().map(size).collect()
        });
        sizes.await.map_err(|error| error.to_string())?
    }

    async fn encoded(
        &self,
        manifests: &[Arc<Manifest>],
        samples: &[(SampleRef, u32)],
        fields: &SampleFields,
    ) -> Result<Vec<EncodedSample>, StorageClientError> {
        let connect = || StorageClient::connect(self.config.clone());
        let client = self.client.get_or_try_init(connect).await?;
        let mut encoded = Vec::with_capacity(samples.len());
        for (asked, used_index) in samples {
            let dataset = client.dataset(Arc::clone(&manifests[usize::from(asked.dataset)]));
            encoded.extend(dataset.read(asked.shard, &[*used_index], fields.selection()).await?);
        }
        Ok(encoded)
    }
}
