//! A [`Device`] whose kernels are compiled by the C++ compiler and run by threads of the system:
//! see `tests/emulation`.

use std::io::{BufReader, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use headwater_core::Digester;
use headwater_render_cuda::{Device, DeviceError, Kernel, Launch, SOURCE};

/// Threads of a block, unless a test says otherwise and whatever a GPU would have: what kernels compute does
/// not depend on it.
const THREADS: u32 = 8;

/// What the compiler looks for while the kernels run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Watch {
    /// Steps beyond memory, and what the language leaves undefined.
    Memory,
    /// Threads that write what others read or write with no barrier in between.
    Races,
    /// Nothing: the fastest.
    Nothing,
}

pub(crate) struct EmulatedDevice {
    process: Child,
    to: BufWriter<ChildStdin>,
    from: BufReader<ChildStdout>,
    arena_bytes: u64,
    shared_bytes_max: u32,
    downloaded: Vec<u8>,
    threads: u32,
    /// Views that it has made, of images and bases too.
    pub(crate) views: Arc<AtomicU32>,
}

/// The program with this text of the kernels, compiled on first use.
fn program(watch: Watch, text: &str) -> PathBuf {
    static COMPILING: Mutex<()> = Mutex::new(());
    let guard = COMPILING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (name, options): (_, &[&str]) = match watch {
        Watch::Memory => {
            let all = "-fsanitize=address,undefined";
            ("memory", &["-O1", "-g", all, "-fno-sanitize-recover=all"])
        }
        Watch::Races => ("races", &["-O1", "-g", "-fsanitize=thread"]),
        Watch::Nothing => ("nothing", &["-O2"]),
    };
    let emulation = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/emulation");
    let main = emulation.join("main.cpp");
    let mut digester = Digester::new("emulation");
    digester.bytes(text.as_bytes());
    for file in [&main, &emulation.join("cuda_words.h"), &emulation.join("arithmetic.h")] {
        digester.bytes(&std::fs::read(file).expect("it is beside this file"));
    }
    let program = folder.join(format!("emulation-{name}-{}", digester.finish()));
    if !program.exists() {
        // Another run of the tests may be at it too: each has names of its own until it is done.
        let unfinished = folder.join(format!("emulation-{name}-{}", std::process::id()));
        let source = unfinished.with_extension("cu");
        std::fs::write(&source, text).expect("the folder for tests can be written to");
        let compiled = Command::new(std::env::var_os("CXX").unwrap_or("g++".into()))
            .args(["-std=c++20", "-ffp-contract=off", "-Wall", "-Wno-unknown-pragmas", "-pthread"])
            .args(options)
            .arg(format!("-DKERNEL_SOURCE=\"{}\"", source.display()))
            .arg("-I")
            .arg(&emulation)
            .arg(&main)
            .arg("-o")
            .arg(&unfinished)
            .status()
            .expect("a C++ compiler, g++ or the one that CXX names");
        assert!(compiled.success(), "the kernels do not compile as C++");
        std::fs::remove_file(source).expect("it was just written");
        std::fs::rename(unfinished, &program).expect("it was just made");
    }
    drop(guard);
    program
}

/// A command for the program whose memory lies where the sanitizers expect it: they stop at once where
/// a system scatters it too widely. Where that cannot be asked for, as in some containers, it is left
/// to chance.
fn at_fixed_places(program: &Path, watch: Watch) -> Command {
    let fixed = ["setarch", "-R"];
    let asked = |command: &mut Command| command.status().is_ok_and(|status| status.success());
    if watch == Watch::Nothing || !asked(Command::new(fixed[0]).args([fixed[1], "true"])) {
        return Command::new(program);
    }
    let mut command = Command::new(fixed[0]);
    command.arg(fixed[1]).arg(program);
    command
}

// === impl EmulatedDevice ===

impl EmulatedDevice {
    /// Shared memory as an H100 has it.
    pub(crate) fn start(watch: Watch, arena_bytes: u64) -> Self {
        Self::with_shared(watch, arena_bytes, 227 << 10)
    }

    pub(crate) fn with_shared(watch: Watch, arena_bytes: u64, shared_bytes_max: u32) -> Self {
        Self::of(
            at_fixed_places(&program(watch, &SOURCE.text()), watch),
            arena_bytes,
            shared_bytes_max,
        )
    }

