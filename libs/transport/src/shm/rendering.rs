//! The right to render one lease in a mapped slot.

use std::sync::Arc;

use crate::mapping::Mapping;

/// Keeps the slot mapped.
#[derive(Debug)]
pub(crate) struct Rendering {
    mapping: Arc<Mapping>,
}

// === impl Rendering ===

impl Rendering {
    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }
}
