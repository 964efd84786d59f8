//! Who may talk to whom, and how many at a time: TLS with certificates on both sides between
//! tiers, a shared token, bounds on connections and requests.
//!
//! Both come from files that are read again when they change: a certificate can be renewed while
//! a job runs. Connections that stand keep what they were made with. For the `tcp` data link,
//! which other crates make, the TLS configurations of both ends are given.
//!
//! Deliberately absent: users, roles, encryption of shared memory. Whoever holds a certificate of
//! the configured authority, and the token, is one of the job's own. The data links have a key of
//! their own for each session, which goes over the control stream that is guarded here.
#![forbid(unsafe_code)]

mod alive;
mod answers;
mod bearers;
mod chunks;
mod client;
mod config;
mod connection_auth;
mod data;
mod descriptors;
mod error;
mod files;
mod intake;
mod server;
mod shedding;
mod stream;
mod tls;
mod token;

use std::sync::Arc;

pub use answers::{Answers, Watched, describe_metrics};
pub use bearers::Bearers;
pub use chunks::{Taken, answer_in_chunks, call_for_chunks, whole_request};
pub use client::{Caller, Reached};
pub use config::AccessConfig;
pub use connection_auth::ConnectionAuth;
pub use descriptors::{Descriptors, raise_open_files};
pub use error::AccessError;
pub use intake::{Intake, TakenIn};
pub use server::Connection;
pub use shedding::{Shedding, shedding};
pub use stream::{Dialed, Duplex};
pub use token::{Bearer, Guard};

use tls::Tls;
use token::Token;

/// What this process shows to others and asks of them. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct Access {
    inner: Arc<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    config: AccessConfig,
    token: Option<Arc<Token>>,
    tls: Option<Arc<Tls>>,
}

// === impl Access ===

impl Access {
    /// Reads the files that the configuration names. The default configuration lets everybody in.
    ///
    /// # Errors
    /// A file is missing, unreadable or not what it should be; certificates and key given in part.
    pub fn open(config: &AccessConfig) -> Result<Self, AccessError> {
        config.validate()?;
        let token = config.token().map(Token::open).transpose()?.map(Arc::new);
        let tls = config.certificates().map(Tls::open).transpose()?.map(Arc::new);
        Ok(Self { inner: Arc::new(Inner { config: config.clone(), token, tls }) })
    }

    /// In a few words, for the log line of a process that serves.
    #[must_use]
    pub fn describe(&self) -> &'static str {
        match (&self.inner.tls, &self.inner.token) {
            (Some(_), Some(_)) => "mutual TLS and token",
            (Some(_), None) => "mutual TLS",
            (None, Some(_)) => "token, unencrypted",
            (None, None) => "open to all",
        }
    }
}
