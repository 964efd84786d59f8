//! Decides who gets an answer, and sets the headers that keep other sites away from it.

use std::net::SocketAddr;

use axum::http::{HeaderMap, HeaderName, HeaderValue, header};
use headwater_access::Bearers;
use headwater_telemetry::means_this_host;

use super::listen::Place;

/// Nothing but this server's own files; no frame, no form.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// On every answer.
const HEADERS: [(HeaderName, &str); 7] = [
    (header::CONTENT_SECURITY_POLICY, POLICY),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Tells callers that may from callers that may not.
#[derive(Debug)]
pub(super) struct Guard {
    /// A name of this server that its host need not know.
    name: String,
    bearers: Bearers,
    cookie: String,
}

// === impl Guard ===

impl Guard {
    pub(super) fn new(place: &Place, address: SocketAddr, bearers: Bearers) -> Self {
        Self {
            name: place.host().to_owned(),
            bearers,
            // Cookies do not tell ports apart: two monitors of a host have two.
            cookie: format!("headwater_{}", address.port()),
        }
    }

    /// Whether the caller means this server by its name.
    pub(super) fn knows_host(&self, headers: &HeaderMap) -> bool {
        means_this_host(headers, &self.name)
    }

    /// Whether another site's page has sent the request. Browsers say so; others need not.
    pub(super) fn is_from_elsewhere(headers: &HeaderMap) -> bool {
        let site = headers.get("sec-fetch-site").map(HeaderValue::as_bytes);
        site.is_some_and(|site| site != b"same-origin" && site != b"none")
    }

    /// Whether the caller has shown the token: in a header, or by the cookie that it got in
    /// exchange.
    pub(super) fn admits(&self, headers: &HeaderMap) -> bool {
        self.admits_header(headers)
            || self.shown_cookie(headers).is_some_and(|pass| self.bearers.admits_word(pass))
    }

    /// Whether the caller shows the token in a header.
    pub(super) fn admits_header(&self, headers: &HeaderMap) -> bool {
        let authorization = headers.get(header::AUTHORIZATION).map(HeaderValue::as_bytes);
        self.bearers.admits(authorization)
    }

    fn shown_cookie<'a>(&self, headers: &'a HeaderMap) -> Option<&'a [u8]> {
        let cookies = headers.get_all(header::COOKIE).iter().map(HeaderValue::as_bytes);
        let mut pairs = cookies.flat_map(|cookies| cookies.split(|&byte| byte == b';'));
        pairs.find_map(|pair| {
            let value = pair.trim_ascii().strip_prefix(self.cookie.as_bytes())?;
            value.strip_prefix(b"=")
        })
    }

    /// A cookie that shows the token without telling it, for the browser to keep until it is closed.
    pub(super) fn cookie(&self) -> Option<HeaderValue> {
        let (name, pass) = (&self.cookie, self.bearers.pass()?);
        HeaderValue::try_from(format!("{name}={pass}; Path=/; HttpOnly; SameSite=Strict")).ok()
    }

    /// What ranks are asked with.
    pub(super) fn pass(&self) -> Option<String> {
        self.bearers.pass()
    }

    /// Puts the headers of every answer on one.
    pub(super) fn finish(headers: &mut HeaderMap) {
        for (name, value) in HEADERS {
            headers.insert(name, HeaderValue::from_static(value));
        }
    }
}
