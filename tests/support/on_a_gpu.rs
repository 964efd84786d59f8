//! Tests of what asks CUDA's driver itself, on the emulated one: in processes of their own, as the
//! driver is looked for once, when a process starts.

use std::process::Command;

#[path = "emulated_cuda.rs"]
mod emulated;

/// Says to a process that its driver is the emulated one.
const MARK: &str = "ON_AN_EMULATED_GPU";

/// Runs `body` of the test of this name, with the path of its module, in a process with the emulated
/// driver under these settings.
pub(crate) fn on_a_gpu(test: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    if std::env::var_os(MARK).is_some() {
        return body();
    }
    let output = Command::new(std::env::current_exe().expect("this program"))
        .args([test, "--exact", "--nocapture"])
        .env(MARK, "1")
        .env("LD_LIBRARY_PATH", emulated::libraries())
        .envs(settings.iter().copied())
        .output()
        .expect("the test once more");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{said}");
}
