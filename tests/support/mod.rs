//! What tests across tiers share: real processes of the program, and where the photographs are.
#![allow(dead_code, missing_docs, unreachable_pub)]

pub mod everything;
pub mod exporter;
pub mod faulty_files;
pub mod fleet;
pub mod network;
pub mod proxy;
pub mod shared_host;
pub mod tmux;
pub mod trainer;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::time::SystemTime;

/// A file or folder under tests/data.
pub fn data(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

/// What a process shows at `/metrics`, head and all.
pub fn scrape(address: &str) -> String {
    let mut stream = TcpStream::connect(address).expect("metrics are served");
    let request = b"GET /metrics HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\r\n";
    stream.write_all(request).expect("a request");
    let mut text = String::new();
    stream.read_to_string(&mut text).expect("an answer");
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    text
}

/// Milliseconds since 1970.
pub fn unix_ms() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().expect("a clock").as_millis() as u64
}

/// `KEY=VALUE` as arguments of the program.
pub fn set_flags<S: Into<String>>(settings: impl IntoIterator<Item = S>) -> Vec<String> {
    settings.into_iter().flat_map(|set| ["--set".to_owned(), set.into()]).collect()
}

/// A number in the environment.
pub fn variable(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} is `{text}`: give a number")),
        Err(_) => default,
    }
}
