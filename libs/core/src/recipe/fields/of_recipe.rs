//! The fields of a recipe.

use super::{FieldKind, FieldSpec, TokensSpec};
use crate::Recipe;

// === impl Recipe ===

impl Recipe {
    /// The fields that a worker reads in addition to a sample's image and label, `|` between
    /// alternatives: each once, in the order of their first mention in the recipe.
    #[must_use]
    pub fn extra_fields(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let fields = self.fields.iter().map(|spec| spec.field.as_str());
        for field in fields.chain(self.aligned_targets().map(|(_, field)| field)) {
            if !names.contains(&field) {
                names.push(field);
            }
        }
        names
    }

    /// Writes down what tokenizers are, for fields that do not say. `digest` gives the SHA-256 of a file.
    ///
    /// # Errors
    /// Of `digest`.
    pub fn set_tokenizers<E>(
        &mut self,
        mut digest: impl FnMut(&str) -> Result<String, E>,
    ) -> Result<(), E> {
        for spec in &mut self.fields {
            if let FieldKind::Tokens(tokens) = &mut spec.kind {
                if tokens.sha256.is_empty() {
                    tokens.sha256 = digest(&tokens.tokenizer)?;
                }
                // Where the file lies changes no byte.
                tokens.tokenizer.clear();
            }
        }
        Ok(())
    }

    /// How its fields become tokens.
    pub fn tokens(&self) -> impl Iterator<Item = (&FieldSpec, &TokensSpec)> {
        self.fields.iter().filter_map(|spec| match &spec.kind {
            FieldKind::Tokens(tokens) => Some((spec, tokens)),
            _ => None,
        })
    }
}
