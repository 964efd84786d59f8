//! What the services are doing, for all loaders to see.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use crate::event_fd::EventFd;
use crate::messages::{Answer, Ready};
use crate::{LocalError, LocalErrorKind};
use headwater_inventory::Cores;

/// Written by the thread that runs the tiers, read by those that attend to loaders.
#[derive(Debug)]
pub(crate) struct Status {
    token_file: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// Shards that are indexed, of how many.
    indexed: (usize, usize),
    /// The storage node's address, and the fields of its datasets.
    storage: Option<(String, Vec<String>)>,
    /// The workers' addresses, by the cores that they run on.
    workers: BTreeMap<Cores, String>,
    failed: Option<(LocalErrorKind, String)>,
    bells: Vec<Weak<EventFd>>,
}

/// What one loader has been told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    indexed: (usize, usize),
    ready: bool,
    failed: bool,
}

// === impl Status ===

impl Status {
    pub(crate) fn new(token_file: PathBuf) -> Self {
        Self { token_file, state: Mutex::default() }
    }

    /// An event that is signalled with every change, as long as it is kept.
    pub(crate) fn listen(&self) -> io::Result<Arc<EventFd>> {
        let bell = Arc::new(EventFd::new()?);
        self.state().bells.push(Arc::downgrade(&bell));
        Ok(bell)
    }

    pub(crate) fn set_indexed(&self, done: usize, of: usize) {
        self.change(|state| state.indexed = (done, of));
    }

    pub(crate) fn set_storage(&self, address: &str, fields: &[String]) {
        self.change(|state| state.storage = Some((address.to_owned(), fields.to_vec())));
    }

    pub(crate) fn add_worker(&self, cores: Cores, address: String) {
        self.change(|state| drop(state.workers.insert(cores, address)));
    }

    pub(crate) fn has_worker(&self, cores: &Cores) -> bool {
        self.state().workers.contains_key(cores)
    }

    /// Notes the first error; those after it follow from it.
    pub(crate) fn fail(&self, error: &LocalError) {
        self.change(|state| {
            state.failed.get_or_insert_with(|| (error.kind(), error.to_string()));
        });
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.state().failed.is_some()
    }

    /// The next news for a loader with these cores, if there is any.
    pub(crate) fn news(&self, cores: &Cores, told: &mut Told) -> Option<Answer> {
        let state = self.state();
        if let Some((kind, text)) = &state.failed {
            let news = Answer::Failed { kind: *kind, text: text.clone() };
            return (!std::mem::replace(&mut told.failed, true)).then_some(news);
        }
        if told.ready {
            return None;
        }
        if let (Some((storage, fields)), Some(worker)) = (&state.storage, state.workers.get(cores))
        {
            told.ready = true;
            let (storage, fields, worker) = (storage.clone(), fields.clone(), worker.clone());
            let token_file = self.token_file.clone();
            return Some(Answer::Ready(Ready { storage, fields, worker, token_file }));
        }
        let (done, of) = state.indexed;
        let is_news = std::mem::replace(&mut told.indexed, state.indexed) != state.indexed;
        is_news.then_some(Answer::Indexing { done, of })
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state();
        change(&mut state);
        state.bells.retain(|bell| bell.upgrade().inspect(|bell| bell.ring()).is_some());
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loader_is_told_each_thing_once_and_of_the_worker_on_its_own_cores() {
        let board = Status::new("token".into());
        let cores = |text: &str| Cores::try_from(text.to_owned()).unwrap();
        let (ours, theirs, mut told) = (cores("0-3"), cores("4-7"), Told::default());
        assert_eq!(board.news(&ours, &mut told), None);
        board.set_indexed(1, 3);
        board.set_indexed(2, 3);
        assert_eq!(board.news(&ours, &mut told), Some(Answer::Indexing { done: 2, of: 3 }));
        board.set_storage("a:1", &["jpg".into()]);
        board.add_worker(theirs, "b:2".into());
        assert_eq!(board.news(&ours, &mut told), None);
        board.add_worker(ours.clone(), "c:3".into());
        let Some(Answer::Ready(ready)) = board.news(&ours, &mut told) else { panic!("{told:?}") };
        assert_eq!((&*ready.storage, &*ready.worker), ("a:1", "c:3"));
        board.set_indexed(3, 3);
        assert_eq!(board.news(&ours, &mut told), None);
        board.fail(&LocalError::Ended);
        board.fail(&LocalError::Panic);
        let text = LocalError::Ended.to_string();
        let failed = Answer::Failed { kind: LocalErrorKind::Services, text };
        assert_eq!(board.news(&ours, &mut told), Some(failed));
        assert_eq!(board.news(&ours, &mut told), None);
    }
}
