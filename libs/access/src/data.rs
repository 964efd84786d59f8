//! TLS for connections that others make: the data link.

use std::sync::Arc;

use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, ServerConfig};

use crate::Access;
use crate::tls::server_name;

// === impl Access ===

impl Access {
    /// Whether to encrypt the `tcp` link.
    #[must_use]
    pub fn encrypts_data(&self) -> bool {
        self.inner.config.tcp_tls
    }

    /// What gives the configuration for the next data connection that is taken, as the files have
    /// it then; `None` without certificates.
    #[must_use]
    pub fn data_server(&self) -> Option<impl Fn() -> Arc<ServerConfig> + Send + Sync + use<>> {
        let tls = Arc::clone(self.inner.tls.as_ref()?);
        Some(move || tls.data().server)
    }

    /// As [`Self::data_server`], for connections that are made.
    #[must_use]
    pub fn data_client(&self) -> Option<impl Fn() -> Arc<ClientConfig> + Send + Sync + use<>> {
        let tls = Arc::clone(self.inner.tls.as_ref()?);
        Some(move || tls.data().client)
    }

    /// Name that certificates must carry, where it is not the host that is called.
    #[must_use]
    pub fn server_name(&self) -> Option<ServerName<'static>> {
        server_name(&self.inner.config.server_name)
    }
}
