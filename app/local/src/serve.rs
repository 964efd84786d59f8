//! The process of the local services: runs the tiers as long as loaders are connected to its socket.

use std::convert::Infallible;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::net::UnixListener;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use headwater_config::Config;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, getppid};
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use crate::alive::{Life, NOW};
use crate::client::Client;
use crate::clients::Clients;
use crate::event_fd::EventFd;
use crate::folder::RuntimeFolder;
use crate::messages::Hello;
use crate::status::Status;
use crate::token::Token;
use crate::watch::FIRST_WORD_LIMIT;
use crate::{Embedded, LocalError};

/// Loaders at a time. A rank has a few.
const LOADERS_MAX: usize = 1024;
/// Pause after a connection could not be accepted, such as for want of descriptors.
pub(crate) const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// What a scheduler or a terminal sends to all processes of a job, and means for the ranks.
const NOT_FOR_US: [SignalKind; 5] = [
    SignalKind::hangup(),
    SignalKind::interrupt(),
    SignalKind::terminate(),
    SignalKind::user_defined1(),
    SignalKind::user_defined2(),
];

/// A socket on which loaders are attended to.
struct Acceptor {
    folder: RuntimeFolder,
    socket: PathBuf,
    /// What the socket's file was when it was made.
    made: Metadata,
    listener: UnixListener,
    /// The process that started this one, until it has made a loader.
    starter: Option<Life>,
    attendance: Arc<Clients>,
    board: Arc<Status>,
    /// Rings when the board changes.
    changed: Arc<EventFd>,
    needs: UnboundedSender<Hello>,
    token: Token,
    /// Nobody can come any more.
    is_shut: bool,
}

/// Serves datasets and workers to the loaders that connect to `socket`. Returns when the last of them
/// is gone; and where none has come, when `starter` is gone, the process that started this one. Signals
/// that schedulers send to all processes of a job do not end it. `listening` is called as soon as
/// loaders may connect. Tiers are running still when this returns: the process should end.
///
/// The loaders learn what goes wrong with the tiers; it is no error here.
///
/// # Errors
/// The socket cannot be made, or the system is short of something.
pub fn serve(
    config: Config,
    socket: &Path,
    starter: Option<Pid>,
    listening: impl FnOnce(),
) -> Result<(), LocalError> {
    let starter = starter.and_then(Life::of).filter(|_| getppid() == starter);
    let runtime = Runtime::new().map_err(LocalError::Threads)?;
    ignore_signals(&runtime)?;
    let folder = RuntimeFolder::of(socket)?;
    let name = socket.file_stem().unwrap_or_default().to_string_lossy();
    let token = Token::make(&folder, &name)?;
    let mut config = config;
    token.guard(&mut config);
    let fault = |error: io::Error| LocalError::folder(socket, &error);
    let listener = UnixListener::bind(socket).map_err(fault)?;
    let made = socket.symlink_metadata().map_err(fault)?;
    listener.set_nonblocking(true).map_err(fault)?;
    let board = Arc::new(Status::new(token.path().to_owned()));
    let changed = board.listen().map_err(LocalError::Threads)?;
    let (needs, needed) = unbounded_channel();
    let tiers = run_tiers(runtime, config, Arc::clone(&board), needed);
    thread::Builder::new().name("hw-tiers".into()).spawn(tiers).map_err(LocalError::Threads)?;
    let mut door = Acceptor {
        folder,
        socket: socket.to_owned(),
        made,
        listener,
        starter,
        attendance: Arc::new(Clients::new().map_err(LocalError::Threads)?),
        board,
        changed,
        needs,
        token,
        is_shut: false,
    };
    listening();
    door.attend().map_err(fault)?;
    // Others that start now would put theirs in its place between the look and the removal.
    let _lock = door.folder.lock(&name, FIRST_WORD_LIMIT, || Ok(())).ok();
    drop(door.token);
    Ok(())
}

/// Takes what schedulers and terminals send to all processes of a job its effect.
pub(crate) fn ignore_signals(runtime: &Runtime) -> Result<(), LocalError> {
    let _within = runtime.enter();
    for kind in NOT_FOR_US {
        // Once listened for, a signal has lost its usual effect for good.
        drop(signal(kind).map_err(LocalError::Threads)?);
    }
    Ok(())
}

/// Runs the tiers for ever, or until one of them fails.
fn run_tiers(
    runtime: Runtime,
    config: Config,
    board: Arc<Status>,
    needed: UnboundedReceiver<Hello>,
) -> impl FnOnce() + Send + 'static {
    move || {
        let run = || runtime.block_on(tiers(&config, &board, needed));
        // Loaders would wait for ever for a thread that is gone.
        match catch_unwind(AssertUnwindSafe(run)).unwrap_or(Err(LocalError::Panic)) {
            Ok(never) => match never {},
            Err(error) => board.fail(&error),
        }
    }
}

