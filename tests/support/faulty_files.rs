//! Files that fail for moments, by `tests/faulty_files`, in processes that are started with them.
#![allow(dead_code)] // Each test uses some of it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Numbers of errors (`errno.h`); ESTALE has the last bit.
const ENOENT: u64 = 1 << 2;
const EIO: u64 = 1 << 5;
const ENOMEM: u64 = 1 << 12;
const ENFILE: u64 = 1 << 23;
const EMFILE: u64 = 1 << 24;
const ESTALE: u64 = 1 << 63;
const ALL_ERRORS: u64 = ENOENT | EIO | ENOMEM | ENFILE | EMFILE | ESTALE;
/// Open, read, map.
const ALL_CALLS: u64 = 0b111;

/// Where the count of faults stands in the file of control.
const FAULTS_AT: u64 = 24;

/// What says when calls fail. All processes that were given [`FaultyFiles::variables`] look there.
pub struct FaultyFiles {
    control: File,
    path: PathBuf,
    library: PathBuf,
}

// === impl FaultyFiles ===

impl FaultyFiles {
    /// Builds the library where that has not been done; nothing fails yet.
    pub fn new(folder: &Path) -> Self {
        let build = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/faulty_files/build.sh");
        let test = std::env::current_exe().expect("this program");
        let target = test.ancestors().nth(3).expect("the build's folder");
        let output = Command::new(build)
            .arg(target.join("tmp"))
            .stderr(Stdio::inherit())
            .output()
            .expect("bash");
        assert!(output.status.success(), "faulty_files does not build");
        let built = String::from_utf8(output.stdout).expect("a path");
        let path = folder.join("faulty-files");
        std::fs::write(&path, [0; 32]).expect("a file of control");
        let control =
            File::options().read(true).write(true).open(&path).expect("a file of control");
        let library = Path::new(built.trim_end()).join("libfaulty_files.so");
        Self { control, path, library }
    }

    /// What a process needs in its environment.
    pub fn variables(&self) -> [(&str, &str); 2] {
        [
            ("LD_PRELOAD", self.library.to_str().expect("text")),
            ("FAULTY_FILES_CONTROL", self.path.to_str().expect("text")),
        ]
    }

    /// From now on `per_mille` calls of a thousand fail on `*.tar`, by chance, with every error that
    /// the call may have.
    pub fn fail(&self, per_mille: u32, seed: u64) {
        let write = |bytes: &[u8], at| self.control.write_all_at(bytes, at).expect("written");
        write(&ALL_ERRORS.to_le_bytes(), 8);
        write(&ALL_CALLS.to_le_bytes(), 16);
        write(&(seed as u32).to_le_bytes(), 4);
        write(&per_mille.to_le_bytes(), 0);
    }

    /// Nothing fails any more.
    pub fn heal(&self) {
        self.control.write_all_at(&[0; 4], 0).expect("written");
    }

    /// Calls that failed.
    pub fn faults(&self) -> u64 {
        let mut count = [0; 8];
        self.control.read_exact_at(&mut count, FAULTS_AT).expect("read");
        u64::from_le_bytes(count)
    }
}
