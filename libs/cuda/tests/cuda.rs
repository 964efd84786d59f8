//! CUDA's own compilers take the receiver's kernel, for each architecture that is meant. They need no
//! GPU; `scripts/install-cuda.sh` has them from PyPI, and `scripts/test.sh` runs these tests with them.

use headwater_cuda::{EXPAND_LEVELS, LEVELS, compile};

use crate::nvcc;
use crate::nvcc::ARCHITECTURES;

#[test]
#[ignore = "needs nvcc: scripts/test.sh has it"]
fn nvcc_compiles_the_receivers_kernel_without_a_register_in_memory() {
    nvcc::compiles(&LEVELS, &[EXPAND_LEVELS.to_str().expect("a name in ASCII")]);
}

#[test]
#[ignore = "needs NVRTC: scripts/test.sh has it"]
fn nvrtc_makes_the_receivers_machine_code() {
    for architecture in ARCHITECTURES {
        let code = compile(&LEVELS, architecture, 0).unwrap();
        let name = EXPAND_LEVELS.to_bytes();
        assert!(code.windows(name.len()).any(|bytes| bytes == name), "{architecture}");
    }
}
