//! What shows that writes come where they belong.

/// What the worker writes over a pair and the receiver looks for: the session's key, turned by
/// the pair's number.
pub(super) fn pattern(key: &[u8; 32], pair: usize) -> Vec<u8> {
    key.iter().map(|byte| byte ^ pair as u8 ^ 0x5a).collect()
}
