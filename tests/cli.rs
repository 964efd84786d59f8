//! Bad input through the real program: one line on standard error that names the thing and the
//! remedy, and the exit code that scripts look at.

use std::net::TcpListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use crate::support::data;
use crate::support::fleet::Fleet;

struct Ended {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

/// Runs the program in a folder of its own, without the caller's variables.
fn run_in(folder: &Path, env: &[(&str, &str)], args: &[&str]) -> Ended {
    let ours = std::env::vars().filter(|(name, _)| name.starts_with("HEADWATER_"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    for (name, _) in ours {
        command.env_remove(name);
    }
    let command = command.args(args).envs(env.iter().copied()).current_dir(folder);
    let Output { status, stdout, stderr } =
        command.stdin(Stdio::null()).output().expect("the program starts");
    let text = |bytes| String::from_utf8(bytes).expect("text");
    Ended { code: status.code(), stdout: text(stdout), stderr: text(stderr) }
}

fn run(args: &[&str]) -> Ended {
    let folder = tempfile::tempdir().expect("a folder");
    run_in(folder.path(), &[], args)
}

/// One line `headwater: ..` that holds all of `parts`, and exit code 1.
#[track_caller]
fn refused(ended: &Ended, parts: &[&str]) {
    let lines: Vec<&str> = ended.stderr.lines().filter(|line| !line.contains(" INFO ")).collect();
    assert_eq!(lines.len(), 1, "not one line:\n{}", ended.stderr);
    assert!(lines[0].starts_with("headwater: "), "{}", lines[0]);
    for part in parts {
        assert!(lines[0].contains(part), "no `{part}` in: {}", lines[0]);
    }
    assert_eq!(ended.code, Some(1));
}

/// `storage` over shards, on any port.
fn storage(shards: &str) -> Ended {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = format!("photos={shards}");
    run_in(folder.path(), &[], &["storage", "--listen", "127.0.0.1:0", "--dataset", &dataset])
}

/// As in a container with a limit of processes: a runtime that gets no thread panics, one that gets a few hangs.
#[test]
fn a_limit_of_processes_is_an_error_with_its_name() {
    let mut command = Command::new("prlimit");
    command.args(["--nproc=2:2", env!("CARGO_BIN_EXE_headwater")]);
    command.args(["storage", "--listen", "127.0.0.1:0", "--dataset", "photos=/nowhere.tar"]);
    if rustix::process::geteuid().is_root() {
        // The limit is not for root.
        command.uid(65_534).gid(65_534);
    }
    let ended = command.current_dir("/").stdin(Stdio::null()).output();
    match ended {
        // What `prlimit` and the loader end with where that user may not read the program.
        Ok(Output { status, .. }) if matches!(status.code(), Some(126 | 127)) => {
            eprintln!("SKIPPED: the program cannot be run as another user: {status}");
        }
        Ok(Output { status, stderr, .. }) => {
            let said = String::from_utf8(stderr).expect("text");
            let told = said.starts_with("headwater: this process may not start ");
            assert!(told && said.contains("`ulimit -u`"), "{status}: {said}");
            assert_eq!(status.code(), Some(1));
        }
        Err(error) => eprintln!("SKIPPED: there is no `prlimit`: {error}"),
    }
}

#[test]
fn a_curriculum_of_other_datasets_is_named_with_its_step() {
    let folder = tempfile::tempdir().expect("a folder");
    let config = "[[dataset]]\nname = \"a\"\nshards = \"a.tar\"\n\
                  [[curriculum]]\nstep = 10000\nweights = [1.0, 2.0]\n";
    std::fs::write(folder.path().join("headwater.toml"), config).expect("a file");
    let args = ["receive", "--batches", "1"];
    refused(&run_in(folder.path(), &[], &args), &["step 10000", "2 weights for 1 dataset"]);
    let set = ["receive", "--set", "receiver.curriculum=[{step = 0, weights = [1.0]}]"];
    refused(&run(&set), &["receiver.curriculum", "[[curriculum]]"]);
}

#[test]
fn a_missing_shard_is_named() {
    refused(&storage("shards/photos-000007.tar"), &["photos-000007.tar", "check that it exists"]);
}

#[test]
fn a_missing_shard_is_named_by_run_too_whoever_finds_it() {
    let args = ["run", "--dataset", "photos=shards/photos-000007.tar"];
    let expected = ["photos-000007.tar", "check that it exists"];
    refused(&run(&args), &expected);
    refused(&run(&[&args[..], &["--processes"]].concat()), &expected);
}

#[test]
fn a_glob_without_a_file_is_named() {
    refused(&storage("shards/photos-*.tar"), &["`shards/photos-*.tar`", "check the folder"]);
}

#[test]
fn a_truncated_shard_is_named_with_the_place() {
    let shard = data("bad/truncated.tar").display().to_string();
    refused(&storage(&shard), &[&shard, "`000002.jpg`", "at byte 12288", "on_broken_shard"]);
}

#[test]
fn an_empty_shard_is_no_dataset() {
    let shard = data("bad/empty.tar").display().to_string();
    refused(&storage(&shard), &["`photos`", "no samples"]);
}

#[test]
fn an_unknown_key_in_the_file_is_named_with_the_file_and_the_nearest_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("headwater.toml");
    std::fs::write(&file, "[storage]\nlisten_on = \"127.0.0.1:0\"\n").expect("a file");
    let ended = run_in(folder.path(), &[], &["config"]);
    let said = "headwater.toml: unknown key `storage.listen_on`: did you mean `storage.listen`?";
    refused(&ended, &[said]);
    // One that was elsewhere once.
    let moved = "`augment.decode_pixels_max` is `recipe.decode_pixels_max` now: it decides";
    refused(
        &run(&["--set", "augment.decode_pixels_max=1", "config"]),
        &[moved, "image_pixels_max"],
    );
    let moved = "`augment.decode_jpeg_scans_max` is `recipe.decode_jpeg_scans_max` now: it decides";
    let by_env = [("HEADWATER_AUGMENT__DECODE_JPEG_SCANS_MAX", "1")];
    refused(&run_in(folder.path(), &by_env, &["--config", "/dev/null", "config"]), &[moved]);
    // Nothing is near.
    let ended = run(&["--set", "hub.zone=1", "config"]);
    refused(&ended, &["--set hub.zone: unknown key `hub.zone`: known keys of `hub` are root"]);

    let other = folder.path().join("other.toml");
    std::fs::write(&other, "[storrage]\n").expect("a file");
    let named = other.display().to_string();
    let ended = run_in(folder.path(), &[], &["--config", &named, "config"]);
    refused(&ended, &["other.toml: unknown key `storrage`: did you mean `storage`?"]);
    let by_env = [("HEADWATER_CONFIG", named.as_str())];
    refused(&run_in(folder.path(), &by_env, &["config"]), &["other.toml", "`storrage`"]);
}

#[test]
fn an_unknown_key_in_the_environment_is_named_with_the_variable() {
    let folder = tempfile::tempdir().expect("a folder");
    let env = [("HEADWATER_RECEIVER__WINDOW", "3")];
    let ended = run_in(folder.path(), &env, &["--check-config"]);
    refused(&ended, &["HEADWATER_RECEIVER__WINDOW", "`receiver.window`", "window_batches"]);
    // Clusters make such variables from the names of services.
    let env = [("HEADWATER_STORAGE_PORT", "tcp://10.0.0.1:7401")];
    assert_eq!(run_in(folder.path(), &env, &["--check-config"]).code, Some(0));
}

#[test]
fn a_value_of_the_wrong_kind_is_named_with_where_it_came_from() {
    let ended = run(&["--set", "receiver.seed=many", "config"]);
    refused(&ended, &["--set receiver.seed", "`receiver.seed`", "\"many\""]);
    let ended = run(&["--set", "receiver.batch_samples=0", "--check-config"]);
    refused(&ended, &["receiver.batch_samples is 0: must be from 1 to 65536"]);
}

#[test]
fn a_file_that_is_no_toml_is_named_with_the_line() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("headwater.toml"), "[storage]\nlisten = \n").expect("a file");
    refused(&run_in(folder.path(), &[], &["config"]), &["headwater.toml line 2"]);
}

