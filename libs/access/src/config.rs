//! `[security]`: which files hold certificates and token. The same keys for all tiers.

use std::path::{Path, PathBuf};
use std::time::Duration;

use headwater_config_derive::Keys;
use serde::{Deserialize, Serialize};

use crate::AccessError;
use crate::tls::{Certificates, server_name};

const HANDSHAKE_TIMEOUT_MS_DEFAULT: u64 = 10_000;
const FIRST_REQUEST_TIMEOUT_MS_DEFAULT: u64 = 10_000;
const STRANGERS_MAX_DEFAULT: u32 = 256;

/// Who may talk to this process, and how it shows who it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, Keys)]
#[serde(deny_unknown_fields, default)]
pub struct AccessConfig {
    /// File with the job's token, 16 characters at least; callers without it are refused. A token
    /// in a second line is accepted too. Empty: no token. Without certificates the token travels
    /// unencrypted.
    pub token_file: PathBuf,
    /// PEM file with the certificates of the authorities that sign this job's. With `cert_file`
    /// and `key_file` it turns on TLS, in both directions, for all gRPC. Empty: no TLS.
    pub ca_file: PathBuf,
    /// PEM file with this process's certificate, followed by those between it and the authority.
    pub cert_file: PathBuf,
    /// PEM file with the key of that certificate.
    pub key_file: PathBuf,
    /// Encrypts the data of the `tcp` link too. A receiver with it offers no other link; a worker
    /// with it uses no other, and without it uses what it is offered. Needs the three files.
    pub tcp_tls: bool,
    /// Name that servers' certificates must carry; empty: the host of the called address.
    pub server_name: String,
    /// Time for a caller to finish the TLS handshake, in ms.
    #[key(unit = "milliseconds")]
    pub handshake_timeout_ms: u64,
    /// Time for a caller to have a request admitted, after it is connected and the TLS handshake is
    /// done, in ms; then it is disconnected.
    #[key(unit = "milliseconds")]
    pub first_request_timeout_ms: u64,
    /// Callers at the same time without an admitted request. A further one replaces the oldest of
    /// the host with the most of them.
    #[key(unit = "callers")]
    pub strangers_max: u32,
}

// === impl AccessConfig ===

impl Default for AccessConfig {
    fn default() -> Self {
        Self {
            token_file: PathBuf::new(),
            ca_file: PathBuf::new(),
            cert_file: PathBuf::new(),
            key_file: PathBuf::new(),
            tcp_tls: false,
            server_name: String::new(),
            handshake_timeout_ms: HANDSHAKE_TIMEOUT_MS_DEFAULT,
            first_request_timeout_ms: FIRST_REQUEST_TIMEOUT_MS_DEFAULT,
            strangers_max: STRANGERS_MAX_DEFAULT,
        }
    }
}

impl AccessConfig {
    /// Checks that the keys go together. Does not read files.
    ///
    /// # Errors
    /// Some, but not all, of the three files of TLS; a name or a time that is out of range.
    pub fn validate(&self) -> Result<(), AccessError> {
        let files = [
            ("ca_file", &self.ca_file),
            ("cert_file", &self.cert_file),
            ("key_file", &self.key_file),
        ];
        let given = files.iter().filter(|(_, path)| !path.as_os_str().is_empty()).count();
        let missing = files.iter().find(|(_, path)| path.as_os_str().is_empty());
        if let Some((key, _)) = missing.filter(|_| given > 0) {
            return Err(AccessError::Incomplete { key });
        }
        if self.tcp_tls && given == 0 {
            let (key, value) = ("tcp_tls", "true".to_owned());
            return Err(AccessError::Config {
                key,
                value,
                rule: "needs ca_file, cert_file, key_file",
            });
        }
        for (key, value) in [
            ("handshake_timeout_ms", self.handshake_timeout_ms),
            ("first_request_timeout_ms", self.first_request_timeout_ms),
        ] {
            if !(1..=600_000).contains(&value) {
                let (value, rule) = (value.to_string(), "must be from 1 to 600000");
                return Err(AccessError::Config { key, value, rule });
            }
        }
        if !(1..=65_536).contains(&self.strangers_max) {
            let (key, value) = ("strangers_max", self.strangers_max.to_string());
            return Err(AccessError::Config { key, value, rule: "must be from 1 to 65536" });
        }
        if !self.server_name.is_empty() && server_name(&self.server_name).is_none() {
            let (key, value) = ("server_name", format!("\"{}\"", self.server_name));
            return Err(AccessError::Config { key, value, rule: "must be a host name or address" });
        }
        Ok(())
    }

    pub(crate) fn token(&self) -> Option<&Path> {
        Some(self.token_file.as_path()).filter(|path| !path.as_os_str().is_empty())
    }

    pub(crate) fn certificates(&self) -> Option<Certificates<'_>> {
        let (ca, cert, key) = (&*self.ca_file, &*self.cert_file, &*self.key_file);
        (!ca.as_os_str().is_empty()).then_some(Certificates { ca, cert, key })
    }

    pub(crate) fn handshake_timeout(&self) -> Duration {
        Duration::from_millis(self.handshake_timeout_ms)
    }

    pub(crate) fn first_request_timeout(&self) -> Duration {
        Duration::from_millis(self.first_request_timeout_ms)
    }
}
