//! CUDA's driver and NVRTC as tests emulate them: see `tests/emulated_cuda`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// The folder of the libraries, built on first use.
pub(crate) fn libraries() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        // Of this crate or of the one around it.
        let mut crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
        let build = crates.find_map(|root| {
            let build = root.join("tests/emulated_cuda/build.sh");
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
        assert!(output.status.success(), "the emulated driver does not build");
        PathBuf::from(String::from_utf8(output.stdout).expect("a path").trim_end())
    })
}
