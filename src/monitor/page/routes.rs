//! The routes of the page.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use tokio::sync::{Semaphore, watch};

use super::guard::Guard;
use super::latest::{Latest, RankAddress};
use super::ranks;

const INDEX: &str = include_str!("assets/index.html");
const STYLE: &str = include_str!("assets/page.css");
const SCRIPT: &str = concat!(
    "\"use strict\";\n",
    include_str!("assets/words.js"),
    include_str!("assets/plots.js"),
    include_str!("assets/flow.js"),
    include_str!("assets/tables.js"),
    include_str!("assets/batch.js"),
    include_str!("assets/main.js"),
);

/// Routes that hold data: with a token they are for its holders only.
const DATA: [&str; 3] = ["/report.json", "/batch.json", "/batch.png"];
/// Questions to ranks at a time: each may hold a picture in memory.
const QUESTIONS_MAX: usize = 2;

/// What all answers are made from.
pub(super) struct Service {
    latest: watch::Receiver<Option<Latest>>,
    guard: Guard,
    questions: Semaphore,
}

type Shared = State<Arc<Service>>;

/// The routes, each behind the guard.
pub(super) fn router(service: Arc<Service>) -> Router {
    let file = |content_type: &'static str, text: &'static str| {
        get(move || async move { ([(header::CONTENT_TYPE, content_type)], text) })
    };
    Router::new()
        .route("/", file("text/html; charset=utf-8", INDEX))
        .route("/page.css", file("text/css; charset=utf-8", STYLE))
        .route("/page.js", file("text/javascript; charset=utf-8", SCRIPT))
        .route("/session", get(session))
        .route("/report.json", get(report))
        .route("/batch.json", get(batch))
        .route("/batch.png", get(batch))
        .layer(from_fn_with_state(Arc::clone(&service), guarded))
        .with_state(service)
}

async fn guarded(State(service): Shared, request: Request, next: Next) -> Response {
    let mut answer = match service.refusal(request.uri(), request.headers()) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    };
    Guard::finish(answer.headers_mut());
    answer
}

/// Takes the token once, in a header, and returns a cookie in exchange.
async fn session(State(service): Shared, headers: HeaderMap) -> Response {
    if !service.guard.admits_header(&headers) {
        return unauthorized().into_response();
    }
    let mut answer = StatusCode::NO_CONTENT.into_response();
    if let Some(cookie) = service.guard.cookie() {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    answer
}

async fn report(State(service): Shared) -> Response {
    let latest = service.latest.borrow().clone();
    match latest {
        Some(latest) => {
            ([(header::CONTENT_TYPE, "application/json")], latest.json.to_string()).into_response()
        }
        None => (StatusCode::SERVICE_UNAVAILABLE, "there is no report yet\n").into_response(),
    }
}

/// `/batch.json?rank=HOST:PORT` and `/batch.png?rank=HOST:PORT&id=EPOCH-STEP`.
async fn batch(State(service): Shared, uri: Uri) -> Response {
    let asked = |name: &str| {
        let pairs = uri.query().unwrap_or_default().split('&');
        pairs.filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name).map(|(_, v)| v)
    };
    let Some(rank) = asked("rank").and_then(|rank| service.rank(rank)) else {
        let sentence = "name a rank of the report: ?rank=HOST:PORT\n";
        return (StatusCode::NOT_FOUND, sentence).into_response();
    };
    let pass = service.guard.pass();
    if pass.is_some() && rank.is_foreign {
        let sentence = format!(
            "{}: another user may have written the file in the targets directory that names this rank, so it is not \
             shown the token's hash: add the address to monitor.targets\n",
            rank.address
        );
        return (StatusCode::FORBIDDEN, sentence).into_response();
    }
    let id = asked("id").filter(|id| is_id(id));
    let path = id.map_or_else(|| uri.path().to_owned(), |id| format!("{}?id={id}", uri.path()));
    let Ok(_question) = service.questions.try_acquire() else {
        let sentence = "others are asking ranks for batches: ask again in a moment\n";
        return (StatusCode::SERVICE_UNAVAILABLE, sentence).into_response();
    };
    ranks::ask(&rank.address, &path, pass).await
}

/// Whether it names a batch, as in `0-17`.
fn is_id(text: &str) -> bool {
    text.len() <= 40 && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')
}

fn unauthorized() -> impl IntoResponse {
    let challenge = [(header::WWW_AUTHENTICATE, "Bearer realm=\"headwater\"")];
    let sentence = "send the job's token: `Authorization: Bearer TOKEN`\n";
    (StatusCode::UNAUTHORIZED, challenge, sentence)
}

// === impl Service ===

impl Service {
    pub(super) fn new(latest: watch::Receiver<Option<Latest>>, guard: Guard) -> Arc<Self> {
        Arc::new(Self { latest, guard, questions: Semaphore::new(QUESTIONS_MAX) })
    }

    /// Why a request is not answered; `None`: it is.
    fn refusal(&self, uri: &Uri, headers: &HeaderMap) -> Option<Response> {
        if !self.guard.knows_host(headers) {
            let sentence = "this server answers under addresses, `localhost` and its host's name: for \
                            another name start the monitor with --web NAME:PORT\n";
            return Some((StatusCode::MISDIRECTED_REQUEST, sentence).into_response());
        }
        if !DATA.contains(&uri.path()) {
            return None;
        }
        if Guard::is_from_elsewhere(headers) {
            let sentence = "this is for the monitor's own page\n";
            return Some((StatusCode::FORBIDDEN, sentence).into_response());
        }
        (!self.guard.admits(headers)).then(|| unauthorized().into_response())
    }

    /// The rank with that address, if the report has it. No other address is contacted.
    fn rank(&self, address: &str) -> Option<RankAddress> {
        let latest = self.latest.borrow();
        latest.as_ref()?.ranks.iter().find(|rank| rank.address == address).cloned()
    }
}
