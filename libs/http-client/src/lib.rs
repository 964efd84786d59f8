//! One HTTP/1 request on a connection of its own, and its answer as a whole or in pieces.
//!
//! Deliberately absent: TLS (callers bring a connection that has it), pools of connections, redirects, retries,
//! judgement of a status.
#![forbid(unsafe_code)]

use std::convert::Infallible;
use std::io;
use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty, LengthLimitError, Limited};
use hyper::client::conn::http1::handshake;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// What an answer may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the name of the server to the last byte of its answer.
    pub time: Duration,
    /// Bytes of the answer's body.
    pub body_bytes: usize,
}

/// There is no answer.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The server cannot be reached.
    #[error("{}", without_number(.0))]
    Connect(io::Error),
    /// It did not answer in time.
    #[error("no answer within {} s", .0.as_secs())]
    Late(Duration),
    /// The connection broke, or the answer is not HTTP.
    #[error("the answer ended early: {0}")]
    Broken(hyper::Error),
    /// The answer is too long.
    #[error("the answer is longer than {0} bytes")]
    TooLong(usize),
}

// === impl Limits ===

impl Limits {
    /// The answer of the server at `host:port`: of the first of the name's addresses that takes the connection.
    /// The request's target is a path, and it has a header `host`.
    ///
    /// # Errors
    /// See [`HttpError`].
    pub async fn fetch(
        self,
        address: &str,
        request: Request<Empty<Bytes>>,
    ) -> Result<Response<Bytes>, HttpError> {
        self.exchange(TcpStream::connect(address), request).await
    }

    /// The same over a connection that `connecting` makes.
    ///
    /// # Errors
    /// See [`HttpError`].
    pub async fn exchange<S: AsyncRead + AsyncWrite + Unpin>(
        self,
        connecting: impl Future<Output = io::Result<S>>,
        request: Request<Empty<Bytes>>,
    ) -> Result<Response<Bytes>, HttpError> {
        let answer = async {
            let stream = connecting.await.map_err(HttpError::Connect)?;
            let (mut sender, connection) =
                handshake(TokioIo::new(stream)).await.map_err(HttpError::Broken)?;
            let answer = async {
                let answer = sender.send_request(request).await.map_err(HttpError::Broken)?;
                self.read(answer).await
            };
            // What breaks the connection off also reaches whoever waits for the answer.
            let connection = async {
                let _ = connection.await;
                std::future::pending::<Infallible>().await
            };
            tokio::select! { answer = answer => answer, never = connection => match never {} }
        };
        timeout(self.time, answer).await.map_err(|_| HttpError::Late(self.time))?
    }

    /// The status of the answer, and its body in pieces as they come, until the server ends it or `take` says to stop. The
    /// limit of time holds for the connection and for the head; `silence` is that between two pieces.
    ///
    /// # Errors
    /// See [`HttpError`].
    pub async fn stream<S: AsyncRead + AsyncWrite + Unpin>(
        self,
        connecting: impl Future<Output = io::Result<S>>,
        request: Request<Empty<Bytes>>,
        silence: Duration,
        mut take: impl FnMut(StatusCode, Bytes) -> ControlFlow<()>,
    ) -> Result<StatusCode, HttpError> {
        let late = |_| HttpError::Late(self.time);
        let opening = async {
            let stream = connecting.await.map_err(HttpError::Connect)?;
            handshake(TokioIo::new(stream)).await.map_err(HttpError::Broken)
        };
        let (mut sender, connection) = timeout(self.time, opening).await.map_err(late)??;
        let pieces = async {
            let sent = timeout(self.time, sender.send_request(request)).await.map_err(late)?;
            let answer = sent.map_err(HttpError::Broken)?;
            let (status, mut body) = (answer.status(), answer.into_body());
            let silent = |_| HttpError::Late(silence);
            while let Some(frame) = timeout(silence, body.frame()).await.map_err(silent)? {
                let Ok(piece) = frame.map_err(HttpError::Broken)?.into_data() else { continue };
                if take(status, piece).is_break() {
                    break;
                }
            }
            Ok(status)
        };
        let connection = async {
            let _ = connection.await;
            std::future::pending::<Infallible>().await
        };
        tokio::select! { status = pieces => status, never = connection => match never {} }
    }