#[test]
fn a_missing_file_is_named_with_who_asked_for_it() {
    refused(&run(&["--config", "absent.toml", "config"]), &["`absent.toml`", "--config"]);
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("an address").to_string();
    let photos = format!("photos={}", data("photos/photos-000000.tar").display());
    let ended = run(&["storage", "--listen", &address, "--dataset", &photos]);
    refused(&ended, &[&address, "in use", "listen"]);
    refused(&run(&["augment", "--listen", &address]), &[&address, "in use", "augment.listen"]);
    let metrics = format!("telemetry.metrics_listen={address}");
    let ended = run(&["--set", &metrics, "storage", "--dataset", &photos]);
    refused(&ended, &[&address, "in use", "telemetry.metrics_listen"]);
}

#[test]
fn a_rank_adds_its_local_rank_to_the_port_of_its_metrics() {
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = taken.local_addr().expect("an address").port();
    let folder = tempfile::tempdir().expect("a folder");
    let metrics = format!("telemetry.metrics_listen=127.0.0.1:{}", port - 2);
    for launcher in ["LOCAL_RANK", "SLURM_LOCALID"] {
        let arguments = ["--set", &metrics, "receive", "--dataset", "photos=unused.tar"];
        let ended = run_in(folder.path(), &[(launcher, "2")], &arguments);
        refused(&ended, &[&format!("127.0.0.1:{port}"), "in use", "adds its local rank"]);
    }
}

