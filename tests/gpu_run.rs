//! What is carried to a machine with a GPU, walked through on the emulated one: `headwater bench gpu`
//! and `tests/gpu/run.sh`. Their figures mean nothing here.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::emulation;

/// The script's `nvidia-smi`: somebody uses 100 MiB of a GPU.
const MANAGEMENT: &str =
    "#!/bin/sh\ncase $* in *memory.used*) echo 100 ;; *) echo Emulated GPU ;; esac\n";

/// The script's `ncu`, which has seen two launches of a kernel.
const PROFILER: &str = r#"#!/bin/sh
while [ $# -gt 0 ]; do [ "$1" != --log-file ] || log=$2; shift; done
cat >"$log" <<'END'
==PROF== Connected to process 7
"ID","Kernel Name","Block Size","Grid Size","Metric Name","Metric Unit","Metric Value"
"0","find_entries(Image *)","(128, 1, 1)","(8, 1, 1)","Duration","ns","9,300"
"1","find_entries(Image *)","(128, 1, 1)","(96, 1, 1)","Duration","us","930.5"
END
"#;

/// The script's `compute-sanitizer`, which complains of nothing.
const SANITIZER: &str = "#!/bin/sh\necho '========= ERROR SUMMARY: 0 errors'\n";

/// Stands for the program: `parity` hangs, and in the first pass kernels find no entries.
const HANGS: &str = r#"#!/bin/sh
case $* in
    *'--only parity'*) sleep 1000 ;;
    *'--only decode,back-end'*)
        echo '| first pass | 0.0 % | 0.0 % | 100.0 % |'
        echo '| whole back end, GPU that decodes, first pass | 900 |'
        echo '| whole back end, GPU that decodes, later passes | 1000 |'
        ;;
esac
"#;

/// Writes a program of a text.
fn script(folder: &Path, name: &str, text: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, text).expect("a script");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).expect("a script");
    path
}

/// A folder with a shard of one small photograph: an emulated GPU takes its time.
pub(crate) fn photo() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let shard = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/photos/photos-000000.tar");
    let mut shard = tar::Archive::new(File::open(shard).expect("a shard"));
    let small = File::create(folder.path().join("photo.tar")).expect("a file");
    let mut small = tar::Builder::new(small);
    let mut members = 0;
    for member in shard.entries().expect("a shard") {
        let mut member = member.expect("a member");
        let header = member.header().clone();
        if member.path().expect("a name").to_string_lossy().contains("000001.") {
            small.append(&header, &mut member).expect("a member");
            members += 1;
        }
    }
    small.finish().expect("a shard");
    assert!(members > 0, "the shard has no such photograph");
    folder
}

/// A command that finds the emulated GPU and takes little of its memory.
fn on_emulated_gpu(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command
        .env("LD_LIBRARY_PATH", emulation::cuda())
        .env("HEADWATER_AUGMENT__CUDA_MEMORY_BYTES", "67108864")
        .env("HEADWATER_AUGMENT__THREADS", "1");
    command
}

#[test]
fn the_bench_fails_where_the_processor_has_stood_in_for_the_gpu() {
    let (photo, cache) = (photo(), tempfile::tempdir().expect("a folder"));
    let output = on_emulated_gpu(env!("CARGO_BIN_EXE_headwater"))
        .args(["bench", "gpu", "--only", "parity", "--images", "1", "--photos"])
        .arg(photo.path())
        .env("HEADWATER_AUGMENT__CUDA_CACHE_DIR", cache.path())
        .env("EMULATED_CUDA_FAIL", "cuLaunchKernel:20")
        .output()
        .expect("the program");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("the processor has done the rest"), "{said}");
}