async fn tiers(
    config: &Config,
    board: &Arc<Status>,
    mut needed: UnboundedReceiver<Hello>,
) -> Result<Infallible, LocalError> {
    let shown = Arc::clone(board);
    let mut tiers = Embedded::start(config, move |done, of| shown.set_indexed(done, of)).await?;
    board.set_storage(tiers.storage(), tiers.fields());
    loop {
        tokio::select! {
            Some(Hello { cores, threads }) = needed.recv() => {
                if !board.has_worker(&cores) {
                    let address = tiers.add_worker_on(cores.clone(), threads).await?;
                    board.add_worker(cores, address);
                }
            }
            error = tiers.ended() => return Err(error),
        }
    }
}

// === impl Acceptor ===

impl Acceptor {
    /// Lets loaders in until the last of them is gone.
    fn attend(&mut self) -> io::Result<()> {
        loop {
            self.wait()?;
            self.attendance.left.silence();
            self.changed.silence();
            self.let_in();
            if self.board.has_failed() {
                // Loaders that come from now on start services of their own.
                self.shut()?;
            }
            if self.starter.as_ref().is_some_and(Life::is_over) || self.attendance.has_begun() {
                self.starter = None;
            }
            if self.starter.is_none() && self.attendance.there() == 0 && self.shut()? {
                return Ok(());
            }
        }
    }

