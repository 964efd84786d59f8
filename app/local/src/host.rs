//! The process that makes the batches of a host once for all its trials: found through a socket, or started.
//!
//! It begins as the local services do: under the folder's lock, so that there is one. It ends with the
//! last of its trials.

use std::fs::Metadata;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use headwater_config::Config;
use headwater_core::{Digest, Digester};
use headwater_receiver::{HostService, SampleConfig};
use headwater_transport::packets::{PacketSocket, readable};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SocketAddrUnix, SocketFlags, SocketType};
use rustix::process::{Pid, getppid};
use tokio::runtime::Runtime;
use tokio::sync::{Notify, watch};

use crate::LocalError;
use crate::alive::Life;
use crate::folder::RuntimeFolder;
use crate::job::namespace;
use crate::program::{self, Verb};
use crate::serve::{ACCEPT_PAUSE, ignore_signals};
use crate::services::lock_limit;
use crate::watch::{FIRST_WORD_LIMIT, Watch};

/// The first packet of the process, to whoever is let in; the number is that of the words after it.
const WELCOME: &[u8] = b"headwater host 2";
/// Times that the process may end just as it is come upon.
const TRIES: usize = 8;
/// How long is waited for the welcome between two looks whether it is still wanted.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// How often is looked where the kernel does not tell of a process's end.
const LIFE_LOOK: Duration = Duration::from_secs(1);
/// Trials at a time.
const TRIALS_MAX: usize = 1024;

/// A connection to the process that makes the batches which a configuration asks for, for
/// [`headwater_receiver::Callbacks`]. The first to come starts the program `headwater`, which is looked for
/// in the `scripts` folders.
///
/// # Errors
/// No program, or no folder for the socket; the process cannot start.
pub fn host_receiver(
    config: &Config,
    scripts: &[PathBuf],
    watch: &Watch<'_>,
) -> Result<OwnedFd, LocalError> {
    let limit = lock_limit(&config.receiver);
    let config = settled(config);
    let folder = RuntimeFolder::open()?;
    let key = key(&config);
    let socket = folder.socket(key);
    let found = || program::find(scripts, |name| std::env::var_os(name));
    for _ in 0..TRIES {
        watch.check()?;
        if let Some(connection) = welcomed(connect(&socket, watch)?, &socket, watch)? {
            return Ok(connection);
        }
        let lock = folder.lock(&key.to_string(), limit, || watch.check())?;
        let mut there = connect(&socket, watch)?;
        if there.is_none() {
            program::start(&found()?, Verb::Host, &config, &socket, watch)?;
            // Under the lock, so that it does not end for want of trials meanwhile.
            there = connect(&socket, watch)?;
        }
        drop(lock);
        if let Some(connection) = welcomed(there, &socket, watch)? {
            return Ok(connection);
        }
    }
    Err(LocalError::Lost)
}

/// The configuration of the process: equal for trials that may share.
fn settled(config: &Config) -> Config {
    let mut config = Config {
        dataset: config.dataset.clone(),
        curriculum: config.curriculum.clone(),
        recipe: config.recipe.clone(),
        receiver: config.receiver.clone(),
        links: config.links.clone(),
        security: config.security.clone(),
        telemetry: config.telemetry.clone(),
        ..Config::default()
    };
    // Each trial shows its own.
    config.telemetry.metrics_listen.clear();
    config.receiver = HostService::config(&config.receiver);
    // Nobody is asked for the source of functions where there are none.
    if config.recipe.recipe().is_ok_and(|recipe| recipe.python_functions().next().is_none()) {
        let SampleConfig { python, python_path, .. } = SampleConfig::default();
        let samples = &mut config.receiver.samples;
        (samples.python, samples.python_path) = (python, python_path);
    }
    config
}

/// Identity of the process that a configuration wants.
fn key(config: &Config) -> Digest {
    // Whoever starts the process says how it logs.
    let telemetry = Config::default().telemetry;
    let said = serde_json::to_vec(&Config { telemetry, ..config.clone() }).expect("plain data");
    // Addresses may be files, and paths relative.
    let folder = std::env::current_dir().unwrap_or_default();
    let mut digester = Digester::new("headwater host receiver 1");
    // Builds of one release may speak otherwise.
    digester.bytes(WELCOME);
    for text in [env!("CARGO_PKG_VERSION"), &namespace("net"), &namespace("pid")] {
        digester.bytes(text.as_bytes());
    }
    digester.bytes(folder.as_os_str().as_encoded_bytes()).bytes(&said).finish()
}