#[test]
fn a_bad_recipe_is_named_with_the_known_ones() {
    let ended = run(&["--set", "recipe.preset=dinov9", "--check-config"]);
    refused(&ended, &["`dinov9`", "dinov2, dinov2-paper"]);
    let tensors = "recipe.tensors=[{name = \"x\", dtype = \"bf16\", height = 8, width = 8, \
                   views = [{crop = {kind = \"center_after_resize\", resize = 8}}]}]";
    let preset = ["--set", "recipe.preset=dinov2", "--set", tensors, "--check-config"];
    refused(&run(&preset), &["recipe.tensors", "`dinov2`", "\"custom\""]);
    let custom = ["--set", "recipe.preset=custom", "--set", tensors, "--check-config"];
    assert_eq!(run(&custom).code, Some(0));
    // Tensors without a preset are a recipe of their own.
    assert_eq!(run(&["--set", tensors, "--check-config"]).code, Some(0));
    let dtype = ["--set", tensors, "--set", "recipe.dtype=u8", "--check-config"];
    let said = "--set recipe.dtype: `recipe.dtype` goes with a preset: this recipe gives each tensor \
                its own";
    refused(&run(&dtype), &[said]);
    let bad = tensors.replace("resize = 8", "resize = 4");
    let ended = run(&["--set", "recipe.preset=custom", "--set", &bad, "--check-config"]);
    refused(&ended, &["tensors[0].views[0].crop.resize", "is 4"]);
}

