//! A bounded number of open things, each opened once however many ask for it at the same time.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

/// Keeps up to a limit of values; the least recently used one is let go. What is let go stays
/// usable for those who hold it.
#[derive(Debug)]
pub struct OpenShards<K, V, E> {
    limit: usize,
    entries: Mutex<Entries<K, V, E>>,
}

#[derive(Debug)]
struct Entries<K, V, E> {
    /// Counts uses, to find the least recent one.
    clock: u64,
    cells: HashMap<K, (u64, Cell<V, E>)>,
}

/// An attempt, and what came of it.
type Cell<V, E> = Arc<OnceCell<Result<V, E>>>;

// === impl OpenShards ===

impl<K: Eq + Hash + Clone, V: Clone, E: Clone> OpenShards<K, V, E> {
    /// Room for `limit` values, at least 1. Those that are being opened are kept beyond that.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        let entries = Entries { clock: 0, cells: HashMap::new() };
        Self { limit: limit.max(1), entries: Mutex::new(entries) }
    }

    /// The value for `key`, made by `open` unless it is there. Others who call this meanwhile get what comes
    /// of the same attempt; one that fails leaves nothing behind. If the caller goes away, the next one who waits
    /// starts anew.
    ///
    /// # Errors
    /// What `open` says.
    pub fn get_or_open<F>(self: Arc<Self>, key: K, open: F) -> impl Future<Output = Result<V, E>>
    where
        F: Future<Output = Result<V, E>>,
    {
        let cell = self.cell(&key);
        async move {
            let result = cell.get_or_init(|| open).await.clone();
            let mut entries = self.lock();
            let is_held = entries.cells.get(&key).is_some_and(|(_, held)| Arc::ptr_eq(held, &cell));
            if result.is_err() && is_held {
                entries.cells.remove(&key);
            }
            // While several were being opened, there were more.
            entries.let_go(self.limit);
            result
        }
    }

    /// The value for `key`, if it is there.
    pub fn opened(&self, key: &K) -> Option<V> {
        let mut entries = self.lock();
        entries.clock += 1;
        let clock = entries.clock;
        let (used, cell) = entries.cells.get_mut(key)?;
        *used = clock;
        cell.get()?.clone().ok()
    }

    /// Forgets a value, so that it is opened anew when it is asked for next. What is being opened now is new.
    pub fn forget(&self, key: &K) {
        let mut entries = self.lock();
        if entries.cells.get(key).is_some_and(|(_, cell)| !is_being_opened(cell)) {
            entries.cells.remove(key);
        }
    }

    /// Forgets all values but those that are being opened now. Who holds one keeps it.
    pub fn close_idle(&self) {
        self.lock().cells.retain(|_, (_, cell)| is_being_opened(cell));
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

    fn cell(&self, key: &K) -> Cell<V, E> {
        let mut entries = self.lock();
        entries.clock += 1;
        let clock = entries.clock;
        if let Some((used, cell)) = entries.cells.get_mut(key) {
            *used = clock;
            return cell.clone();
        }
        entries.let_go(self.limit - 1);
        let cell = Arc::new(OnceCell::new());
        entries.cells.insert(key.clone(), (clock, cell.clone()));
        cell
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Entries<K, V, E>> {
        // No panic can happen while the lock is held.
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

// === impl Entries ===

impl<K: Eq + Hash + Clone, V, E> Entries<K, V, E> {
    /// Lets go of the least recently used ones until `limit` are left.
    fn let_go(&mut self, limit: usize) {
        while self.cells.len() > limit {
            // What is being opened stays: whoever asks for it next would open it a second time.
            let others = self.cells.iter().filter(|(_, (_, cell))| !is_being_opened(cell));
            let oldest = others.min_by_key(|(_, (used, _))| *used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { break };
            self.cells.remove(&oldest);
        }
    }
}

/// Not where all who asked for it have gone away.
fn is_being_opened<V, E>(cell: &Cell<V, E>) -> bool {
    !cell.initialized() && Arc::strong_count(cell) > 1
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test]
    async fn many_who_ask_at_once_open_once() {
        let open = Arc::new(OpenShards::new(4));
        let opened = AtomicU32::new(0);
        let ask = || {
            open.clone().get_or_open(7, async {
                tokio::task::yield_now().await;
                Ok::<_, ()>(opened.fetch_add(1, Ordering::Relaxed))
            })
        };
        let (a, b, c) = tokio::join!(ask(), ask(), ask());
        assert_eq!((a, b, c), (Ok(0), Ok(0), Ok(0)));
    }

    #[tokio::test]
    async fn all_who_wait_for_an_attempt_are_told_how_it_failed() {
        let open = Arc::new(OpenShards::<_, i32, _>::new(4));
        let attempts = AtomicU32::new(0);
        let ask = || {
            open.clone().get_or_open(7, async {
                tokio::task::yield_now().await;
                Err(attempts.fetch_add(1, Ordering::Relaxed))
            })
        };
        assert_eq!(tokio::join!(ask(), ask(), ask()), (Err(0), Err(0), Err(0)));
        assert_eq!((open.is_empty(), ask().await), (true, Err(1)));
    }

    #[tokio::test]
    async fn what_is_being_opened_is_opened_once_whatever_else_is() {
        let open = Arc::new(OpenShards::new(1));
        let (told, wait) = tokio::sync::oneshot::channel::<()>();
        let first =
            open.clone().get_or_open("slow", async { wait.await.map(|()| 1).map_err(drop) });
        let others = async {
            assert_eq!(open.clone().get_or_open("quick", async { Ok(2) }).await, Ok(2));
            let again = open.clone().get_or_open("slow", async { Ok(3) });
            let tell = async { told.send(()).expect("it is waited for") };
            tokio::join!(again, tell).0
        };
        assert_eq!(tokio::join!(first, others), (Ok(1), Ok(1)));
        for key in ["given up", "also given up"] {
            drop(open.clone().get_or_open(key, std::future::pending()));
        }
        assert_eq!(open.len(), 1, "nothing stays of what nobody waits for");
    }

    #[tokio::test]
    async fn what_was_opened_at_the_same_time_is_within_the_limit_afterwards() {
        let open = Arc::new(OpenShards::new(1));
        let ask = |key| {
            open.clone().get_or_open(key, async move {
                tokio::task::yield_now().await;
                Ok::<_, ()>(key)
            })
        };
        assert_eq!(tokio::join!(ask(1), ask(2), ask(3)), (Ok(1), Ok(2), Ok(3)));
        assert_eq!(open.len(), 1);
    }

    #[tokio::test]
    async fn many_who_find_a_value_spoilt_open_one_anew() {
        let open = Arc::new(OpenShards::new(4));
        let opened = AtomicU32::new(0);
        let ask = || {
            open.forget(&7);
            open.clone().get_or_open(7, async {
                tokio::task::yield_now().await;
                Ok::<_, ()>(opened.fetch_add(1, Ordering::Relaxed))
            })
        };
        assert_eq!(ask().await, Ok(0));
        assert_eq!(tokio::join!(ask(), ask(), ask()), (Ok(1), Ok(1), Ok(1)));
    }

    #[tokio::test]
    async fn the_least_recently_used_one_is_let_go() {
        let open = Arc::new(OpenShards::new(2));
        let get = |key, value| open.clone().get_or_open(key, async move { Ok::<_, ()>(value) });
        assert_eq!(get("a", 1).await, Ok(1));
        assert_eq!(get("b", 2).await, Ok(2));
        assert_eq!(get("a", 9).await, Ok(1));
        assert_eq!(get("c", 3).await, Ok(3));
        assert_eq!((open.len(), get("a", 9).await, get("b", 9).await), (2, Ok(1), Ok(9)));
    }

    #[tokio::test]
    async fn a_failed_attempt_is_made_again() {
        let open = Arc::new(OpenShards::new(2));
        assert_eq!(open.clone().get_or_open(1, async { Err::<i32, _>("no") }).await, Err("no"));
        assert!(open.is_empty());
        assert_eq!(open.clone().get_or_open(1, async { Ok(5) }).await, Ok(5));
        open.forget(&1);
        assert!(open.is_empty());
    }
}