/// Connects to the process that listens at a socket, if there is one.
fn connect(socket: &Path, watch: &Watch<'_>) -> Result<Option<OwnedFd>, LocalError> {
    let fault = |error: Errno| LocalError::folder(socket, &io::Error::from(error));
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let connection =
        rustix::net::socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None);
    let connection = connection.map_err(fault)?;
    let address = SocketAddrUnix::new(socket).map_err(fault)?;
    let begun = Instant::now();
    loop {
        watch.check_silence(socket, begun)?;
        match rustix::net::connect(&connection, &address) {
            Ok(()) => return Ok(Some(connection)),
            Err(Errno::NOENT | Errno::CONNREFUSED) => return Ok(None),
            // Many come at once.
            Err(Errno::AGAIN) => std::thread::sleep(Duration::from_millis(5)),
            Err(Errno::INTR) => {}
            Err(error) => return Err(fault(error)),
        }
    }
}

/// The connection once somebody attends to it; `None`: there is nobody any more.
fn welcomed(
    connection: Option<OwnedFd>,
    socket: &Path,
    watch: &Watch<'_>,
) -> Result<Option<OwnedFd>, LocalError> {
    let Some(connection) = connection else { return Ok(None) };
    let mut said = [0; WELCOME.len()];
    let begun = Instant::now();
    loop {
        watch.check_silence(socket, begun)?;
        let _ = poll(&mut [PollFd::new(&connection, PollFlags::IN)], Some(&LOOK));
        match rustix::net::recv(&connection, &mut said, RecvFlags::DONTWAIT) {
            Ok((read, _)) if said[..read] == *WELCOME => return Ok(Some(connection)),
            Ok(_) => return Ok(None),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => return Ok(None),
        }
    }
}

/// The process: listens at `socket`, opens the receiver, and gives batches to trials until the last of
/// them is gone; where none has come, until `starter` is gone. Signals that schedulers send to all
/// processes of a job do not end it. `listening` is called as soon as trials may connect.
///
/// # Errors
/// The socket cannot be made; the receiver cannot be opened: trials go on without it then.
pub fn serve_host(
    config: &Config,
    socket: &Path,
    starter: Option<Pid>,
    listening: impl FnOnce(),
) -> Result<(), LocalError> {
    let starter = starter.and_then(Life::of).filter(|_| getppid() == starter);
    let runtime = Runtime::new().map_err(LocalError::Threads)?;
    ignore_signals(&runtime)?;
    let folder = RuntimeFolder::of(socket)?;
    let fault = |error: io::Error| LocalError::folder(socket, &error);
    let within = runtime.enter();
    let listener = PacketSocket::listen(socket.as_os_str().as_encoded_bytes()).map_err(fault)?;
    drop(within);
    let made = socket.symlink_metadata().map_err(fault)?;
    listening();
    let door = Arc::new(Acceptor {
        folder,
        socket: socket.to_owned(),
        made,
        there: AtomicUsize::new(0),
        left: Notify::new(),
    });
    let (tell, service) = watch::channel(None);
    let open = {
        let config = config.clone();
        move || -> Result<HostService, LocalError> {
            let (receiver, recipe) = (config.receiver_tier()?, config.recipe.recipe()?);
            Ok(HostService::open(&receiver, recipe, &config.dataset_uses()?)?)
        }
    };
    let opened = std::thread::Builder::new().name("hw-open".into()).spawn(move || {
        let opened = open();
        let (service, error) = match opened {
            Ok(service) => (Some(Arc::new(service)), None),
            Err(error) => (None, Some(error)),
        };
        tell.send_replace(Some(service));
        error
    });
    let opened = opened.map_err(LocalError::Threads)?;
    let kept = service.clone();
    let attended = runtime.block_on(door.attend(&listener, starter, service));
    // The process ends.
    std::mem::forget(runtime);
    // Leaves the workers in order.
    drop(kept);
    attended.map_err(fault)?;
    match opened.is_finished().then(|| opened.join()) {
        Some(Ok(Some(error))) => Err(error),
        _ => Ok(()),
    }
}