#[test]
fn all_that_runs_on_a_gpu_machine_can_be_walked_through() {
    let (photo, out) = (photo(), tempfile::tempdir().expect("a folder"));
    let stand_ins =
        [("nvidia-smi", MANAGEMENT), ("ncu", PROFILER), ("compute-sanitizer", SANITIZER)];
    for (name, text) in stand_ins {
        script(out.path(), name, text);
    }
    let path = std::env::var("PATH").expect("a path");
    // Every preset on an emulated GPU takes half a minute of a processor: `make soak` does that.
    let parity = std::env::var_os("HEADWATER_SOAK").map_or("", |_| "parity");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu/run.sh");
    let output = on_emulated_gpu(script)
        .args([Path::new(env!("CARGO_BIN_EXE_headwater")), photo.path(), out.path()])
        .env("PATH", format!("{}:{path}", out.path().display()))
        .env(
            "HEADWATER_GPU_ONLY",
            format!("scaling {parity} epoch kernels ncu first link sanitizer memory"),
        )
        .env("HEADWATER_GPU_IMAGES", "1")
        .env("HEADWATER_GPU_ROUNDS", "1")
        .env("HEADWATER_GPU_PART", "1")
        .env("HEADWATER_GPU_BATCH", "1")
        .env("HEADWATER_GPU_CORES", "1")
        .env("HEADWATER_GPU_MEMORY_BYTES", "67108864")
        // The link's test kills a worker after five small batches.
        .env("HEADWATER_GPU_BATCHES", "5")
        .env("HEADWATER_GPU_PRESET", "imagenet-eval")
        .env("HEADWATER_GPU_SPEED_SECONDS", "1")
        .env("HEADWATER_GPU_SECONDS", "4")
        .env("HEADWATER_GPU_LIMIT_SECONDS", "3600")
        .env("HEADWATER_GPU_LOOK_SECONDS", "0.1")
        // Of a few seconds the first are those in which everything takes its memory.
        .env("HEADWATER_GPU_GROWTH_MIB", "1024")
        .output()
        .expect("bash");
    let report = fs::read_to_string(out.path().join("report.md")).expect("a report");
    assert!(output.status.success(), "{report}");
    let mut lines = vec![
        "cuda Emulated GPU, 1 threads, 1 images",
        "| dinov2 | `resize_tiles` |",
        "| solarize | `finish_views` |",
        "| decode, first pass, 0 known segments | `find_entries` |",
        " segments | `decode_bits` |",
        " segments | `make_samples` |",
        " segments | `make_pixels` |",
        "| 1 cores, 1 threads, u8 |",
        "| `find_entries` | (96, 1, 1) x (128, 1, 1) | 930.5 us |",
        "| GPU's kernels, 1 threads, later passes |",
        "| first pass | 0.0 % | 100.0 % | 0.0 % |",
        "| later passes | 100.0 % | 0.0 % | 0.0 % |",
        "| whole back end, GPU that decodes, first pass |",
        "| whole back end, GPU that decodes, later passes |",
        "| copied, normalised to bf16 |",
        "| whole back end, GPU, first pass |",
        "| processor only, `dinov2` in bf16, images/s | first pass | later passes |",
        "kernels found entries of 100.0 % of the images, and left 0.0 % to the processor",
        "GPU memory 100 MiB, 100 MiB at most",
        "batches by workers on the GPU, also to a receiver's GPU and decoded there: no sample differs",
        "of 1 images kernels decoded 1 by entries that they found",
        "a worker killed and started again in mid-epoch, another one killed: no sample differs",
        "| scaling | passed |",
        "| epoch | passed |",
        "| kernels | passed |",
        "| ncu | passed |",
        "| first | passed |",
        "| link | passed |",
        "| sanitizer | passed |",
        "| memory | passed |",
        "all that ran passed",
    ];
    if !parity.is_empty() {
        lines.extend([
            "dinov2: 60 views in 6 types, no byte differs",
            "supervised-timm: left to the processor, GPUs have no `timm_rand_augment`",
            "solarize alone: 1 view, no byte differs",
            "1 of 1 image decoded by kernels, first pass, no byte differs",
            "1 of 1 image decoded by kernels, later passes, no byte differs",
            "| parity | passed |",
        ]);
    }
    for line in lines {
        assert!(report.contains(line), "no `{line}` in\n{report}");
    }
}

/// A step that hangs is ended with its own share of the time, and the next ones run.
#[test]
fn a_step_that_hangs_takes_no_time_of_others_and_a_processor_that_stands_in_for_kernels_fails() {
    let (photo, out) = (photo(), tempfile::tempdir().expect("a folder"));
    script(out.path(), "compute-sanitizer", SANITIZER);
    let program = script(out.path(), "headwater", HANGS);
    let path = std::env::var("PATH").expect("a path");
    let output = Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/gpu/run.sh"))
        .args([program.as_path(), photo.path(), out.path()])
        .env("PATH", format!("{}:{path}", out.path().display()))
        .env("HEADWATER_GPU_ONLY", "parity first sanitizer")
        .env("HEADWATER_GPU_LIMIT_SECONDS", "20")
        .output()
        .expect("bash");
    assert_eq!(output.status.code(), Some(1));
    let report = fs::read_to_string(out.path().join("report.md")).expect("a report");
    for line in [
        "| parity | FAILED: status 124, at the end of its ",
        "less than 50 %: the processor has done the work of the kernels",
        "| first | FAILED: status 1 |",
        "| sanitizer | passed |",
        "FAILED: parity first",
    ] {
        assert!(report.contains(line), "no `{line}` in\n{report}");
    }
}
