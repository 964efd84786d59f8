//! CUDA's own compilers take the receiver's kernel, for each architecture that is meant. They need no
//! GPU; `scripts/install-cuda.sh` has them from PyPI, and `scripts/test.sh` runs these tests with them.

use std::path::Path;
use std::process::Command;

use headwater_cuda::{EXPAND_LEVELS, LEVELS, compile};

/// A100, H100 and H200, B200.
const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

#[test]
#[ignore = "needs nvcc: scripts/test.sh has it"]
fn nvcc_compiles_the_receivers_kernel_without_a_register_in_memory() {
    let toolkit = std::env::var_os("HEADWATER_CUDA_TOOLKIT")
        .expect("HEADWATER_CUDA_TOOLKIT names the folder that scripts/install-cuda.sh prints");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join(format!("levels-{}.cu", std::process::id()));
    std::fs::write(&source, LEVELS.text).unwrap();
    for architecture in ARCHITECTURES {
        let compiled = Command::new(Path::new(&toolkit).join("bin/nvcc"))
            .args(LEVELS.options)
            .args(["-cubin", "-Xptxas", "-v", "-Werror", "all-warnings"])
            .arg(format!("-arch={architecture}"))
            .arg("-o")
            .arg(source.with_extension("cubin"))
            .arg(&source)
            .output()
            .expect("nvcc");
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{architecture}: {said}");
        let none = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
        assert_eq!(said.matches(none).count(), 1, "{architecture}: {said}");
    }
}

#[test]
#[ignore = "needs NVRTC: scripts/test.sh has it"]
fn nvrtc_makes_the_receivers_machine_code() {
    for architecture in ARCHITECTURES {
        let code = compile(&LEVELS, architecture).unwrap();
        let name = EXPAND_LEVELS.to_bytes();
        assert!(code.windows(name.len()).any(|bytes| bytes == name), "{architecture}");
    }
}
