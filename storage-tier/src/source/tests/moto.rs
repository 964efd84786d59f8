//! A real S3 server: moto, in Python, of its authors' making and not ours. `scripts/test.sh` runs this.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::super::conformance::World;
use super::super::url::encoded;
use super::{bucket_at, config, distant};

/// Moto asks for a signature where there is something already, and does not check it.
const SIGNED: &str = "AWS4-HMAC-SHA256 Credential=k/20260101/us-east-1/s3/aws4_request, \
                      SignedHeaders=host, Signature=s";

/// A server that ends with the test.
struct Moto {
    process: Child,
    address: SocketAddr,
}

// === impl Moto ===

impl Moto {
    fn start() -> Self {
        let program = std::env::var("HEADWATER_MOTO_SERVER").unwrap_or("moto_server".to_owned());
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let process = Command::new(&program)
            .args(["-H", "127.0.0.1", "-p", &address.port().to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("`{program}`: {error}"));
        let moto = Self { process, address };
        let started = Instant::now();
        while TcpStream::connect(address).is_err() {
            assert!(started.elapsed() < Duration::from_secs(60), "moto does not listen");
            thread::sleep(Duration::from_millis(50));
        }
        moto
    }
}

impl Drop for Moto {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Writes an object, or makes a bucket.
fn put(address: SocketAddr, path: &str, bytes: &[u8]) {
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "PUT /{} HTTP/1.1\r\nHost: {address}\r\nContent-Length: {}\r\nConnection: close\r\n\
         Content-Type: application/octet-stream\r\nAuthorization: {SIGNED}\r\n\r\n",
        encoded(path),
        bytes.len()
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(bytes).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.split(' ').nth(1) == Some("200"), "{path}: {answer}");
}

#[test]
#[ignore = "needs moto_server: scripts/test.sh runs it"]
fn a_real_s3_server_conforms() {
    let moto = Moto::start();
    let address = moto.address;
    put(address, "bucket", b"");
    let source = distant(bucket_at(address), &config());
    let put = move |name: &str, bytes: &[u8]| put(address, &format!("bucket/ds/{name}"), bytes);
    let secrets = vec!["AKIAKEY", "hushhush"];
    World { source, root: "ds".into(), put: Box::new(put), lists: true, secrets }.conforms();
}
