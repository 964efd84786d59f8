//! A bounded number of open things, each opened once however many ask for it at the same time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

/// Keeps up to a limit of values; the least recently used one is let go. What is let go stays
/// usable for those who hold it.
#[derive(Debug)]
pub struct OpenShards<K, V> {
    limit: usize,
    entries: Mutex<Entries<K, V>>,
}

#[derive(Debug)]
struct Entries<K, V> {
    /// Counts uses, so that the least recent one can be told.
    clock: u64,
    cells: HashMap<K, (u64, Arc<OnceCell<V>>)>,
}

// === impl OpenShards ===

impl<K: Eq + Hash + Clone, V: Clone> OpenShards<K, V> {
    /// Room for `limit` values, at least 1.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let entries = Entries { clock: 0, cells: HashMap::new() };
        Self { limit: limit.max(1), entries: Mutex::new(entries) }
    }

    /// The value for `key`, made by `open` unless it is there. Others who ask meanwhile wait for
    /// the same attempt; a failed attempt leaves nothing behind. If the caller goes away, the next
    /// one who waits starts anew.
    ///
    /// # Errors
    /// What `open` says.
    pub async fn get_or_open<E, F>(&self, key: K, open: F) -> Result<V, E>
    where
        F: Future<Output = Result<V, E>>,
    {
        let cell = self.cell(&key);
        let result = cell.get_or_try_init(|| open).await.cloned();
        if result.is_err() {
            let mut entries = self.lock();
            let empty = |(_, held): &(u64, Arc<OnceCell<V>>)| !held.initialized();
            if entries.cells.get(&key).is_some_and(empty) {
                entries.cells.remove(&key);
            }
        }
        result
    }

    /// The value for `key`, if it is there.
    pub fn opened(&self, key: &K) -> Option<V> {
        let mut entries = self.lock();
        entries.clock += 1;
        let clock = entries.clock;
        let (used, cell) = entries.cells.get_mut(key)?;
        *used = clock;
        cell.get().cloned()
    }

    /// Forgets a value, so that it is opened anew when it is asked for next.
    pub fn forget(&self, key: &K) {
        self.lock().cells.remove(key);
    }

    /// Forgets all values but those that are being opened now. Who holds one keeps it.
    pub fn close_idle(&self) {
        self.lock().cells.retain(|_, (_, cell)| !cell.initialized());
    }

    /// How many values are held or being opened.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lock().cells.len()
    }

    /// Whether nothing is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn cell(&self, key: &K) -> Arc<OnceCell<V>> {
        let mut entries = self.lock();
        entries.clock += 1;
        let clock = entries.clock;
        if let Some((used, cell)) = entries.cells.get_mut(key) {
            *used = clock;
            return cell.clone();
        }
        if entries.cells.len() >= self.limit {
            let oldest = entries.cells.iter().min_by_key(|(_, (used, _))| *used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                entries.cells.remove(&oldest);
            }
        }
        let cell = Arc::new(OnceCell::new());
        entries.cells.insert(key.clone(), (clock, cell.clone()));
        cell
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Entries<K, V>> {
        // No panic can happen while the lock is held.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn many_who_ask_at_once_open_once() {
        let open = OpenShards::new(4);
        let opened = AtomicU32::new(0);
        let ask = || {
            open.get_or_open(7, async {
                tokio::task::yield_now().await;
                Ok::<_, ()>(opened.fetch_add(1, Ordering::Relaxed))
            })
        };
        let (a, b, c) = tokio::join!(ask(), ask(), ask());
        assert_eq!((a, b, c), (Ok(0), Ok(0), Ok(0)));
    }

    #[tokio::test]
    async fn the_least_recently_used_one_is_let_go() {
        let open = OpenShards::new(2);
        let get = |key, value| open.get_or_open(key, async move { Ok::<_, ()>(value) });
        assert_eq!(get("a", 1).await, Ok(1));
        assert_eq!(get("b", 2).await, Ok(2));
        assert_eq!(get("a", 9).await, Ok(1));
        assert_eq!(get("c", 3).await, Ok(3));
        assert_eq!((open.len(), get("a", 9).await, get("b", 9).await), (2, Ok(1), Ok(9)));
    }

    #[tokio::test]
    async fn a_failed_attempt_is_made_again() {
        let open = OpenShards::new(2);
        assert_eq!(open.get_or_open(1, async { Err::<i32, _>("no") }).await, Err("no"));
        assert!(open.is_empty());
        assert_eq!(open.get_or_open(1, async { Ok::<_, &str>(5) }).await, Ok(5));
        open.forget(&1);
        assert!(open.is_empty());
    }
}
