//! What answers say, and their bodies within bounds.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::Response;
use hyper::body::Incoming;
use hyper::header::{CONTENT_LENGTH, CONTENT_RANGE, ETAG, HeaderMap, HeaderName, LAST_MODIFIED};

use super::WebError;

/// Reads a body of up to `max` bytes.
///
/// # Errors
/// There are more, or it broke off.
pub(crate) async fn bounded_body(
    answer: Response<Incoming>,
    max: usize,
) -> Result<Bytes, WebError> {
    let mut body = answer.into_body();
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(WebError::Body)?.into_data() else { continue };
        let got = whole.len() + data.len();
        if got > max {
            return Err(WebError::Length { wanted: max as u64, got: got as u64 });
        }
        if whole.is_empty() && got == max {
            return Ok(data);
        }
        if whole.is_empty() {
            whole.reserve(max.min(got * 16));
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// The version that an answer speaks of: its entity tag, else the time of the last change.
pub(crate) fn tag_of_answer(headers: &HeaderMap) -> Option<String> {
    text(headers, ETAG).or_else(|| text(headers, LAST_MODIFIED))
}

/// The size of a whole object, from an answer without a range.
pub(crate) fn size_of_answer(headers: &HeaderMap) -> Option<u64> {
    text(headers, CONTENT_LENGTH)?.parse().ok()
}

/// The range that an answer has, and the size of the whole.
pub(crate) fn range_of_answer(headers: &HeaderMap) -> Option<(Range<u64>, u64)> {
    let text = text(headers, CONTENT_RANGE)?;
    let (range, size) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (start, last) = range.split_once('-')?;
    let end = last.parse::<u64>().ok()?.checked_add(1)?;
    Some((start.parse().ok()?..end, size.parse().ok()?))
}

pub(super) fn text(headers: &HeaderMap, name: HeaderName) -> Option<String> {
    headers.get(name)?.to_str().ok().map(|text| text.trim().to_owned())
}
