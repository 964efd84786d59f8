//! Answers that nobody reads: a bound on their bytes, and on how long one may stand still.

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use http_body::{Body as HttpBody, Frame};
use metrics::{counter, gauge};
use tonic::body::Body;
use tonic::codegen::http::{Request, Response};
use tonic::codegen::{Bytes, StdError};
use tower::{Layer, Service};

use crate::ConnectionAuth;

const UNREAD: &str = "headwater_unread_answer_bytes";
const UNREAD_MAX: &str = "headwater_unread_answer_bytes_limit";
const CUT: &str = "headwater_unread_answers_cut_total";
const LATE: &str = "it left an answer unread for too long";
const MUCH: &str = "it had the most unread answers when there were too many";

/// The layer that watches what callers have not read. A caller who leaves a piece of an answer unread
/// for too long loses its connection; so does the one with the most unread bytes when all together
/// have too many.
#[derive(Clone, Debug)]
pub struct Answers {
    unread: Arc<Unread>,
}

/// What [`Answers`] makes of a service.
#[derive(Clone, Debug)]
pub struct Watched<S> {
    unread: Arc<Unread>,
    inner: S,
}

#[derive(Debug)]
struct Unread {
    door: &'static str,
    bytes_max: u64,
    patience: Duration,
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    begun: u64,
    bytes: u64,
    /// The last piece of each answer, and what is ready to follow it, while it is not sent.
    pieces: BTreeMap<u64, Piece>,
}

#[derive(Debug)]
struct Piece {
    standing: ConnectionAuth,
    bytes: u64,
    since: Instant,
}

/// An answer that notes how much of it was asked for.
struct Answer {
    body: Body,
    standing: ConnectionAuth,
    number: u64,
    /// Bytes of the piece that was asked for last and of what was ready to follow it at first.
    lot_bytes: u64,
    unread: Arc<Unread>,
}

/// Says what the metrics mean to the recorder there is.
pub fn describe_metrics() {
    use metrics::Unit::Bytes;
    headwater_lobby::describe_metrics();
    metrics::describe_gauge!(UNREAD, Bytes, "Bytes of answers that wait for callers");
    metrics::describe_gauge!(UNREAD_MAX, Bytes, "Limit of such bytes");
    metrics::describe_counter!(CUT, "Connections closed because answers were not read, by reason");
}

// === impl Answers ===

impl Answers {
    /// Watches from now on, on the runtime that it is called on.
    #[must_use]
    pub fn new(door: &'static str, bytes_max: u64, patience: Duration) -> Self {
        describe_metrics();
        gauge!(UNREAD_MAX, "listener" => door).set(bytes_max as f64);
        let unread = Arc::new(Unread { door, bytes_max, patience, table: Mutex::default() });
        tokio::spawn(watch(Arc::downgrade(&unread)));
        Self { unread }
    }
}

impl<S> Layer<S> for Answers {
    type Service = Watched<S>;

    fn layer(&self, inner: S) -> Watched<S> {
        Watched { unread: Arc::clone(&self.unread), inner }
    }
}

async fn watch(unread: Weak<Unread>) {
    while let Some(unread) = unread.upgrade() {
        let pause = unread.patience / 4;
        unread.cut_late();
        drop(unread);
        tokio::time::sleep(pause).await;
    }
}

// === impl Watched ===

impl<S, B> Service<Request<Body>> for Watched<S>
where
    S: Service<Request<Body>, Response = Response<B>>,
    S::Future: Send + 'static,
    S::Error: 'static,
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<StdError>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        let standing = request.extensions().get::<ConnectionAuth>().cloned();
        let (answering, unread) = (self.inner.call(request), Arc::clone(&self.unread));
        Box::pin(async move {
            let response = answering.await?;
            Ok(response.map(|body| match standing {
                Some(standing) => Body::new(Answer {
                    body: Body::new(body),
                    number: unread.number(),
                    standing,
                    lot_bytes: 0,
                    unread,
                }),
                None => Body::new(body),
            }))
        })
    }
}

// === impl Answer ===

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = tonic::Status;

    /// Asked for once what came before is on its way, but for what HTTP/2 holds back.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, tonic::Status>>> {
        // What the service holds ready belongs to the lot before, which counts until all of it is taken.
        if self.body.size_hint().lower() == 0 {
            self.unread.sent(self.number);
            self.lot_bytes = 0;
        }
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        if let Some(Ok(frame)) = &frame
            && let Some(data) = frame.data_ref()
        {
            if self.lot_bytes == 0 {
                self.lot_bytes = data.len() as u64 + self.body.size_hint().lower();
            }
            self.unread.add(self.number, &self.standing, self.lot_bytes);
        }
        Poll::Ready(frame)
    }

    /// An answer without a message, as of an error, ends with its head. Clients in C take an empty frame after it for a
    /// fault of the connection.
    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }
}

impl Drop for Answer {
    fn drop(&mut self) {
        self.unread.sent(self.number);
    }
}

// === impl Unread ===

impl Unread {
    fn number(&self) -> u64 {
        let mut table = self.lock();
        table.begun += 1;
        table.begun
    }

    fn sent(&self, number: u64) {
        let mut table = self.lock();
        if let Some(piece) = table.pieces.remove(&number) {
            table.bytes -= piece.bytes;
            self.report(&table);
        }
    }

    fn add(&self, number: u64, standing: &ConnectionAuth, bytes: u64) {
        let mut table = self.lock();
        let piece = Piece { standing: standing.clone(), bytes, since: Instant::now() };
        table.bytes += bytes;
        if let Some(before) = table.pieces.insert(number, piece) {
            table.bytes -= before.bytes;
        }
        self.report(&table);
        if table.bytes > self.bytes_max {
            let mut sums: HashMap<SocketAddr, (u64, &ConnectionAuth)> = HashMap::new();
            for piece in table.pieces.values() {
                sums.entry(piece.standing.peer()).or_insert((0, &piece.standing)).0 += piece.bytes;
            }
            let most = sums.values().max_by_key(|(bytes, _)| *bytes);
            most.iter().for_each(|(_, standing)| self.cut(standing, MUCH));
        }
    }

    fn cut_late(&self) {
        let table = self.lock();
        let late = table.pieces.values().filter(|piece| piece.since.elapsed() > self.patience);
        late.for_each(|piece| self.cut(&piece.standing, LATE));
    }

    fn cut(&self, standing: &ConnectionAuth, reason: &'static str) {
        if standing.expel(reason) {
            counter!(CUT, "listener" => self.door, "reason" => reason).increment(1);
            tracing::warn!(peer = %standing.peer(), reason, "a caller is disconnected");
        }
    }

    fn report(&self, table: &Table) {
        gauge!(UNREAD, "listener" => self.door).set(table.bytes as f64);
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
