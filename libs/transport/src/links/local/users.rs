//! Whose processes may be at the other end of the socket.

use std::io;

/// May read and write any process's memory anyway.
const ROOT: u32 = 0;

/// Users that are let in: this process's own, root, and those that the configuration names.
#[derive(Clone, Debug)]
pub(crate) struct Users {
    allowed: Vec<u32>,
}

// === impl Users ===

impl Users {
    pub(crate) fn new(named: &[u32]) -> Self {
        let own = rustix::process::geteuid().as_raw();
        Self { allowed: [&[own, ROOT], named].concat() }
    }

    /// Judges the user of the other end, as the kernel has it. `key` names who else may be let in.
    ///
    /// # Errors
    /// It is not one of them; the sentence for the log and the other end.
    pub(crate) fn check(&self, uid: io::Result<u32>, key: &str) -> Result<(), String> {
        let uid = uid.map_err(|error| error.to_string())?;
        if self.allowed.contains(&uid) {
            return Ok(());
        }
        Err(format!(
            "user {uid} is not let in: run worker and receiver as one user, or name it in {key}"
        ))
    }
}