    async fn read(
        self,
        answer: Response<hyper::body::Incoming>,
    ) -> Result<Response<Bytes>, HttpError> {
        let (head, body) = answer.into_parts();
        let body = Limited::new(body, self.body_bytes).collect().await;
        let body = body.map_err(|error| match error.downcast::<hyper::Error>() {
            Ok(error) => HttpError::Broken(*error),
            // The only other error of a limited body.
            Err(error) => {
                debug_assert!(error.is::<LengthLimitError>(), "{error}");
                HttpError::TooLong(self.body_bytes)
            }
        })?;
        Ok(Response::from_parts(head, body.to_bytes()))
    }
}

/// Does work that waits, on a thread that may block and is in no runtime.
///
/// # Errors
/// The system is short of descriptors.
pub fn block_on<T>(work: impl Future<Output = T>) -> io::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let done = runtime.block_on(work);
    // A name server may take longer than its answer is of interest.
    runtime.shutdown_background();
    Ok(done)
}

/// Of what the system says, the words.
fn without_number(error: &io::Error) -> String {
    let mut said = error.to_string();
    if let Some(number) = error.raw_os_error() {
        let words = said.strip_suffix(&format!(" (os error {number})")).map(str::len);
        said.truncate(words.unwrap_or(said.len()));
        // It stands within a sentence.
        let first = said.get_mut(..1);
        first.map(str::make_ascii_lowercase).unwrap_or_default();
    }
    said
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    /// What comes of a server that answers with `answer` and keeps the connection open.
    async fn fetched(limits: Limits, answer: &'static str) -> Result<Response<Bytes>, HttpError> {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("an address").to_string();
        let server = async {
            let (mut stream, _) = listener.accept().await.expect("a caller");
            let _request = stream.read(&mut [0; 512]).await.expect("a caller that asks");
            stream.write_all(answer.as_bytes()).await.expect("a caller that reads");
            // Until the caller hangs up.
            while stream.read(&mut [0; 512]).await.is_ok_and(|count| count > 0) {}
        };
        let request = Request::get("/").header("host", "test").body(Empty::new()).expect("a path");
        tokio::join!(limits.fetch(&address, request), server).0
    }

    const LONG: Limits = Limits { time: Duration::from_secs(60), body_bytes: 4 };

    #[tokio::test]
    async fn an_answer_is_whole_without_an_end_of_the_connection() {
        for answer in [
            "HTTP/1.1 404 No\r\ncontent-length: 4\r\n\r\nbody",
            "HTTP/1.1 404 No\r\ntransfer-encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n",
        ] {
            let answer = fetched(LONG, answer).await.expect("an answer");
            assert_eq!((answer.status().as_u16(), &answer.body()[..]), (404, &b"body"[..]));
        }
    }

    #[tokio::test]
    async fn an_answer_that_is_too_long_is_not_read_to_its_end() {
        // The fifth byte is too much; the others never come.
        let error = fetched(LONG, "HTTP/1.1 200 OK\r\n\r\nbody.").await.unwrap_err();
        assert_eq!(error.to_string(), "the answer is longer than 4 bytes");
    }

    #[tokio::test]
    async fn a_server_that_says_nothing_more_is_left_after_its_time() {
        let short = Limits { time: Duration::from_millis(50), ..LONG };
        for answer in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 200 OK\r\n\r\nbo"] {
            let error = fetched(short, answer).await.unwrap_err();
            assert!(matches!(error, HttpError::Late(_)), "`{answer}`: {error}");
        }
    }

    #[tokio::test]
    async fn what_is_not_http_is_an_error() {
        let error = fetched(LONG, "SSH-2.0-OpenSSH_9.2\r\n\r\n").await.unwrap_err();
        assert!(matches!(error, HttpError::Broken(_)), "{error}");
    }
}
