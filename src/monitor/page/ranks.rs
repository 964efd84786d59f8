//! Passes questions about batches on to ranks.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use axum::http::{Request, StatusCode, header};
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Bytes;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

/// Longest wait for a rank: its trainer may be in a long step.
const LIMIT: Duration = Duration::from_secs(18);
/// Largest answer.
const ANSWER_MAX_BYTES: usize = 32 << 20;
/// What a rank answers with; anything else is not passed on.
const TYPES: [&str; 3] = ["application/json", "image/png", "text/plain; charset=utf-8"];

/// A rank's answer to `GET path`, unchanged, or a sentence that says why there is none. `pass`:
/// what the rank asks for.
pub(super) async fn ask(rank: &str, path: &str, pass: Option<String>) -> Response {
    let failed = match tokio::time::timeout(LIMIT, fetch(rank, path, pass)).await {
        Ok(Ok(answer)) => return answer,
        Ok(Err(error)) => format!("{error:#}"),
        Err(_) => format!("no answer within {} s", LIMIT.as_secs()),
    };
    (StatusCode::BAD_GATEWAY, format!("{rank}: {failed}\n")).into_response()
}

async fn fetch(rank: &str, path: &str, pass: Option<String>) -> Result<Response> {
    let stream = TcpStream::connect(rank).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let connection = tokio::spawn(connection);
    // Ranks answer under names of theirs only. Whatever name this one is called by, it knows `localhost`.
    let mut request = Request::get(path).header(header::HOST, "localhost");
    if let Some(pass) = pass {
        request = request.header(header::AUTHORIZATION, format!("Bearer {pass}"));
    }
    let answer = sender.send_request(request.body(Empty::<Bytes>::new())?).await;
    let read = async {
        let (head, body) = answer?.into_parts();
        let body = Limited::new(body, ANSWER_MAX_BYTES).collect().await;
        let body =
            body.map_err(anyhow::Error::from_boxed).context("the answer broke off")?.to_bytes();
        let given = head.headers.get(header::CONTENT_TYPE);
        let known = TYPES.into_iter().find(|known| given.is_some_and(|given| given == known));
        ensure!(
            known.is_some(),
            "its answer is not a batch's: does Headwater serve its metrics there?"
        );
        Ok((head.status, [(header::CONTENT_TYPE, known.unwrap_or_default())], body).into_response())
    };
    let answer = read.await;
    connection.abort();
    answer
}
