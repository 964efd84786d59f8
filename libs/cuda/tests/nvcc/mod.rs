//! nvcc on a tier's kernels, for the tests of each crate that has some.

use std::path::Path;
use std::process::Command;

use headwater_cuda::KernelSource;

/// T4, which is the oldest that is taken; A100, H100 and H200, B200.
pub(crate) const ARCHITECTURES: [&str; 4] = ["sm_75", "sm_80", "sm_90", "sm_100"];

/// Compiles a source for all of them: `kernels` are in it and no others, and none keeps a register in
/// memory. `HEADWATER_CUDA_TOOLKIT` says where nvcc is.
///
/// # Panics
/// It is otherwise.
pub(crate) fn compiles(source: &KernelSource, kernels: &[&str]) {
    let toolkit = std::env::var_os("HEADWATER_CUDA_TOOLKIT")
        .expect("HEADWATER_CUDA_TOOLKIT names the folder that scripts/install-cuda.sh prints");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join(format!("nvcc-{}.cu", std::process::id()));
    std::fs::write(&file, source.text()).unwrap();
    for architecture in ARCHITECTURES {
        let compiled = Command::new(Path::new(&toolkit).join("bin/nvcc"))
            .args(source.options)
            .args(["-cubin", "-Xptxas", "-v", "-Werror", "all-warnings"])
            .arg(format!("-arch={architecture}"))
            .arg("-o")
            .arg(file.with_extension("cubin"))
            .arg(&file)
            .output()
            .expect("nvcc");
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "{architecture}: {said}");
        for kernel in kernels {
            assert!(said.contains(kernel), "{architecture}: {said}");
        }
        let none = "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
        assert_eq!(said.matches(none).count(), kernels.len(), "{architecture}: {said}");
    }
}