#[test]
fn a_limit_of_a_recipe_is_said_with_the_path_of_the_key() {
    let recipe = |ops: &str| {
        let view = "crop = {kind = \"center_after_resize\", resize = 8}";
        let tensor = format!(
            "recipe.tensors=[{{name = \"x\", dtype = \"bf16\", height = 8, width = 8, \
             views = [{{{view}}}, {{{view}, ops = [{ops}]}}]}}]"
        );
        run(&["--set", &tensor, "--check-config"])
    };
    assert_eq!(recipe("{op = \"flip\", p = 0.5}").code, Some(0));
    let said = "headwater: `recipe.tensors[0].views[1].ops[0].sigma` is [0, 2]: must be [least, \
                greatest], from 0.001 to 100";
    refused(&recipe("{op = \"gaussian_blur\", p = 0.5, sigma = [0.0, 2.0]}"), &[said]);
    let said = "headwater: --set recipe.tensors: `recipe.tensors[0].views[1].ops[1].op` is `blurr`: \
                must be one of `flip`, `vertical_flip`, `color_jitter`, `grayscale`, `gaussian_blur`";
    refused(&recipe("{op = \"flip\", p = 0.5}, {op = \"blurr\", p = 0.5}"), &[said]);
}

#[test]
fn a_storage_node_needs_the_shards_and_a_receiver_only_the_name() {
    let ended = run(&["storage", "--dataset", "photos"]);
    let said = "headwater: dataset `photos` has no shards here: give `--dataset photos=SHARDS`, or \
                write a key `shards` or `hub` under its [[dataset]]";
    refused(&ended, &[said]);
    assert_eq!(run(&["receive", "--dataset", "photos", "--check-config"]).code, Some(0));
    let said = "headwater: no dataset is named: write [[dataset]] in headwater.toml, or name one by `--dataset` (Python: \
                give the path of your files, `Loader(\"photos/\")`, or a cluster's names by `datasets`)";
    refused(&run(&["receive"]), &[said]);
    refused(&run(&["publish"]), &[said]);
}

