//! A terminal: tmux with a server of its own.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest wait for a screen.
const LIMIT: Duration = Duration::from_secs(120);

/// One window, which is gone when this is dropped.
pub struct Terminal {
    folder: tempfile::TempDir,
}

/// Whether tmux is there; says so where it is not.
pub fn has_tmux() -> bool {
    let version = Command::new("tmux").arg("-V").stdout(Stdio::null()).status();
    let there = version.is_ok_and(|status| status.success());
    if !there {
        eprintln!("SKIP: tmux is missing (package tmux): the monitor's screen is not tried");
    }
    there
}

// === impl Terminal ===

impl Terminal {
    /// Runs a command of the shell in a window of `width` x `height` characters.
    pub fn start(width: usize, height: usize, command: &str) -> Self {
        let terminal = Self { folder: tempfile::tempdir().expect("a folder") };
        let (width, height) = (width.to_string(), height.to_string());
        let sized = ["new-session", "-d", "-x", &width, "-y", &height];
        terminal.tmux(&[&sized[..], &["env", "sh", "-c", command]].concat());
        terminal
    }

    /// Presses a key, as tmux names it.
    pub fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// Presses a key that changes what `shows` gives of the screen; again where it was lost, as on a machine that is very
    /// busy, until the screen fits.
    #[track_caller]
    pub fn press_until<T: PartialEq>(
        &self,
        key: &str,
        what: &str,
        shows: impl Fn(&[String]) -> T,
        fits: impl Fn(&[String]) -> bool,
    ) {
        let (before, mut pressed) = (shows(&self.screen()), None::<Instant>);
        self.wait_for(what, |screen| {
            let is_due = pressed.is_none_or(|at| at.elapsed() > LIMIT / 6);
            if is_due && shows(screen) == before {
                self.press(key);
                pressed = Some(Instant::now());
            }
            fits(screen)
        });
    }

    pub fn resize(&self, width: usize, height: usize) {
        self.tmux(&["resize-window", "-x", &width.to_string(), "-y", &height.to_string()]);
    }

    /// The lines of the screen, without blanks at their ends.
    pub fn screen(&self) -> Vec<String> {
        self.tmux(&["capture-pane", "-p"]).lines().map(|line| line.trim_end().to_owned()).collect()
    }

    /// The screen with the sequences that colour it.
    pub fn coloured(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Waits for a screen that fits.
    #[track_caller]
    pub fn wait_for(&self, what: &str, mut fits: impl FnMut(&[String]) -> bool) -> Vec<String> {
        let end = Instant::now() + LIMIT;
        loop {
            let screen = self.screen();
            if fits(&screen) {
                return screen;
            }
            assert!(Instant::now() < end, "no {what} on the screen:\n{}", screen.join("\n"));
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    fn tmux(&self, words: &[&str]) -> String {
        let socket: PathBuf = self.folder.path().join("tmux");
        let mut tmux = Command::new("tmux");
        tmux.arg("-u").arg("-S").arg(socket).args(["-f", "/dev/null"]).args(words);
        let said = tmux.stdin(Stdio::null()).env_remove("TMUX").output().expect("tmux starts");
        let error = String::from_utf8_lossy(&said.stderr);
        assert!(said.status.success(), "tmux {words:?}: {error}");
        String::from_utf8(said.stdout).expect("text")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