/// Nothing yet, or the service, or that there will be none.
type Opening = watch::Receiver<Option<Option<Arc<HostService>>>>;

/// Where trials come in.
struct Acceptor {
    folder: RuntimeFolder,
    socket: PathBuf,
    /// What the socket's file was when it was made.
    made: Metadata,
    there: AtomicUsize,
    /// Rung when a trial has left.
    left: Notify,
}

// === impl Acceptor ===

impl Acceptor {
    /// Lets trials in until the last of them is gone.
    async fn attend(
        self: &Arc<Self>,
        listener: &PacketSocket,
        starter: Option<Life>,
        service: Opening,
    ) -> io::Result<()> {
        let mut starter = std::pin::pin!(async {
            if let Some(starter) = starter {
                over(&starter).await;
            }
        });
        let (mut has_begun, mut is_orphan) = (false, false);
        loop {
            tokio::select! {
                biased;
                came = listener.accept() => match came {
                    Ok(socket) => has_begun |= self.let_in(socket, &service),
                    Err(error) => {
                        tracing::warn!(%error, "a trial cannot be let in yet");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
                () = self.left.notified() => {}
                () = &mut starter, if !is_orphan => is_orphan = true,
            }
            let nobody = self.there.load(Ordering::Acquire) == 0;
            if nobody && (has_begun || is_orphan) && self.shut(listener, &service).await? {
                return Ok(());
            }
        }
    }

    /// Attends to a trial; `false`: it is not let in.
    fn let_in(self: &Arc<Self>, socket: PacketSocket, service: &Opening) -> bool {
        if self.there.load(Ordering::Acquire) >= TRIALS_MAX {
            tracing::warn!(TRIALS_MAX, "a trial is turned away: as many are connected as may be");
            return false;
        }
        let life = match Life::of_peer(&socket) {
            Ok(life) => life,
            Err(error) => {
                tracing::warn!(%error, "a trial is turned away");
                return false;
            }
        };
        self.there.fetch_add(1, Ordering::AcqRel);
        let (door, mut service) = (Arc::clone(self), service.clone());
        tokio::spawn(async move {
            let attended = async {
                socket.send(WELCOME, None).await?;
                let opened = service.wait_for(Option::is_some).await.ok();
                let opened = opened.and_then(|opened| opened.clone()).flatten();
                match opened {
                    Some(service) => service.attend(socket, over(&life)).await,
                    // Why is in the log.
                    None => Ok(()),
                }
            };
            if let Err(error) = attended.await {
                tracing::debug!(%error, "a trial's connection ends");
            }
            // Before it counts as gone: the last one must not go in a task.
            drop(service);
            door.there.fetch_sub(1, Ordering::AcqRel);
            door.left.notify_one();
        });
        true
    }

    /// Makes sure that nobody comes any more; not if somebody has come at the last moment.
    async fn shut(
        self: &Arc<Self>,
        listener: &PacketSocket,
        service: &Opening,
    ) -> io::Result<bool> {
        let folder = self.folder.clone();
        let name = self.socket.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        // Whoever finds no process starts another one under this lock; one that does not get on with that is
        // not waited for longer.
        let lock = move || folder.lock(&name, FIRST_WORD_LIMIT, || Ok(())).ok();
        let _lock = tokio::task::spawn_blocking(lock).await.map_err(io::Error::other)?;
        let mut came = false;
        while let Ok(accepted) = tokio::time::timeout(Duration::ZERO, listener.accept()).await {
            // One that cannot be accepted yet waits still.
            let Ok(socket) = accepted else { return Ok(false) };
            came |= self.let_in(socket, service);
        }
        if came {
            return Ok(false);
        }
        self.folder.remove_socket(&self.socket, &self.made)?;
        Ok(true)
    }
}

/// Resolves when a process has ended.
async fn over(life: &Life) {
    while !life.is_over() {
        let watched = life.wait_for().0.and_then(|fd| fd.try_clone_to_owned().ok());
        let told = match watched {
            Some(fd) => readable(fd).await.is_ok(),
            None => false,
        };
        if !told {
            tokio::time::sleep(LIFE_LOOK).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::serve::tests::comes_when_there_is_no_descriptor;

    /// The configuration with another value of one key of a section.
    fn with(section: &str, key: &str, value: serde_json::Value) -> Config {
        let mut config = serde_json::to_value(Config::default()).expect("plain data");
        config[section][key] = value;
        serde_json::from_value(config).expect("a configuration")
    }

    fn of(config: &Config) -> Digest {
        key(&settled(config))
    }

    #[test]
    fn trials_share_a_process_whatever_they_have_of_their_own() {
        let ours = of(&Config::default());
        for (key, value) in [
            ("job", json!("another")),
            ("checkpoint_dir", json!("elsewhere")),
            ("checkpoint_every_steps", json!(7)),
            ("checkpoint_keep", json!(7)),
            ("resume", json!(true)),
            ("resume_allow", json!(["seed"])),
            ("epochs", json!(7)),
            ("slots_max", json!(700)),
            ("masks", json!({"patch": 16})),
            ("patches", json!({"kind": "ijepa", "patch": 16})),
            ("mixing", json!({"mixup_alpha": 0.4})),
            ("gpudirect", json!("auto")),
            ("cuda_cache_dir", json!("elsewhere")),
            // No preset has functions of Python.
            ("python", json!("python3.12")),
            ("python_path", json!(["elsewhere"])),
        ] {
            assert_eq!(of(&with("receiver", key, value)), ours, "receiver.{key}");
        }
        for (key, value) in [("log", json!("debug")), ("metrics_listen", json!("[::]:9000"))] {
            assert_eq!(of(&with("telemetry", key, value)), ours, "telemetry.{key}");
        }
        for (section, key, value) in [
            ("receiver", "seed", json!(7)),
            ("receiver", "rank", json!(1)),
            ("receiver", "host_batches", json!(7)),
            ("receiver", "max_lead", json!(7)),
            ("receiver", "workers", json!(["elsewhere:7402"])),
            ("recipe", "dtype", json!("f16")),
        ] {
            assert_ne!(of(&with(section, key, value)), ours, "{section}.{key}");
        }
    }

    #[test]
    fn the_python_that_finds_functions_counts_where_a_recipe_has_some() {
        let mut ours = Config::default();
        ours.recipe.preset = "custom".into();
        let tensor = json!({
            "name": "images", "dtype": "f32", "height": 32, "width": 32,
            "views": [{"crop": {"kind": "resize"}, "ops": [{"op": "python", "p": 1.0, "function": "own:f"}]}],
        });
        ours.recipe.tensors = serde_json::from_value(json!([tensor])).expect("a tensor");
        let recipe = ours.recipe.recipe().expect("a recipe");
        assert_eq!(recipe.python_functions().count(), 1);
        let mut other = ours.clone();
        other.receiver.samples.python_path = vec!["elsewhere".into()];
        assert_ne!(of(&other), of(&ours));
    }

    #[test]
    fn a_trial_that_comes_when_there_is_no_descriptor_is_let_in_later() {
        let attend = |socket: &Path, ready: &dyn Fn()| {
            let runtime = Runtime::new().expect("threads");
            let within = runtime.enter();
            let listener = PacketSocket::listen(socket.as_os_str().as_encoded_bytes());
            let listener = listener.expect("a socket");
            drop(within);
            let door = Arc::new(Acceptor {
                folder: RuntimeFolder::of(socket).expect("a folder"),
                socket: socket.to_owned(),
                made: socket.symlink_metadata().expect("its file"),
                there: AtomicUsize::new(0),
                left: Notify::new(),
            });
            let (_opening, service) = watch::channel(None);
            let starter = getppid().and_then(Life::of);
            ready();
            runtime.block_on(door.attend(&listener, starter, service)).expect("no error");
        };
        let wanted = std::sync::atomic::AtomicBool::new(false);
        let watch = Watch { tell: &|_, _| (), cancelled: &wanted };
        let connected =
            |socket: &Path| (connect(socket, &watch).expect("no error"), socket.to_owned());
        let is_welcomed = |(connection, socket): (Option<OwnedFd>, PathBuf)| {
            let welcomed = welcomed(connection, &socket, &watch).expect("no error");
            assert!(welcomed.is_some());
        };
        let test = "host::tests::a_trial_that_comes_when_there_is_no_descriptor_is_let_in_later";
        comes_when_there_is_no_descriptor(test, attend, connected, is_welcomed);
    }
}
