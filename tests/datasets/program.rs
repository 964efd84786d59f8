//! The program, run in a folder of its own, and a hub made of the project's photographs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::SystemTime;

pub(crate) const TRAIN: &str = "public/rgb/photos/train";
pub(crate) const VAL: &str = "public/rgb/photos/val";

/// What the program left behind.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A working directory with a home folder and, in `hub`, a hub.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

/// A file or folder under tests/data.
pub(crate) fn data(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)
}

// === impl Place ===

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().expect("a folder") }
    }

    /// With all four photo shards in `TRAIN`, and their two indices: one text, one binary.
    pub(crate) fn with_photos() -> Self {
        let place = Self::new();
        for number in 0..4 {
            place.put(TRAIN, &format!("photos/photos-{number:06}.tar"));
        }
        for number in [0, 2] {
            place.put(TRAIN, &format!("photos/photos-{number:06}.idx"));
        }
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of a split of the hub.
    pub(crate) fn in_hub(&self, split: &str, name: &str) -> PathBuf {
        self.path("hub").join(split).join(name)
    }

    /// Copies a file of tests/data into a split. It is as new as it gets.
    pub(crate) fn put(&self, split: &str, file: &str) -> PathBuf {
        let from = data(file);
        let to = self.in_hub(split, from.file_name().unwrap().to_str().unwrap());
        fs::create_dir_all(to.parent().unwrap()).expect("a folder");
        fs::copy(&from, &to).expect("a file of tests/data");
        File::options().append(true).open(&to).unwrap().set_modified(SystemTime::now()).unwrap();
        to
    }

    /// The program as it would be started, without the caller's variables.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
        for (name, _) in std::env::vars() {
            if name.starts_with("HEADWATER_") || name.starts_with("DINO_") {
                command.env_remove(name);
            }
        }
        command.env("HOME", self.path("home")).env_remove("XDG_CACHE_HOME");
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }

    /// Runs the program with variables.
    pub(crate) fn run_with(&self, env: &[(&str, &str)], args: &[&str]) -> Ended {
        let output = self.command(args).envs(env.iter().copied()).output();
        ended(output.expect("the program starts"))
    }

    /// Runs the program on the hub.
    pub(crate) fn run(&self, args: &[&str]) -> Ended {
        let hub = self.path("hub").display().to_string();
        self.run_with(&[("HEADWATER_DATASETS_ROOT", &hub)], args)
    }

    /// Runs the program on the hub, to success; what it wrote to standard output.
    #[track_caller]
    pub(crate) fn printed(&self, args: &[&str]) -> String {
        let ended = self.run(args);
        assert_eq!(ended.code, Some(0), "{args:?}: {}{}", ended.stdout, ended.stderr);
        ended.stdout
    }

    /// Runs the program on the hub, to one line of failure that holds all of `parts`.
    #[track_caller]
    pub(crate) fn refused(&self, args: &[&str], parts: &[&str]) {
        refused(&self.run(args), parts);
    }
}

pub(crate) fn ended(Output { status, stdout, stderr }: Output) -> Ended {
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

#[track_caller]
pub(crate) fn refused(ended: &Ended, parts: &[&str]) {
    let line = ended.stderr.lines().last().unwrap_or_default();
    assert!(line.starts_with("headwater: "), "{}", ended.stderr);
    for part in parts {
        assert!(line.contains(part), "no `{part}` in: {line}");
    }
    assert_eq!(ended.code, Some(1));
}
