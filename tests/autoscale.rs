//! `headwater autoscale` beside a SLURM of shell scripts.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(60);

/// Killed when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

/// Waits until a file has a text in it.
#[track_caller]
fn wait_for(path: &Path, text: &str) {
    let begun = Instant::now();
    while !fs::read_to_string(path).is_ok_and(|there| there.contains(text)) {
        let there = fs::read_to_string(path).unwrap_or_default();
        assert!(begun.elapsed() < LIMIT, "no `{text}` in {}: {there}", path.display());
        sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_refused_job_hides_neither_the_workers_that_run_nor_what_they_say() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let script = |name: &str, text: &str| {
        fs::write(at(name), format!("#!/bin/sh\ncd {}\n{text}\n", folder.path().display()))
            .expect("a script");
        fs::set_permissions(at(name), fs::Permissions::from_mode(0o755)).expect("executable");
    };
    // The only job moves to another node once another one was refused.
    script("squeue", "test -e refused && echo 1 R n5 || echo 1 R n3");
    script("sbatch", "touch refused\necho 'sbatch: error: QOSMaxJobsPerUserLimit' >&2\nexit 1");
    let (workers, said) = (at("workers"), at("said"));
    let path = std::env::var("PATH").unwrap_or_default();
    let mut autoscale = Command::new(env!("CARGO_BIN_EXE_headwater"));
    autoscale.args(["--config", "/dev/null", "--set", "autoscale.look_ms=50", "--set"]);
    autoscale.arg(format!("autoscale.slurm_workers_file={}", workers.display()));
    autoscale.args(["autoscale", "--min", "2"]);
    autoscale.env("PATH", format!("{}:{path}", folder.path().display())).stdin(Stdio::null());
    autoscale.stdout(fs::File::create(&said).expect("a file")).stderr(Stdio::null());
    let _running = Running(autoscale.spawn().expect("the program starts"));
    wait_for(&workers, "n5:7501");
    wait_for(&said, "of 2 asked for 0 serve");
}
