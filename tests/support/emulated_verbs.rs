//! libibverbs as tests emulate it: see `tests/emulated_verbs`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The folder of the library, built on first use.
pub(crate) fn libraries() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emulated_verbs/build.sh");
        let output = Command::new(build)
            .arg(env!("CARGO_TARGET_TMPDIR"))
            .stderr(Stdio::inherit())
            .output()
            .expect("bash");
        assert!(output.status.success(), "the emulated verbs do not build");
        PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim_end())
    })
}
