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

/// A SLURM of scripts in a folder: `jobs` is its queue, `calls` what was asked of it.
struct Scripts(tempfile::TempDir);

impl Scripts {
    /// `sbatch` puts jobs into the queue, unless they end at once.
    fn new(jobs_stay: bool) -> Self {
        let scripts = Self(tempfile::tempdir().expect("a folder"));
        let script = |name: &str, text: &str| {
            let path = scripts.at(name);
            let text = format!(
                "#!/bin/bash\ncd {}\nexec 9>lock; flock 9\necho {name} $* >>calls\n{text}\n",
                scripts.0.path().display()
            );
            fs::write(&path, text).expect("a script");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("executable");
        };
        script("squeue", "cat jobs");
        let stays = if jobs_stay { "echo $n PD '(Priority)' >>jobs" } else { "" };
        script("sbatch", &format!("n=$(($(cat n) + 1)); echo $n >n\n{stays}\necho $n"));
        script("scancel", "sed -i \"/^$1 /d\" jobs");
        script("scontrol", "echo JobState=FAILED Reason=NonZeroExitCode ExitCode=1:0");
        fs::write(scripts.at("n"), "100").expect("a number");
        fs::write(scripts.at("jobs"), "").expect("a queue");
        scripts
    }

    fn at(&self, name: &str) -> std::path::PathBuf {
        self.0.path().join(name)
    }

    /// Starts a controller, and waits until it has said what it makes of its first look.
    fn start(&self, args: &[&str]) -> Running {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut autoscale = Command::new(env!("CARGO_BIN_EXE_headwater"));
        autoscale.args(["--config", "/dev/null", "--set", "autoscale.look_ms=20"]);
        // However slow the machine is, no pause ends within the test.
        autoscale.args(["--set", "scaling.up_pause_s=100000", "autoscale"]);
        autoscale.args(args).env("PATH", format!("{}:{path}", self.0.path().display()));
        let said = self.at(&format!("said{}", args.concat()));
        autoscale.stdin(Stdio::null()).stderr(Stdio::null());
        autoscale.stdout(fs::File::create(&said).expect("a file"));
        let running = Running(autoscale.spawn().expect("the program starts"));
        wait_for(&said, "asked for");
        running
    }

    fn calls(&self, command: &str) -> usize {
        let calls = fs::read_to_string(self.at("calls")).unwrap_or_default();
        calls.lines().filter(|line| line.split(' ').next() == Some(command)).count()
    }

    /// Waits until SLURM was asked for its queue that many times more.
    fn looks(&self, more: usize) {
        let (before, begun) = (self.calls("squeue"), Instant::now());
        while self.calls("squeue") < before + more {
            assert!(begun.elapsed() < LIMIT, "{} looks", self.calls("squeue") - before);
            sleep(Duration::from_millis(10));
        }
    }
}

#[test]
fn two_controllers_side_by_side_leave_each_others_jobs_alone() {
    let slurm = Scripts::new(true);
    let _three = slurm.start(&["--min", "3", "--max", "3"]);
    slurm.looks(3);
    fs::write(slurm.at("jobs"), "").expect("a queue");
    let _one = slurm.start(&["--min", "1", "--max", "1"]);
    slurm.looks(20);
    // The first one's jobs have failed, and it pauses: back comes what the other is not to take for its own.
    let back = "101 PD (Priority)\n102 PD (Priority)\n103 PD (Priority)\n";
    let mut queue = fs::read_to_string(slurm.at("jobs")).expect("a queue");
    queue.push_str(back);
    fs::write(slurm.at("jobs"), queue).expect("a queue");
    slurm.looks(40);
    assert_eq!((slurm.calls("sbatch"), slurm.calls("scancel")), (4, 0));
}

#[test]
fn a_dry_run_submits_and_cancels_nothing_whatever_comes_and_goes() {
    let slurm = Scripts::new(true);
    fs::write(slurm.at("jobs"), "11 R n1\n12 R n2\n").expect("a queue");
    let _dry = slurm.start(&["--dry-run", "--min", "3", "--max", "16"]);
    slurm.looks(5);
    fs::write(slurm.at("jobs"), "12 R n2\n13 R n3\n14 PD (Priority)\n").expect("a queue");
    slurm.looks(10);
    assert_eq!((slurm.calls("sbatch"), slurm.calls("scancel")), (0, 0));
}

#[test]
fn jobs_that_fail_at_once_are_not_submitted_at_every_look() {
    let slurm = Scripts::new(false);
    let _running = slurm.start(&["--min", "2", "--max", "4"]);
    slurm.looks(30);
    assert_eq!((slurm.calls("sbatch"), slurm.calls("scontrol")), (2, 2));
}
