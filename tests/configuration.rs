//! One configuration from defaults, file, environment and flags, and its reference.

use std::path::Path;
use std::process::Command;

fn config(folder: &Path, env: &[(&str, &str)], args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    let launchers = ["RANK", "WORLD_SIZE", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"];
    for (name, _) in std::env::vars() {
        if name.starts_with("HEADWATER_") || launchers.contains(&name.as_str()) {
            command.env_remove(name);
        }
    }
    let output = command.args(args).envs(env.iter().copied()).current_dir(folder).output();
    let output = output.expect("the program starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

/// The line of a key, in a section.
fn line<'a>(shown: &'a str, section: &str, key: &str) -> &'a str {
    let from = shown.find(&format!("[{section}]")).expect("the section");
    let start = format!("{key} = ");
    shown[from..].lines().find(|line| line.starts_with(&start)).expect("the key")
}

#[test]
fn each_layer_goes_over_the_one_before_and_is_named() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = "[receiver]\nseed = 1\nrank = 1\nworld_size = 4\nbatch_samples = 8\n\
                [[dataset]]\nname = \"a\"\nshards = [\"a.tar\"]\nweight = 2\n";
    std::fs::write(folder.path().join("headwater.toml"), file).expect("a file");
    let env = [
        ("HEADWATER_RECEIVER__SEED", "2"),
        ("HEADWATER_RECEIVER__RANK", "2"),
        ("HEADWATER_RECEIVER__JOB", "2026"),
        ("HEADWATER_RECEIVER__STORAGE", "a:1,b:2"),
    ];
    let shown = config(folder.path(), &env, &["--set", "receiver.seed=3", "config"]);
    let receiver = |key| line(&shown, "receiver", key);
    assert_eq!(receiver("seed"), "seed = 3  # --set receiver.seed");
    assert_eq!(receiver("rank"), "rank = 2  # HEADWATER_RECEIVER__RANK");
    assert_eq!(receiver("world_size"), "world_size = 4  # ranks; headwater.toml");
    assert_eq!(receiver("job"), "job = \"2026\"  # HEADWATER_RECEIVER__JOB");
    assert!(receiver("storage").starts_with("storage = [\"a:1\", \"b:2\"]  # HEADWATER_RECEIVER"));
    assert_eq!(receiver("window_batches"), "window_batches = 4  # batches; default");
    assert!(shown.contains("weight = 2.0"), "{shown}");
}

#[test]
fn a_number_of_64_bits_is_the_same_from_every_layer_and_in_what_is_shown() {
    let folder = tempfile::tempdir().expect("a folder");
    let most = u64::MAX.to_string();
    let said = |text: &str| line(text, "receiver", "seed").split("  #").next().map(str::to_owned);
    let seed = Some(format!("seed = {most}"));
    let set = format!("receiver.seed={most}");
    assert_eq!(said(&config(folder.path(), &[], &["--set", &set, "config"])), seed);
    let variable = [("HEADWATER_RECEIVER__SEED", most.as_str())];
    let shown = config(folder.path(), &variable, &["config"]);
    assert_eq!(said(&shown), seed);
    // What is shown can be read back.
    std::fs::write(folder.path().join("headwater.toml"), &shown).expect("a file");
    assert_eq!(said(&config(folder.path(), &[], &["config"])), seed);
}

#[test]
fn settings_before_the_verb_and_after_it_all_hold_and_the_last_of_a_key_wins() {
    let folder = tempfile::tempdir().expect("a folder");
    let before = ["--set", "receiver.seed=3", "--set=receiver.job=a"];
    let after = ["config", "--set", "receiver.batch_samples=5", "--set", "receiver.seed=4"];
    let shown = config(folder.path(), &[], &[&before[..], &after[..]].concat());
    let said = |key| line(&shown, "receiver", key).split("  #").next().unwrap_or_default();
    assert_eq!(said("seed"), "seed = 4");
    assert_eq!(said("job"), "job = \"a\"");
    assert_eq!(said("batch_samples"), "batch_samples = 5");
}

#[test]
fn a_table_may_be_set_where_the_default_is_a_word() {
    let folder = tempfile::tempdir().expect("a folder");
    let shown =
        config(folder.path(), &[], &["--set", "receiver.epoch_end={ steps = 605 }", "config"]);
    let said = line(&shown, "receiver", "epoch_end");
    assert_eq!(said, "epoch_end = { steps = 605 }  # --set receiver.epoch_end");
    let env = [("HEADWATER_RECEIVER__EPOCH_END", "{ steps = 7 }")];
    let shown = config(folder.path(), &env, &["config"]);
    assert!(line(&shown, "receiver", "epoch_end").starts_with("epoch_end = { steps = 7 }"));
}

