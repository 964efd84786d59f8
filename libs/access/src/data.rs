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

    /// Checks that this process's certificate carries `host`, or `security.server_name` where that is set: whoever
    /// calls this process accepts no other. Nothing to check without TLS.
    ///
    /// # Errors
    /// A sentence: which name is called, which are in the certificate, and the remedy.
    pub fn check_name(&self, host: &str) -> Result<(), String> {
        let Some(tls) = &self.inner.tls else { return Ok(()) };
        let config = &self.inner.config;
        let name = if config.server_name.is_empty() { host } else { &config.server_name };
        tls.check_name(name).map_err(|error| {
            format!(
                "security.cert_file {}: {error}; sign one for `{name}`, or give all processes a certificate of one \
                 name and set security.server_name",
                config.cert_file.display()
            )
        })
    }

    /// Name that certificates must carry, where it is not the host that is called.
    #[must_use]
    pub fn server_name(&self) -> Option<ServerName<'static>> {
        server_name(&self.inner.config.server_name)
    }
}