#[test]
fn a_reader_that_has_seen_enough_of_a_script_is_no_fault() {
    let mut program = Command::new(env!("CARGO_BIN_EXE_headwater"));
    let program =
        program.args(["completions", "bash"]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = program.spawn().expect("the program starts");
    drop(child.stdout.take());
    let ended = child.wait_with_output().expect("it ends");
    assert_eq!((ended.status.code(), &*ended.stderr), (Some(0), &b""[..]));
}

/// It would wait for ten minutes.
#[test]
fn a_receiver_that_waits_for_its_storage_ends_when_it_is_asked_to() {
    // Nobody answers there.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let storage = silent.local_addr().expect("its address").to_string();
    let mut program = Command::new(env!("CARGO_BIN_EXE_headwater"));
    let args = ["receive", "--dataset", "photos", "--set", "receiver.worker_wait_ms=600000"];
    let program = program.args(args).args(["--storage", &storage]).stderr(Stdio::null());
    let mut child = program.spawn().expect("the program starts");
    // It listens for signals before it calls.
    drop(silent.accept().expect("it calls"));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("it is there");
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}

#[test]
fn options_of_dinov3_are_checked_and_named() {
    let ended = |preset: &str, options: &str| {
        let preset = format!("recipe.preset={preset}");
        run(&["--set", &preset, "--set", &format!("recipe.dinov3={{{options}}}"), "--check-config"])
    };
    let all = "share_color_jitter = true, localcrops_subset_of_globalcrops = true, \
               gram_crops_size = 384, horizontal_flips = true";
    assert_eq!(ended("dinov3", all).code, Some(0));
    refused(&ended("dinov3", "local_crops_number = 0"), &["dinov3.local_crops_number", "is 0"]);
    refused(&ended("dinov3", "crops = 4"), &["`recipe.dinov3.crops`", "local_crops_number"]);
    refused(&ended("dinov2", "gram_crops_size = 512"), &["dinov3", "`dinov2`", "dinov3-gram"]);
    refused(&ended("custom", "gram_crops_size = 512"), &["dinov3", "`custom`"]);
}

#[test]
fn the_limit_of_raw_samples_is_checked() {
    let raw = |limit: &str| {
        let limit = format!("recipe.raw_bytes_max={limit}");
        run(&["--set", "recipe.preset=raw", "--set", &limit, "--check-config"])
    };
    assert_eq!(raw("300000").code, Some(0));
    refused(&raw("0"), &["`recipe.raw_bytes_max` is 0: must be from 1 to 67108864"]);
    refused(&raw("-1"), &["recipe.raw_bytes_max"]);
}

#[test]
fn bases_and_operations_on_the_image_are_data_of_a_custom_recipe() {
    let folder = tempfile::tempdir().expect("a folder");
    let written = "[recipe]\npreset = \"custom\"\n\
        image_ops = [{ op = \"grayscale\", p = 0.5 }]\n\
        [[recipe.bases]]\nheight = 64\nwidth = 64\n\
        view.crop = { kind = \"random_resized\", scale = [0.3, 1.0], ratio = [0.75, 1.3] }\n\
        view.ops = [{ op = \"flip\", p = 0.5 }]\n\
        [[recipe.tensors]]\nname = \"crops\"\ndtype = \"bf16\"\nheight = 32\nwidth = 32\n\
        views = [{ crop = { kind = \"window_of_base\", base = 0, within = 64, stride = 8 } }]\n";
    let check = |text: String| {
        std::fs::write(folder.path().join("headwater.toml"), text).expect("a file");
        run_in(folder.path(), &[], &["--check-config"])
    };
    assert_eq!(check(written.to_owned()).code, Some(0));
    let ended = check(written.replace("base = 0", "base = 3"));
    refused(&ended, &["tensors[0].views[0].crop.base", "is 3", "bases"]);
    let ended = check(written.replace("op = \"grayscale\"", "op = \"gray\""));
    refused(&ended, &["headwater.toml", "recipe.image_ops", "gray"]);
    let ended = check(written.replace("stride", "strid"));
    refused(&ended, &["headwater.toml", "recipe.tensors", "strid"]);
    refused(&check(written.replace("custom", "dinov3")), &["recipe.tensors", "custom"]);
}

#[test]
fn masks_that_do_not_fit_are_named_by_their_key() {
    let ended =
        |masks: &str| run(&["--set", &format!("receiver.masks={{{masks}}}"), "--check-config"]);
    assert_eq!(ended("patch = 14").code, Some(0));
    refused(&ended("patch = 15"), &["receiver.masks.patch", "15 of 224 x 224", "divide"]);
    refused(&ended("patch = 14, tensor = \"x\""), &["receiver.masks.tensor", "`x`"]);
    refused(&ended("patch = 14, ratio_min = 0.7"), &["receiver.masks.ratio_min", "ratio_max"]);
    refused(&ended("ratio_min = 0.2"), &["`receiver.masks`", "`patch`"]);
    let said = "`receiver.masks.ratio`: did you mean `receiver.masks.ratio_max`?";
    refused(&ended("patch = 14, ratio = 0.2"), &[said]);
}

#[test]
fn no_folder_for_the_socket_of_shared_memory_is_named() {
    let photos = format!("photos={}", data("photos/photos-000000.tar").display());
    let ended = run(&[
        "run",
        "--dataset",
        &photos,
        "--set",
        "storage.index_dir=index",
        "--set",
        "links.shm_socket_dir=/nowhere/shm",
    ]);
    refused(&ended, &["/nowhere/shm"]);
}

#[test]
fn slots_that_no_memory_holds_are_refused_at_the_start_with_numbers_and_keys() {
    let set = [
        "receiver.batch_samples=65536",
        "receiver.window_batches=900",
        "receiver.slots_max=1000",
        "receiver.links=tcp",
    ];
    let set = set.iter().flat_map(|setting| ["--set", setting]);
    let args: Vec<&str> = ["receive", "--dataset", "photos"].into_iter().chain(set).collect();
    // No tier runs: nothing is asked before.
    let fit = "lower receiver.batch_samples (65536) to ";
    let remedy = "receiver.window_batches or receiver.slots_max";
    refused(
        &run(&args),
        &["1000 slots of ", " bytes do not fit in memory, which has ", fit, remedy],
    );
}

#[test]
fn no_dataset_is_refused_with_how_to_give_one() {
    refused(&run(&["storage"]), &["no dataset", "--dataset NAME=SHARDS", "[[dataset]]"]);
    let ended = run(&["--set", "storage.datasets=[{name=\"a\",shards=[\"b\"]}]", "storage"]);
    refused(&ended, &["storage.datasets", "[[dataset]]"]);
    let ended = run(&["--set", "storage.filters=[{kind=\"width\",min=3}]", "storage"]);
    refused(&ended, &["[storage]", "[[filter]]"]);
}

/// Nobody would go by them: a receiver takes what storage nodes serve.
#[test]
fn filters_of_a_receiver_are_refused_unless_storage_nodes_may_read_them() {
    let filter = "[{kind = 'width', min = 9}]";
    let env = [("HEADWATER_FILTER", filter)];
    let folder = tempfile::tempdir().expect("a folder");
    for verb in ["receive", "publish"] {
        let ended = run_in(folder.path(), &env, &["--set", "dataset=[{name='d'}]", verb]);
        refused(&ended, &["HEADWATER_FILTER", "`[[filter]]` goes with shards", "storage nodes"]);
    }
    let file = |text: &str| std::fs::write(folder.path().join("headwater.toml"), text);
    let check = || run_in(folder.path(), &[], &["--check-config"]);
    file("dataset = [{name = 'd'}]\nfilter = [{kind = 'width', min = 9}]").expect("a file");
    refused(&check(), &["headwater.toml", "`[[filter]]` goes with shards"]);
    file("filter = [{kind = 'width', min = 9}]").expect("a file");
    assert_eq!(check().code, Some(0));
    // Wherever the shards are.
    file("filter = [{kind = 'width'}]").expect("a file");
    refused(&check(), &["filter.kind", "give `min`, `max` or both"]);
}

#[test]
fn wrong_usage_is_told_apart_from_failure() {
    for args in [&[][..], &["nonsense"], &["run", "--workers", "many"], &["--set", "x", "config"]] {
        let ended = run(args);
        assert_eq!(ended.code, Some(2), "{args:?}: {}", ended.stderr);
        assert!(ended.stdout.is_empty());
    }
}

/// The addresses of the two tiers exchanged. The receiver also says whom it waits for.
#[test]
fn a_tier_in_place_of_the_other_is_named() {
    let mut fleet = Fleet::start(data("photos/photos-000003.tar"), 1);
    let (storage, worker) = (fleet.storage().address.clone(), fleet.worker(0).address.clone());
    let no_storage = format!(
        "headwater: storage node {worker}: an augment worker answers there, not a storage node: give the \
         address that `headwater storage` listens on"
    );
    refused(&run(&["augment", "--listen", "127.0.0.1:0", "--storage", &worker]), &[&no_storage]);
    let receive = |storage: &str, workers: &str| {
        let wait = ["--set", "receiver.worker_wait_ms=6000"];
        let from = ["receive", "--storage", storage, "--workers", workers, "--dataset", "photos"];
        run(&[&from[..], &wait[..]].concat())
    };
    refused(&receive(&worker, &worker), &[&no_storage]);
    let ended = receive(&storage, &storage);
    let no_worker = "a storage node answers there, not an augment worker: give the address that \
                     `headwater augment` listens on";
    let last = ended.stderr.lines().last().expect("a sentence");
    assert!(last.starts_with("headwater: ") && last.contains(no_worker), "{last}");
    assert_eq!(ended.code, Some(1));
    let waiting = format!("no augment worker for 5 s: {storage}: {no_worker}");
    assert_eq!(ended.stderr.matches(&waiting).count(), 1, "{}", ended.stderr);
}
