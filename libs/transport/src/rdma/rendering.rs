//! The right to render one lease in registered memory.

use std::sync::Arc;

use super::session::Session;
use crate::contract::LeaseId;

/// While it lives, the lease counts as being rendered or on its way.
#[derive(Debug)]
pub(crate) struct Rendering {
    session: Arc<Session>,
    lease: LeaseId,
}

// === impl Rendering ===

impl Rendering {
    pub(super) fn new(session: Arc<Session>, lease: LeaseId) -> Self {
        Self { session, lease }
    }
}

impl Drop for Rendering {
    fn drop(&mut self) {
        self.session.rendered(self.lease);
    }
}
