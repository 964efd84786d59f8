//! The right to render one lease in a mapped slot.

use std::sync::Arc;

use super::session::Session;
use crate::contract::LeaseId;
use crate::mapping::Mapping;

/// While it lives, the lease counts as being rendered and the slot stays mapped. The session, and
/// with it the socket that stands for this process's writers, is let go of last.
#[derive(Debug)]
pub(crate) struct Rendering {
    // Dropped first: the socket must not close while this process has the slot mapped.
    mapping: Arc<Mapping>,
    session: Arc<Session>,
    lease: LeaseId,
}

// === impl Rendering ===

impl Rendering {
    pub(super) fn new(mapping: Arc<Mapping>, session: Arc<Session>, lease: LeaseId) -> Self {
        Self { mapping, session, lease }
    }

    pub(crate) fn mapping(&self) -> &Mapping {
        &self.mapping
    }

    pub(super) fn session(&self) -> &Arc<Session> {
        &self.session
    }
}

impl Drop for Rendering {
    fn drop(&mut self) {
        self.session.rendered(self.lease);
    }
}
