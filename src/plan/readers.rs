//! What reads samples, as a worker does.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow};
use headwater_augment::decode::Decoder;
use headwater_augment::part::PartPlan;
use headwater_augment::render::Followers;
use headwater_augment::siblings::FieldReaders;
use headwater_augment::simd::Simd;
use headwater_augment::tokenizers::Tokenizers;
use headwater_config::Config;
use headwater_core::Recipe;

/// Decodes images, and reads what lies beside them.
pub(super) struct Readers {
    pub(super) decoder: Decoder,
    pub(super) fields: FieldReaders,
    pub(super) followers: Followers,
}

// === impl Readers ===

impl Readers {
    /// For the samples of a recipe. Tokenizers are those that the recipe or `augment.tokenizers` names.
    pub(super) fn new(config: &Config, recipe: &Recipe) -> Result<Self> {
        let named = recipe.tokens().map(|(_, tokens)| PathBuf::from(&tokens.tokenizer));
        let mut paths: Vec<PathBuf> = named.filter(|path| !path.as_os_str().is_empty()).collect();
        paths.extend(config.augment.tokenizers.iter().cloned());
        let tokenizers = Tokenizers::open(&paths)?;
        let mut recipe = recipe.clone();
        recipe.set_tokenizers(|path| {
            let file = Tokenizers::open(&[PathBuf::from(path)])?;
            let sha256 = file.sha256s().next().map(str::to_owned);
            sha256.context("a tokenizer has a digest")
        })?;
        let plan = PartPlan::new(Arc::new(recipe)).tokenizing(&tokenizers);
        let plan = plan.map_err(|reason| anyhow!(reason))?;
        Ok(Self {
            decoder: Decoder::new(config.recipe.decode_limits())?,
            fields: plan.fields().clone(),
            followers: Followers::new(Simd::best()),
        })
    }
}
