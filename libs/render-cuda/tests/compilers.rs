//! CUDA's own compilers take the kernels, for each architecture that is meant. They need no GPU;
//! `scripts/install-cuda.sh` has them from PyPI, and `scripts/test.sh` runs these tests with them.

#[path = "../../cuda/tests/nvcc/mod.rs"]
mod nvcc;

use headwater_cuda::compile;
use headwater_render_cuda::{Kernel, SOURCE};
use nvcc::ARCHITECTURES;

#[test]
#[ignore = "needs nvcc: scripts/test.sh has it"]
fn nvcc_compiles_the_kernels_without_a_register_in_memory() {
    nvcc::compiles(&SOURCE, &Kernel::ALL.map(Kernel::name));
}

#[test]
#[ignore = "needs NVRTC: scripts/test.sh has it"]
fn nvrtc_makes_machine_code_as_a_worker_asks_for_it() {
    let code = ARCHITECTURES.map(|architecture| compile(&SOURCE, architecture, 0).unwrap());
    for code in &code {
        // ELF for NVIDIA's GPUs, with both kernels.
        assert_eq!((&code[..4], &code[18..20]), (&b"\x7fELF"[..], &190u16.to_le_bytes()[..]));
        for kernel in Kernel::ALL {
            let name = kernel.name().as_bytes();
            assert!(code.windows(name.len()).any(|bytes| bytes == name), "{kernel:?}");
        }
    }
    assert!(code.windows(2).all(|two| two[0] != two[1]));
    let error = compile(&SOURCE, "sm_1", 0).unwrap_err().to_string();
    assert!(error.contains("sm_1"), "{error}");
}
