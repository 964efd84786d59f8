//! Where the page is served: `--web HOST:PORT`.

use anyhow::{Context, Result};

/// A host and a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Empty: this host only.
    host: String,
    port: u16,
}

// === impl Place ===

impl Place {
    pub(super) fn parse(text: &str) -> Result<Self> {
        let wrong = || {
            format!(
                "--web is `{text}`: write `:8080` for this host only, or an address, `0.0.0.0:8080`"
            )
        };
        let (host, port) = text.rsplit_once(':').with_context(wrong)?;
        let port = port.parse().with_context(wrong)?;
        Ok(Self { host: host.to_owned(), port })
    }

    /// The address to listen on. Without a host it is loopback, token or not: the page travels
    /// unencrypted, so users must opt into showing it to other hosts.
    pub(super) fn listen(&self) -> String {
        let host = if self.host.is_empty() { "127.0.0.1" } else { &self.host };
        format!("{host}:{}", self.port)
    }

    /// The host that was given.
    pub(super) fn host(&self) -> &str {
        &self.host
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_host_only() {
        let listen = |text| Place::parse(text).map(|place| place.listen());
        assert_eq!(listen(":8080").unwrap(), "127.0.0.1:8080");
        assert_eq!(listen("0.0.0.0:80").unwrap(), "0.0.0.0:80");
        assert_eq!(listen("[::]:0").unwrap(), "[::]:0");
        for wrong in ["8080", "node", "node:", ":port", ":70000"] {
            let error = listen(wrong).unwrap_err().to_string();
            assert!(error.contains(wrong) && error.contains(":8080"), "{error}");
        }
    }
}
