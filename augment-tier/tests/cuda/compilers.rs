//! CUDA's own compilers take the kernels, for each architecture that is meant. They need no GPU;
//! `scripts/install-cuda.sh` has them from PyPI, and `scripts/test.sh` runs these tests with them.

use std::path::Path;
use std::process::Command;

use headwater_augment::cuda::{Kernel, SOURCE};
use headwater_cuda::compile;

/// A100, H100 and H200, B200.
const ARCHITECTURES: [&str; 3] = ["sm_80", "sm_90", "sm_100"];

fn toolkit() -> std::ffi::OsString {
    std::env::var_os("HEADWATER_CUDA_TOOLKIT")
        .expect("HEADWATER_CUDA_TOOLKIT names the folder that scripts/install-cuda.sh prints")
}

#[test]
#[ignore = "needs nvcc: scripts/test.sh has it"]
fn nvcc_compiles_the_kernels_without_a_register_in_memory() {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let source = folder.join(format!("nvcc-{}.cu", std::process::id()));
    std::fs::write(&source, SOURCE.text).unwrap();
    for architecture in ARCHITECTURES {
        let compiled = Command::new(Path::new(&toolkit()).join("bin/nvcc"))
            .args(SOURCE.options)
            .args(["-cubin", "-Xptxas", "-v", "-Werror", "all-warnings"])
            .arg(format!("-arch={architecture}"))
            .arg("-o")
            .arg(source.with_extension("cubin"))
            .arg(&source)
            .output()
            .expect("nvcc");
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{architecture}: {said}");
        for kernel in Kernel::ALL {
            assert!(said.contains(kernel.name()), "{architecture}: {said}");
        }
        let none = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
        assert_eq!(said.matches(none).count(), Kernel::ALL.len(), "{architecture}: {said}");
    }
}

#[test]
#[ignore = "needs NVRTC: scripts/test.sh has it"]
fn nvrtc_makes_machine_code_as_a_worker_asks_for_it() {
    let code = ARCHITECTURES.map(|architecture| compile(&SOURCE, architecture).unwrap());
    for code in &code {
        // ELF for NVIDIA's GPUs, with both kernels.
        assert_eq!((&code[..4], &code[18..20]), (&b"\x7fELF"[..], &190u16.to_le_bytes()[..]));
        for kernel in Kernel::ALL {
            let name = kernel.name().as_bytes();
            assert!(code.windows(name.len()).any(|bytes| bytes == name), "{kernel:?}");
        }
    }
    assert!(code[0] != code[1] && code[1] != code[2]);
    let error = compile(&SOURCE, "sm_1").unwrap_err().to_string();
    assert!(error.contains("sm_1"), "{error}");
}
