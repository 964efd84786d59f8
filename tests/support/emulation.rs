//! The libraries that tests emulate: builds them, and runs tests on them in processes of their own, as
//! a library is looked for once, when a process first needs it.
#![allow(dead_code)] // Each test uses some of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Says to a process that it has the emulated libraries.
const MARK: &str = "ON_EMULATED_LIBRARIES";

/// The folder of CUDA's driver and NVRTC, of `tests/emulated_cuda`; built on first use.
pub(crate) fn cuda() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built("emulated_cuda"))
}

/// The folder of libibverbs, of `tests/emulated_verbs`; built on first use.
pub(crate) fn verbs() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| built("emulated_verbs"))
}

/// Runs `body` of the test of this name, with the path of its module, in a process with the emulated
/// GPU under these settings.
pub(crate) fn on_a_gpu(test: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    if is_emulated() { body() } else { run_again(test, &[cuda()], settings) }
}

/// As [`on_a_gpu`], with the emulated verbs.
pub(crate) fn on_verbs(test: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    if is_emulated() { body() } else { run_again(test, &[verbs()], settings) }
}

/// Runs `body` of the test of this name, with the path of its module, in a process without other tests.
pub(crate) fn alone(test: &str, body: impl FnOnce()) {
    if is_emulated() { body() } else { run_again(test, &[], &[]) }
}

/// As [`alone`], with a /dev/shm of its own where this system has mount namespaces.
pub(crate) fn with_own_shared_memory(test: &str, body: impl FnOnce()) {
    const MOUNT: &str = "mount -t tmpfs none /dev/shm && exec \"$@\"";
    let namespace = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", MOUNT, "sh"]);
        command
    };
    if is_emulated() || !namespace().arg("true").output().is_ok_and(|made| made.status.success()) {
        return body();
    }
    let mut command = namespace();
    command.arg(std::env::current_exe().expect("this program"));
    run_in(command, test);
}

/// Whether this process is one that [`run_again`] started.
pub(crate) fn is_emulated() -> bool {
    std::env::var_os(MARK).is_some()
}

/// Runs the test of this name, with the path of its module, in a process that has these libraries and
/// settings.
///
/// # Panics
/// It fails there.
pub(crate) fn run_again(test: &str, libraries: &[&Path], settings: &[(&str, &str)]) {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.envs(settings.iter().copied());
    if !libraries.is_empty() {
        command.env("LD_LIBRARY_PATH", std::env::join_paths(libraries).expect("no colons"));
    }
    run_in(command, test);
}

/// Runs the test of this name by a command that starts this program.
fn run_in(mut command: Command, test: &str) {
    command.args([test, "--exact", "--include-ignored", "--nocapture"]).env(MARK, "1");
    let output = command.output().expect("the test once more");
    let (out, said) = (&output.stdout, String::from_utf8_lossy(&output.stderr));
    let passed = String::from_utf8_lossy(out).contains("1 passed");
    assert!(output.status.success() && passed, "{}{said}", String::from_utf8_lossy(out));
}

/// The folder of the libraries that `tests/NAME/build.sh` makes.
fn built(name: &str) -> PathBuf {
    // Of this crate or of the one around it.
    let mut crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let build = crates.find_map(|root| {
        let build = root.join("tests").join(name).join("build.sh");
        build.exists().then_some(build)
    });
    let build = build.expect("the script");
    // A test is target/PROFILE/deps/NAME.
    let test = std::env::current_exe().expect("this program");
    let target = test.ancestors().nth(3).expect("the build's folder");
    let output = Command::new(build)
        .arg(target.join("tmp"))
        .stderr(Stdio::inherit())
        .output()
        .expect("bash");
    assert!(output.status.success(), "{name} does not build");
    PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim_end())
}
