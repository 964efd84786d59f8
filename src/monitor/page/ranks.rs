//! Passes questions about batches on to ranks.

use std::time::Duration;

use anyhow::{Result, ensure};
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use headwater_http_client::Limits;
use http_body_util::Empty;

/// Longest wait for a rank, as its trainer may be in a long step, and largest answer.
const LIMITS: Limits = Limits { time: Duration::from_secs(18), body_bytes: 32 << 20 };
/// What a rank answers with; anything else is not passed on.
const TYPES: [&str; 3] = ["application/json", "image/png", "text/plain; charset=utf-8"];

/// A rank's answer to `GET path`, unchanged, or a sentence that says why there is none. `pass`:
/// what the rank asks for.
pub(super) async fn ask(rank: &str, path: &str, pass: Option<String>) -> Response {
    fetch(rank, path, pass).await.unwrap_or_else(|error| {
        (StatusCode::BAD_GATEWAY, format!("{rank}: {error:#}\n")).into_response()
    })
}

async fn fetch(rank: &str, path: &str, pass: Option<String>) -> Result<Response> {
    // Ranks answer under names of theirs only. Whatever name this one is called by, it knows `localhost`.
    let mut request = Request::get(path).header(header::HOST, "localhost");
    if let Some(pass) = pass {
        request = request.header(header::AUTHORIZATION, format!("Bearer {pass}"));
    }
    let (head, body) = LIMITS.fetch(rank, request.body(Empty::new())?).await?.into_parts();
    let given = head.headers.get(header::CONTENT_TYPE);
    let known = TYPES.into_iter().find(|known| given.is_some_and(|given| given == known));
    ensure!(
        known.is_some(),
        "its answer is not a batch's: does Headwater serve its metrics there?"
    );
    Ok((head.status, [(header::CONTENT_TYPE, known.unwrap_or_default())], body).into_response())
}
