//! What a process shows of its batches, at `/batch.json` and `/batch.png`.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use crate::callers::means_this_host;

/// What is asked, and by whom.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchQuestion {
    /// What the batch holds.
    Json {
        /// The request's `authorization` header.
        authorization: Option<Vec<u8>>,
    },
    /// A picture of it.
    Png {
        /// The request's `authorization` header.
        authorization: Option<Vec<u8>>,
        /// The batch that an answer in JSON named; `None`: the next one.
        id: Option<String>,
    },
}

/// An answer over HTTP.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Status of HTTP.
    pub status: u16,
    /// Type of the body.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// Shows a batch of this process.
///
/// It judges for itself whether the caller may see it. An answer takes less than the time that a call to the
/// metrics server has, 20 s, and may be dropped at any time. Questions come several at a time.
pub trait ShowBatch: Send + Sync {
    /// Answers one question.
    fn answer(&self, question: BatchQuestion) -> Pin<Box<dyn Future<Output = Answer> + Send>>;
}

/// Who shows batches now. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Shown {
    by: Arc<Mutex<Option<Arc<dyn ShowBatch>>>>,
}

// === impl Answer ===

impl Answer {
    /// A sentence.
    #[must_use]
    pub fn text(status: u16, sentence: impl Into<String>) -> Self {
        let body = format!("{}\n", sentence.into()).into_bytes();
        Self { status, content_type: "text/plain; charset=utf-8", body }
    }

    /// A picture.
    #[must_use]
    pub fn png(bytes: &[u8]) -> Self {
        Self { status: 200, content_type: "image/png", body: bytes.to_vec() }
    }
}

impl IntoResponse for Answer {
    fn into_response(self) -> Response {
        let Self { status, content_type, body } = self;
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let headers = [
            (header::CONTENT_TYPE, content_type),
            (header::CACHE_CONTROL, "no-store"),
            (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        ];
        (status, headers, body).into_response()
    }
}

// === impl Shown ===

impl Shown {
    pub(crate) fn show(&self, by: Arc<dyn ShowBatch>) {
        *self.by.lock().unwrap_or_else(PoisonError::into_inner) = Some(by);
    }

    /// The routes.
    pub(crate) fn routes(&self) -> Router {
        let json = |shown: Self, headers: HeaderMap| async move {
            shown.answer(&headers, |authorization| BatchQuestion::Json { authorization }).await
        };
        let png = |shown: Self, headers: HeaderMap, uri: Uri| async move {
            let id = uri.query().and_then(|query| query.strip_prefix("id=")).map(str::to_owned);
            shown.answer(&headers, |authorization| BatchQuestion::Png { authorization, id }).await
        };
        let (for_json, for_png) = (self.clone(), self.clone());
        Router::new()
            .route("/batch.json", get(move |headers| json(for_json.clone(), headers)))
            .route("/batch.png", get(move |headers, uri| png(for_png.clone(), headers, uri)))
    }

    async fn answer(
        &self,
        headers: &HeaderMap,
        question: impl FnOnce(Option<Vec<u8>>) -> BatchQuestion,
    ) -> Answer {
        if !means_this_host(headers, "") {
            return Answer::text(
                421,
                "batches are shown under this host's address, its own name and `localhost` only: send such \
                 a `Host`",
            );
        }
        let by = self.by.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let Some(by) = by else {
            return Answer::text(
                404,
                "this process shows no batches: it is a training rank with telemetry.show_batches = \
                 true that does",
            );
        };
        let authorization = headers.get(header::AUTHORIZATION);
        by.answer(question(authorization.map(|value| value.as_bytes().to_vec()))).await
    }
}