#[test]
fn the_launcher_says_the_rank_where_nothing_else_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let slurm = [("SLURM_PROCID", "3"), ("SLURM_NTASKS", "4"), ("SLURM_STEP_ID", "0")];
    let torchrun = [("RANK", "1"), ("WORLD_SIZE", "2")];
    let place = |env: &[(&str, &str)], args: &[&str]| {
        let shown = config(folder.path(), env, &[args, &["config"]].concat());
        ["rank", "world_size"].map(|key| line(&shown, "receiver", key).to_owned())
    };
    let by_slurm = ["rank = 3  # SLURM_PROCID", "world_size = 4  # ranks; SLURM_NTASKS"];
    assert_eq!(place(&slurm, &[]), by_slurm);
    let by_torchrun = ["rank = 1  # RANK", "world_size = 2  # ranks; WORLD_SIZE"];
    assert_eq!(place(&[&slurm[..], &torchrun].concat(), &[]), by_torchrun);
    // Any word of the configuration goes before it.
    let set = ["rank = 0  # default", "world_size = 8  # ranks; --set receiver.world_size"];
    assert_eq!(place(&slurm, &["--set", "receiver.world_size=8"]), set);
}

#[test]
fn the_filter_of_log_lines_in_the_environment_goes_before_all_others() {
    let folder = tempfile::tempdir().expect("a folder");
    let env = [("HEADWATER_LOG", "error")];
    let shown = config(folder.path(), &env, &["--log", "debug", "config"]);
    assert_eq!(line(&shown, "telemetry", "log"), "log = \"error\"  # HEADWATER_LOG");
}

#[test]
fn what_config_prints_can_be_read_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let dataset = "dataset=[{name = \"a\", shards = \"a.tar\"}]";
    let masks = "receiver.masks={patch = 14, ratio_max = 0.4}";
    let first = config(folder.path(), &[], &["--set", dataset, "--set", masks, "config"]);
    assert!(line(&first, "receiver", "masks").contains("sample_probability = 0.5"), "{first}");
    std::fs::write(folder.path().join("headwater.toml"), &first).expect("a file");
    let values = |shown: &str| {
        let kept = shown.lines().map(|line| line.split("  # ").next().unwrap_or_default());
        kept.collect::<Vec<_>>().join("\n")
    };
    assert_eq!(values(&config(folder.path(), &[], &["config"])), values(&first));
}

/// A file of the tree is what the program writes.
#[track_caller]
fn is_written_by(path: &str, args: &[&str]) {
    let folder = tempfile::tempdir().expect("a folder");
    let written = config(folder.path(), &[], args);
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let kept = std::fs::read_to_string(kept).unwrap_or_default();
    assert!(kept == written, "{path} is out of date: `headwater {} > {path}`", args.join(" "));
}

#[test]
fn the_reference_is_up_to_date() {
    is_written_by("docs/configuration.md", &["config", "--markdown"]);
}

#[test]
fn the_example_is_up_to_date_and_can_be_used() {
    is_written_by("headwater.example.toml", &["config", "--example"]);
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("headwater.example.toml");
    let args = ["--config", &example.display().to_string(), "--check-config"];
    assert!(config(Path::new("."), &[], &args).contains("usable"));
}

#[test]
fn what_the_page_on_recipes_writes_down_can_be_used() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/recipes.md");
    let page = std::fs::read_to_string(page).expect("the page");
    let folder = tempfile::tempdir().expect("a folder");
    let written: Vec<&str> = page.split("```toml\n").skip(1).collect();
    assert!(written.len() >= 3, "{}", written.len());
    for text in written {
        let text = text.split("```").next().unwrap_or_default();
        std::fs::write(folder.path().join("headwater.toml"), text).expect("a file");
        assert!(config(folder.path(), &[], &["--check-config"]).contains("usable"));
    }
}

#[test]
fn a_port_without_a_host_is_of_this_host_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let args =
        ["--set", "storage.listen=:7501", "--set", "telemetry.metrics_listen=:9500", "config"];
    let shown = config(folder.path(), &[("HEADWATER_AUGMENT__LISTEN", ":7502")], &args);
    for (section, key, address) in [
        ("storage", "listen", "127.0.0.1:7501"),
        ("augment", "listen", "127.0.0.1:7502"),
        ("telemetry", "metrics_listen", "127.0.0.1:9500"),
    ] {
        let line = line(&shown, section, key);
        assert!(line.starts_with(&format!("{key} = \"{address}\"")), "{line}");
    }
}
