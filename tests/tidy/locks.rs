//! Locks of the Python module, and the interpreter's lock.
//!
//! A thread that waits for a lock of ours with the interpreter's lock, and a thread that has this lock and wants the
//! interpreter's, wait for each other for ever. So waiting needs a proof that the interpreter's lock was let go of.

use crate::tree::{code, files};

const FOLDER: &str = "gpu-receiver/python/src/";
const LIST: &str = "tests/tidy/locks.rs";
/// What waits for other threads.
const LOCKS: [&str; 10] = [
    "Mutex",
    "RwLock",
    "Condvar",
    "Barrier",
    "Once",
    "OnceLock",
    "LazyLock",
    "ReentrantLock",
    "Turn",
    "Semaphore",
];
/// The files that have any. `None`: it gives them only to those who have let go of the interpreter's lock. Otherwise
/// the reason why nothing of Python's happens under them.
const ROOMS: [(&str, Option<&str>); 2] = [
    ("detached.rs", None),
    ("threads.rs", Some("its threads live within one call, and know nothing of Python")),
];
/// What takes the interpreter's lock.
const ATTACH: [&str; 3] = ["attach(", "try_attach(", "with_gil("];
/// The files that do, each with the reason.
const CALLERS: [(&str, &str); 4] = [
    ("detached.rs", "lets go of it where Python drops an object"),
    ("device.rs", "the receiver asks the trainer's allocator"),
    ("errors.rs", "an exception is Python's"),
    ("reduce.rs", "the receiver calls `amax_reduce`"),
];

/// Locks and calls of Python's elsewhere, and rooms that are gone.
pub(crate) fn breaches() -> Vec<String> {
    let all = files(&[".rs"]);
    let ours: Vec<&String> = all.iter().filter(|path| path.starts_with(FOLDER)).collect();
    let rooms = ROOMS.iter().map(|(file, _)| file).chain(CALLERS.iter().map(|(file, _)| file));
    let gone = rooms.filter(|file| !ours.iter().any(|path| path[FOLDER.len()..] == ***file));
    let gone = gone.map(|file| format!("{FOLDER}{file} is gone: take it off the list in {LIST}"));
    let of_file = |path: &&String| of(&path[FOLDER.len()..], &code(path));
    gone.chain(ours.iter().flat_map(of_file)).collect()
}

fn of(file: &str, code: &[String]) -> Vec<String> {
    let is_room = ROOMS.iter().any(|(room, _)| *room == file);
    let knows_python = !ROOMS.contains(&(file, None));
    let calls = CALLERS.iter().any(|(caller, _)| *caller == file);
    let mut breaches = Vec::new();
    for (at, line) in code.iter().enumerate() {
        let place = format!("{FOLDER}{file}:{}", at + 1);
        let mut words = line.split(|char: char| !(char.is_alphanumeric() || char == '_'));
        if let Some(lock) = words.clone().find(|word| LOCKS.contains(word)).filter(|_| !is_room) {
            breaches.push(format!(
                "{place}: `{lock}` may be waited for with the interpreter's lock: take `Lock` of detached.rs, or \
                 `PyOnceLock`"
            ));
        }
        if is_room && knows_python && words.any(|word| ["pyo3", "Python", "Py"].contains(&word)) {
            breaches.push(format!("{place}: it has locks of its own, and must not know Python"));
        }
        if !calls && ATTACH.iter().any(|attach| line.contains(attach)) {
            breaches.push(format!(
                "{place}: takes the interpreter's lock: have it given as `py`, or name the file with its \
                 reason in {LIST}"
            ));
        }
    }
    breaches
}

#[test]
fn a_planted_breach_is_refused() {
    let of = |file, line: &str| of(file, &[line.to_owned()]).len();
    assert_eq!(of("trace.rs", "    state: std::sync::Mutex<State>,"), 1);
    assert_eq!(of("trace.rs", "static LOGS: Once = Once::new();"), 1);
    assert_eq!(
        of("trace.rs", "let once = PyOnceLock::new(); let locked = self.state.lock(detached);"),
        0
    );
    assert_eq!(of("iteration.rs", "Python::attach(|py| drop(py));"), 1);
    assert_eq!(of("reduce.rs", "Python::attach(|py| drop(py));"), 0);
    assert_eq!(of("threads.rs", "let queue = Mutex::new(Vec::<Py<PyAny>>::new());"), 1);
    assert_eq!(of("threads.rs", "let queue = Mutex::new(items);"), 0);
    assert_eq!(of("detached.rs", "pub(crate) struct Lock<T>(Mutex<T>, Py<PyAny>);"), 0);
}
