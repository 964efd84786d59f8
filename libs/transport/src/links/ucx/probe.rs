//! What shows that writes come where they belong.

/// What the worker writes and the receiver looks for: the session's key, turned.
pub(super) fn pattern(key: &[u8; 32]) -> Vec<u8> {
    key.iter().map(|byte| byte ^ 0x5a).collect()
}