    fn wait(&self) -> io::Result<()> {
        let mut polled: Vec<PollFd<'_>> = [&self.attendance.left, &*self.changed]
            .map(|bell| PollFd::new(bell, PollFlags::IN))
            .into();
        if !self.is_shut {
            polled.push(PollFd::new(&self.listener, PollFlags::IN));
        }
        let (descriptor, limit) = self.starter.as_ref().map_or((None, None), Life::wait_for);
        polled.extend(descriptor.map(|life| PollFd::from_borrowed_fd(life, PollFlags::IN)));
        match poll(&mut polled, limit) {
            Ok(_) | Err(Errno::INTR) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether somebody waits to be let in. `accept` does not say so: without a descriptor left it fails in any case.
    fn is_somebody_waiting(&self) -> bool {
        let mut polled = [PollFd::new(&self.listener, PollFlags::IN)];
        poll(&mut polled, Some(&NOW)) != Ok(0)
    }

    /// Attends to all who wait at the door; says whether there was anybody, or is still.
    fn let_in(&mut self) -> bool {
        let mut came = false;
        while !self.is_shut && self.is_somebody_waiting() {
            let accepted = self.listener.accept();
            let accepted = accepted.and_then(|(stream, _)| {
                stream.set_nonblocking(false)?;
                Ok(stream)
            });
            let stream = match accepted {
                Ok(stream) => stream,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return came,
                // That one has gone.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    tracing::warn!(%error, "a loader cannot be let in yet");
                    thread::sleep(ACCEPT_PAUSE);
                    return true;
                }
            };
            if self.attendance.there() >= LOADERS_MAX {
                tracing::warn!(LOADERS_MAX, "a loader is refused: as many are connected as may be");
                continue;
            }
            came = true;
            if let Err(error) = self.token.keep() {
                tracing::warn!(%error, "a loader will not find the token");
            }
            let client = Client {
                stream,
                presence: self.attendance.enter(),
                board: Arc::clone(&self.board),
                needs: self.needs.clone(),
            };
            let attending = thread::Builder::new().name("hw-loader".into());
            if let Err(error) = attending.spawn(move || client.attend()) {
                tracing::warn!(%error, "a loader is refused: there are no threads");
            }
        }
        came
    }

    /// Makes sure that nobody comes any more; not if somebody has come at the last moment.
    fn shut(&mut self) -> io::Result<bool> {
        if self.is_shut {
            return Ok(true);
        }
        let name = self.socket.file_stem().unwrap_or_default().to_string_lossy();
        // Whoever finds no services starts others under this lock; one that does not get on with that is not
        // waited for longer.
        let _lock = self.folder.lock(&name, FIRST_WORD_LIMIT, || Ok(())).ok();
        if self.let_in() && !self.board.has_failed() {
            return Ok(false);
        }
        self.is_shut = true;
        self.folder.remove_socket(&self.socket, &self.made)?;
        Ok(true)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use std::io::Read as _;
    use std::os::unix::net::UnixStream;
    use std::process::{Child, Command};

    use headwater_own_files::make_own_folder;
    use rustix::process::{Resource, Rlimit, getrlimit, prlimit};
    use tempfile::TempDir;

    use super::*;

    /// Where the process of a test listens.
    const SOCKET: &str = "HEADWATER_TEST_DOOR";
    const PATIENCE: Duration = Duration::from_secs(60);
    /// Fewer than any process here has open.
    const FEW: u64 = 5;

    /// Connects to a process that has no descriptor left, and has some later. The process is this test once more: there
    /// `attend` listens at a socket and calls what it is given.
    pub(crate) fn comes_when_there_is_no_descriptor<C>(
        test: &str,
        attend: impl FnOnce(&Path, &dyn Fn()),
        connect: impl FnOnce(&Path) -> C,
        welcomed: impl FnOnce(C),
    ) {
        let ready = |socket: &Path| socket.with_extension("ready");
        if let Some(socket) = std::env::var_os(SOCKET).map(PathBuf::from) {
            return attend(&socket, &|| std::fs::write(ready(&socket), "").unwrap());
        }
        let (mut process, _folder, socket) = at_a_socket(test);
        let begun = std::time::Instant::now();
        while !ready(&socket).exists() {
            assert!(begun.elapsed() < PATIENCE && process.try_wait().unwrap().is_none());
            thread::sleep(Duration::from_millis(10));
        }
        let usual = getrlimit(Resource::Nofile);
        let pid = Some(Pid::from_child(&process));
        let limit = |current| {
            let limit = Rlimit { current, maximum: usual.maximum };
            prlimit(pid, Resource::Nofile, limit).unwrap();
        };
        limit(Some(FEW));
        let connection = connect(&socket);
        thread::sleep(5 * ACCEPT_PAUSE);
        assert!(process.try_wait().unwrap().is_none(), "it ended");
        limit(usual.current);
        welcomed(connection);
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// This test once more in a process of its own, which gets a socket in a new folder.
    fn at_a_socket(test: &str) -> (Child, TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let own = folder.path().join("own");
        make_own_folder(&own).unwrap();
        let socket = own.join("door.sock");
        let mut process = Command::new(std::env::current_exe().unwrap());
        process.args(["--exact", test]).env(SOCKET, &socket);
        (process.spawn().unwrap(), folder, socket)
    }

    fn door(socket: &Path, starter: Option<Life>) -> Acceptor {
        let listener = UnixListener::bind(socket).unwrap();
        listener.set_nonblocking(true).unwrap();
        let board = Arc::new(Status::new(PathBuf::new()));
        Acceptor {
            folder: RuntimeFolder::of(socket).unwrap(),
            socket: socket.to_owned(),
            made: socket.symlink_metadata().unwrap(),
            listener,
            starter,
            attendance: Arc::new(Clients::new().unwrap()),
            changed: board.listen().unwrap(),
            board,
            needs: unbounded_channel().0,
            token: Token::make(&RuntimeFolder::of(socket).unwrap(), "door").unwrap(),
            is_shut: false,
        }
    }

    /// The last loader has left while the services had all descriptors.
    #[test]
    fn services_that_nobody_waits_for_end_without_a_descriptor() {
        if let Some(socket) = std::env::var_os(SOCKET).map(PathBuf::from) {
            let mut door = door(&socket, None);
            drop(door.attendance.enter());
            let maximum = getrlimit(Resource::Nofile).maximum;
            prlimit(None, Resource::Nofile, Rlimit { current: Some(FEW), maximum }).unwrap();
            door.attend().unwrap();
            // Whatever the harness needs to end.
            std::process::exit(0);
        }
        let test = "serve::tests::services_that_nobody_waits_for_end_without_a_descriptor";
        let (mut process, _folder, socket) = at_a_socket(test);
        let life = Life::of(Pid::from_child(&process)).unwrap();
        let mut polled: Vec<PollFd<'_>> = Vec::new();
        polled.extend(life.wait_for().0.map(|life| PollFd::from_borrowed_fd(life, PollFlags::IN)));
        poll(&mut polled, Some(&PATIENCE.try_into().unwrap())).unwrap();
        process.kill().unwrap();
        assert!(process.wait().unwrap().success(), "it waits for a loader");
        assert!(!socket.exists());
    }

    #[test]
    fn a_loader_that_comes_when_there_is_no_descriptor_is_let_in_later() {
        let attend = |socket: &Path, ready: &dyn Fn()| {
            let mut door = door(socket, Life::of(getppid().unwrap()));
            ready();
            door.attend().unwrap();
        };
        let connect = |socket: &Path| UnixStream::connect(socket).unwrap();
        let welcomed = |mut stream: UnixStream| {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.read_exact(&mut [0]).unwrap();
        };
        let test = "serve::tests::a_loader_that_comes_when_there_is_no_descriptor_is_let_in_later";
        comes_when_there_is_no_descriptor(test, attend, connect, welcomed);
    }
}
