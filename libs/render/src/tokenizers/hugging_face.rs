//! Tokenizers by Hugging Face's crate.

use headwater_core::recipe::TokensSpec;
use tokenizers::{
    PaddingDirection, PaddingParams, PaddingStrategy, PostProcessor as _, Tokenizer,
    TruncationDirection, TruncationParams,
};

/// A tokenizer as its file says, or with the length of one field.
pub(super) struct Encoder(Tokenizer);

// === impl Encoder ===

impl Encoder {
    /// # Errors
    /// It is no `tokenizer.json`.
    pub(super) fn from_file(bytes: &[u8]) -> Result<Self, String> {
        let tokenizer = Tokenizer::from_bytes(bytes);
        tokenizer
            .map(Self)
            .map_err(|error| format!("is no tokenizer.json of Hugging Face's tokenizers: {error}"))
    }

    /// The same tokenizer, which cuts and pads to a field's length. Sides and id of padding are the file's where
    /// neither file nor recipe says otherwise on the right, with 0.
    ///
    /// # Errors
    /// It cannot make ids of that length.
    pub(super) fn of_length(&self, spec: &TokensSpec) -> Result<Self, String> {
        let file = &self.0;
        let mut tokenizer = file.clone();
        let length = spec.length as usize;
        let own = file.get_padding();
        let padding = PaddingParams {
            strategy: PaddingStrategy::Fixed(length),
            direction: own.map_or(PaddingDirection::Right, |own| own.direction),
            pad_to_multiple_of: None,
            pad_id: spec.pad_id.unwrap_or_else(|| own.map_or(0, |own| own.pad_id)),
            pad_type_id: 0,
            pad_token: own.map(|own| own.pad_token.clone()).unwrap_or_default(),
        };
        let direction =
            file.get_truncation().map_or(TruncationDirection::Right, |own| own.direction);
        let truncation = TruncationParams { max_length: length, direction, ..Default::default() };
        tokenizer.with_padding(Some(padding));
        let special = tokenizer.get_post_processor().map_or(0, |own| own.added_tokens(false));
        if length < special {
            return Err(format!(
                "its special tokens need a length of {special}, and the field has {length}"
            ));
        }
        tokenizer.with_truncation(Some(truncation)).map_err(|error| error.to_string())?;
        Ok(Self(tokenizer))
    }

    /// Ids of a text, and which of them are not padding.
    ///
    /// # Errors
    /// It has no ids for the text.
    pub(super) fn encode(
        &self,
        text: &str,
        special_tokens: bool,
    ) -> Result<(Vec<u32>, Vec<u32>), String> {
        let encoded = self.0.encode(text, special_tokens);
        let encoded =
            encoded.map_err(|error| format!("the tokenizer refuses the text: {error}"))?;
        Ok((encoded.get_ids().to_vec(), encoded.get_attention_mask().to_vec()))
    }
}
