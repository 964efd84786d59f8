//! Whether a request means this server, or a page of another site has sent it.

use std::net::IpAddr;

use axum::http::uri::Authority;
use axum::http::{HeaderMap, header};

/// Whether the request's `Host` is an address, `localhost`, the name of this host, or `other`.
///
/// A page of another site that gives its own name this host's address (DNS rebinding) can read answers as
/// if they were its own. It cannot change that name.
#[must_use]
pub fn means_this_host(headers: &HeaderMap, other: &str) -> bool {
    let Some(host) = headers.get(header::HOST).and_then(|host| host.to_str().ok()) else {
        return false;
    };
    let Ok(authority) = host.parse::<Authority>() else { return false };
    let name = authority.host().trim_start_matches('[').trim_end_matches(']');
    let own = rustix::system::uname();
    let names = ["localhost", other, &own.nodename().to_string_lossy()];
    let known = |known: &str| !known.is_empty() && known.eq_ignore_ascii_case(name);
    name.parse::<IpAddr>().is_ok() || names.into_iter().any(known)
}