    /// With one expression of the kernels in place of another: number `number` of `replaced`.
    pub(crate) fn mutant(replaced: &[(&str, &str)], number: usize, arena_bytes: u64) -> Self {
        // One program for all mutants, which learns at its start which one it is.
        let mut text =
            "#include <cstdlib>\nstatic const int MUTANT = std::atoi(std::getenv(\"MUTANT\"));\n"
                .to_owned()
                + &SOURCE.text();
        for (at, (old, new)) in replaced.iter().enumerate() {
            text = text.replace(old, &format!("(MUTANT == {at} ? {new} : ({old}))"));
        }
        let mut program = Command::new(program(Watch::Nothing, &text));
        program.env("MUTANT", number.to_string());
        Self::of(program, arena_bytes, 227 << 10)
    }

    fn of(mut program: Command, arena_bytes: u64, shared_bytes_max: u32) -> Self {
        let mut process = program
            .env("TSAN_OPTIONS", "halt_on_error=1")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the emulation starts");
        let to = BufWriter::new(process.stdin.take().expect("a pipe"));
        let from = BufReader::new(process.stdout.take().expect("a pipe"));
        let views = Arc::default();
        let mut device = Self {
            process,
            to,
            from,
            arena_bytes,
            shared_bytes_max,
            downloaded: Vec::new(),
            threads: THREADS,
            views,
        };
        device.send(b'M', &[arena_bytes]);
        device
    }

    /// The same with `threads` threads in a block, a power of two.
    pub(crate) fn with_threads(mut self, threads: u32) -> Self {
        self.threads = threads;
        self
    }

    fn send(&mut self, command: u8, numbers: &[u64]) {
        self.to.write_all(&[command]).expect("the emulation reads");
        for number in numbers {
            self.to.write_all(&number.to_ne_bytes()).expect("the emulation reads");
        }
    }
}

impl Device for EmulatedDevice {
    fn name(&self) -> String {
        "emulation".to_owned()
    }

    fn arena_bytes(&self) -> u64 {
        self.arena_bytes
    }

    fn shared_bytes_max(&self) -> u32 {
        self.shared_bytes_max
    }

    fn upload(&mut self, offset: u64, bytes: &[u8]) -> Result<(), DeviceError> {
        assert!(offset.is_multiple_of(256) && offset + bytes.len() as u64 <= self.arena_bytes);
        self.send(b'U', &[offset, bytes.len() as u64]);
        self.to.write_all(bytes).expect("the emulation reads");
        Ok(())
    }

    fn launch(&mut self, launch: &Launch) -> Result<(), DeviceError> {
        let Launch { kernel, blocks, threads, shared_bytes, records } = *launch;
        assert!(threads.is_power_of_two() && shared_bytes <= self.shared_bytes_max, "{launch:?}");
        if kernel == Kernel::FinishViews {
            self.views.fetch_add(blocks, Ordering::Relaxed);
        }
        let number = Kernel::ALL.iter().position(|known| *known == kernel).expect("a kernel");
        // Threads of these share the work by their numbers.
        let by_number = matches!(kernel, Kernel::FindEntries | Kernel::SumRows);
        let fewer = if by_number { threads } else { self.threads.min(threads) };
        // What each thread has for itself shrinks with their number, so that the end of shared
        // memory is where a GPU's is.
        let own = if kernel == Kernel::FinishViews { 8 * (threads - fewer) } else { 0 };
        let [first, second] = records;
        let numbers = [
            number as u64,
            blocks.into(),
            fewer.into(),
            (shared_bytes - own).into(),
            first,
            second,
        ];
        self.send(b'L', &numbers);
        Ok(())
    }

    fn download(&mut self, offset: u64, bytes: u64) -> Result<&[u8], DeviceError> {
        self.send(b'D', &[offset, bytes]);
        self.to.flush().expect("the emulation reads");
        self.downloaded.resize(bytes as usize, 0);
        let read = self.from.read_exact(&mut self.downloaded);
        if read.is_err() {
            let status = self.process.wait().expect("a child");
            panic!("the emulation ended with {status}: what it saw stands above");
        }
        Ok(&self.downloaded)
    }
}

impl Drop for EmulatedDevice {
    fn drop(&mut self) {
        // It ends with its input, and it may have ended before.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
