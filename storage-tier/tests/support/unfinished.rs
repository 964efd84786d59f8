//! Requests of gRPC that begin and never end, as bytes of a connection.

/// A frame of HTTP/2 (RFC 9113, 4.1).
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u32).to_be_bytes();
    [&length[1..], &[kind, flags], &stream.to_be_bytes(), payload].concat()
}

/// Requests of a method that have begun, with some of the bytes that they announce.
pub(crate) fn unfinished(path: &str, requests: u32) -> Vec<u8> {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(4, 0, 0, &[]));
    let mut headers = Vec::new();
    for (name, value) in [
        (":method", "POST"),
        (":scheme", "http"),
        (":path", path),
        (":authority", "node"),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ] {
        // A literal without an index (RFC 7541, 6.2.2).
        headers.push(0);
        for text in [name, value] {
            headers.push(text.len() as u8);
            headers.extend(text.as_bytes());
        }
    }
    for request in 0..requests {
        let number = 2 * request + 1;
        bytes.extend(frame(1, 4, number, &headers));
        let begun = [&[0][..], &60_000_u32.to_be_bytes(), &[7; 100]].concat();
        bytes.extend(frame(0, 0, number, &begun));
    }
    bytes
}
