//! The names of the workers with a session: no two workers may have the same one.
//!
//! Parts are spread over workers by their names, and metrics and logs show names only.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Names in use, each with the address of its worker. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct WorkerNames {
    addresses: Arc<Mutex<BTreeMap<String, String>>>,
}

/// A name that is in use until this is dropped.
#[derive(Debug)]
pub(crate) struct ClaimedName {
    name: String,
    names: WorkerNames,
}

// === impl WorkerNames ===

impl WorkerNames {
    /// Takes a name for the worker at `address`.
    ///
    /// # Errors
    /// Another worker has it; says which one, and the remedy.
    pub(crate) fn claim(&self, name: &str, address: &str) -> Result<ClaimedName, String> {
        let mut addresses = self.lock();
        if let Some(other) = addresses.get(name) {
            return Err(format!(
                "its name `{name}` is already taken by the worker at {other}: give each worker its \
                 own augment.advertise, and list each worker under one address only"
            ));
        }
        addresses.insert(name.to_owned(), address.to_owned());
        Ok(ClaimedName { name: name.to_owned(), names: self.clone() })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.addresses.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ClaimedName {
    fn drop(&mut self) {
        self.names.lock().remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_free_again_when_its_session_has_ended() {
        let names = WorkerNames::default();
        let first = names.claim("n1:7402", "10.0.0.1:7402").expect("nobody has it");
        let other = names.claim("n2:7402", "10.0.0.2:7402").expect("another name");
        let refused = names.claim("n1:7402", "10.0.0.3:7402").expect_err("taken");
        assert_eq!(
            refused,
            "its name `n1:7402` is already taken by the worker at 10.0.0.1:7402: give each worker \
             its own augment.advertise, and list each worker under one address only"
        );
        drop(first);
        drop(names.claim("n1:7402", "10.0.0.3:7402").expect("it is free again"));
        drop(other);
    }
}
