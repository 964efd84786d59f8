//! `headwater doctor` on recorded machines and on this one.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use headwater_inventory::trees;
use serde_json::Value;

use crate::emulation;
use crate::support::data;
use crate::support::fleet::Fleet;

/// What a run of the doctor said.
struct Said {
    code: Option<i32>,
    report: Value,
    stderr: String,
}

fn doctor(env: &[(&str, &str)], args: &[&str]) -> Said {
    let ours = std::env::vars().map(|(name, _)| name);
    let ours = ours.filter(|name| name.starts_with("HEADWATER_") || name.starts_with("NCCL_"));
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    ours.for_each(|name| {
        command.env_remove(name);
    });
    command.args(["doctor", "--json"]).args(args).envs(env.iter().copied());
    let output = command.current_dir(folder.path()).output().expect("the program starts");
    let stdout = String::from_utf8_lossy(&output.stdout);
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    let report = serde_json::from_str(&stdout).unwrap_or_else(|_| panic!("{stdout}{stderr}"));
    Said { code: output.status.code(), report, stderr }
}

/// The doctor's look at a recorded machine.
fn recorded(tree: &str, env: &[(&str, &str)], args: &[&str]) -> Said {
    let folder = tempfile::tempdir().expect("a folder");
    trees::unpack(tree, folder.path()).expect("a tree");
    let machine = folder.path().to_str().expect("text");
    doctor(env, &[&["--machine", machine], args].concat())
}

// === impl Said ===

impl Said {
    /// Verdict and finding of the check of this name.
    #[track_caller]
    fn check(&self, name: &str) -> (&str, &str) {
        let checks = self.report["checks"].as_array().expect("checks");
        let check = checks.iter().find(|check| check["check"] == name);
        let check = check.unwrap_or_else(|| panic!("no check `{name}` in {checks:#?}"));
        let text = |key: &str| check[key].as_str().expect("text");
        (text("verdict"), text("found"))
    }

    #[track_caller]
    fn has(&self, name: &str, verdict: &str, found: &str) {
        let (was, said) = self.check(name);
        assert_eq!(was, verdict, "{name}: {said}");
        assert!(said.contains(found), "{name}: no `{found}` in `{said}`");
    }

    /// Names of all checks.
    fn checks(&self) -> Vec<&str> {
        let checks = self.report["checks"].as_array().expect("checks").iter();
        checks.map(|check| check["check"].as_str().expect("a name")).collect()
    }

    fn wrong(&self) -> Vec<&str> {
        let checks = self.report["checks"].as_array().expect("checks").iter();
        let wrong = checks.filter(|check| check["verdict"] == "wrong");
        wrong.map(|check| check["check"].as_str().expect("a name")).collect()
    }
}

#[test]
fn a_dgx_is_well_but_for_what_nobody_has_set() {
    let said = recorded(trees::DGX_H100, &[], &[]);
    assert_eq!(said.wrong(), [""; 0]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    said.has("rdma", "ok", "12 devices, 10 of 12 ports usable");
    said.has("rdma mlx5_0 port 1", "ok", "ACTIVE (LinkUp), InfiniBand, 400 Gb/s, NUMA node 0");
    said.has("rdma mlx5_2 port 1", "absent", "DOWN (Disabled)");
    said.has("gpu 0000:df:00.0", "ok", "NVIDIA H100 80GB HBM3, NUMA node 1");
    said.has("rdma nearest to gpu 0000:df:00.0", "ok", "mlx5_11 (same PCIe switch");
    said.has("gpu driver", "ok", "535.161.08, proprietary");
    said.has("gpu peer memory", "ok", "nvidia_peermem");
    said.has("locked memory", "ok", "no limit");
    said.has("processor", "ok", "avx512vbmi kernels");
    said.has("NCCL_NET", "absent", "b200-pcie has IB");
    let devices = said.report["inventory"]["rdma_devices"].as_array().expect("devices");
    assert_eq!(devices.len(), 12);
    assert_eq!(devices[0]["ports"][0]["gids"][0]["index"], 0);
}

/// 8 MB may be locked where a rank's slots take 270: the rdma link could not register them.
#[test]
fn a_roce_server_is_told_what_stands_in_its_way() {
    let env = [("NCCL_IB_DISABLE", "1"), ("NCCL_IB_HCA", "mlx5_0")];
    let said = recorded(trees::ROCE, &env, &["--set", "receiver.huge_pages=true"]);
    assert_eq!(said.code, Some(1));
    assert!(said.stderr.contains("headwater: 2 of "), "{}", said.stderr);
    assert_eq!(said.wrong(), ["locked memory", "NCCL_IB_DISABLE"]);
    said.has("locked memory", "wrong", "8 MB");
    said.has("huge pages", "ok", "`never` for slots, given on request");
    said.has("open files", "ok", "524288; a process may open 17152");
    said.has("rdma mlx5_0 port 1", "ok", "4 GIDs, best 3 0000:");
    said.has("rdma mlx5_1 port 1", "absent", "DOWN");
    said.has("rdma nearest to gpu 0000:21:00.0", "ok", "one NUMA node");
    said.has("rdma nearest to gpu 0000:c1:00.0", "absent", "across NUMA nodes");
    said.has("gpu peer memory", "ok", "dmabuf");
    said.has("processor", "ok", "avx2 kernels");
    said.has("NCCL_IB_HCA", "ok", "mlx5_0");
}

#[test]
fn huge_pages_that_no_policy_gives_take_a_kernel_that_gives_them_on_request() {
    let asked = ["--set", "receiver.huge_pages=true"];
    let old = trees::ROCE.replace("osrelease = 6.8.0", "osrelease = 5.15.0");
    recorded(&old, &[], &asked).has("huge pages", "wrong", "`never` for slots, not given");
    recorded(&old, &[], &[]).has("huge pages", "ok", "huge_pages is off");
    let denied = trees::ROCE.replace("[never] deny", "never [deny]");
    recorded(&denied, &[], &asked).has("huge pages", "wrong", "`deny`");
}

/// The card is on NUMA node 1, and GPU 1 on node 0.
#[test]
fn cores_near_a_device_are_shown() {
    let said = |settings: &[&str]| {
        let flags = settings.iter().flat_map(|setting| ["--set", setting]).collect::<Vec<_>>();
        recorded(trees::ROCE, &[], &flags)
    };
    let all = said(&["augment.cpus=auto", "receiver.cpus=auto", "augment.backend=cpu"]);
    all.has("cores of a worker", "ok", "64-127");
    all.has("cores of a receiver", "ok", "64-127");
    let gpu = said(&["receiver.cpus=auto", "receiver.device=cuda:1"]);
    gpu.has("cores of a receiver", "ok", "0-63");
    assert!(!gpu.checks().contains(&"cores of a worker"), "nobody asked");
    let unknown = said(&["augment.cpus=auto", "links.rdma_device=mlx5_9", "augment.backend=cpu"]);
    unknown.has("cores of a worker", "wrong", "no RDMA device mlx5_9");
}

#[test]
fn a_rack_is_asked_for_the_settings_of_its_job_file() {
    let right = [("NCCL_IB_DISABLE", "1"), ("NCCL_NVLS_ENABLE", "1"), ("NCCL_PROTO", "LL128")];
    let said = recorded(trees::GB200_TRAY, &right, &[]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    for (name, value) in right {
        said.has(name, "ok", value);
    }
    said.has("NCCL_MNNVL_ENABLE", "absent", "not set");
    said.has("processor", "absent", "plain kernels");
    said.has("rdma nearest to gpu 0018:01:00.0", "ok", "mlx5_4, mlx5_5");
    let said = recorded(trees::GB200_TRAY, &[("NCCL_PROTO", "Simple")], &[]);
    assert_eq!(said.wrong(), ["NCCL_PROTO"]);
}

#[test]
fn a_machine_without_rdma_is_wrong_only_where_rdma_is_forced() {
    let said = recorded(trees::PLAIN, &[], &[]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    said.has("processor", "absent", "plain kernels");
    said.has("locked memory", "ok", "the privilege");
    let said = recorded(trees::PLAIN, &[], &["--set", "augment.links=rdma"]);
    assert_eq!(said.wrong(), ["rdma"]);
    assert_eq!(said.code, Some(1));
}

#[test]
fn hardware_that_nobody_asked_for_is_not_mentioned() {
    let said = recorded(trees::PLAIN, &[], &[]);
    let names = [
        "configuration",
        "processor",
        "memory of slots",
        "locked memory",
        "open files",
        "huge pages",
    ];
    assert_eq!(said.checks(), names);
    let asked = ["augment.backend=cuda", "receiver.device=cuda:0", "recipe.decoder=nvjpeg"];
    for setting in asked {
        let said = recorded(trees::PLAIN, &[], &["--set", setting]);
        said.has("gpu", "wrong", "no NVIDIA GPU on PCI");
    }
}

#[test]
fn tiers_and_datasets_that_are_configured_are_asked() {
    let mut fleet = Fleet::start(data("photos/photos-000003.tar"), 1);
    let (storage, worker) = (fleet.storage().address.clone(), fleet.worker(0).address.clone());
    let ask = |storage: &str, workers: &str, dataset: &str| {
        let storage = format!("receiver.storage={storage}");
        let workers = format!("receiver.workers={workers}");
        let place = ["--ranks", "1", "--batch", "1", "--dataset", dataset];
        doctor(&[], &[&place[..], &["--set", &storage, "--set", &workers]].concat())
    };
    let (storage_check, worker_check) =
        (format!("storage node {storage}"), format!("worker {worker}"));
    let well = ask(&storage, &worker, "photos");
    assert_eq!(well.code, Some(0), "{:?}", well.wrong());
    let release = format!(", release {}", env!("CARGO_PKG_VERSION"));
    well.has(&storage_check, "ok", &release);
    well.has(&worker_check, "ok", &release);
    well.has("dataset photos", "ok", "41 samples in 1 shard are served");

    let exchanged = ask(&worker, &storage, "photos");
    assert_eq!(exchanged.wrong().len(), 2, "{:?}", exchanged.wrong());
    let found = "an augment worker answers there, not a storage node: give the address that \
                 `headwater storage` listens on";
    exchanged.has(&format!("storage node {worker}"), "wrong", found);
    let found = "a storage node answers there, not an augment worker";
    exchanged.has(&format!("worker {storage}"), "wrong", found);

    let other = ask(&storage, "127.0.0.1:1", "pictures");
    other.has("worker 127.0.0.1:1", "wrong", "cannot reach 127.0.0.1:1: Connection refused");
    other.has("dataset pictures", "wrong", "no dataset `pictures` here, there are: photos");
    assert_eq!(other.code, Some(1));
}

#[test]
fn a_tier_with_another_token_says_so() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("token");
    std::fs::write(&path, "0123456789abcdef").expect("a file");
    let token = format!("token_file = \"{}\"", path.display());
    let mut fleet = Fleet::secured(data("photos/photos-000003.tar"), &token);
    let storage = fleet.storage().address.clone();
    let setting = format!("receiver.storage={storage}");
    let said = doctor(&[], &["--ranks", "1", "--batch", "1", "--set", &setting]);
    let found = "the caller has no token: give both sides the same file as security.token_file";
    said.has(&format!("storage node {storage}"), "wrong", found);
}

/// Slots of this number of ranks and samples fit in no machine's memory.
#[test]
fn slots_that_do_not_fit_and_shards_that_are_not_there_are_wrong() {
    let said = doctor(&[], &["--ranks", "1024", "--batch", "65536"]);
    assert!(said.wrong().contains(&"memory of slots"), "{:?}", said.wrong());
    assert_eq!(said.code, Some(1));
    let said = doctor(&[], &["--batch", "1", "--dataset", "photos=/nonexistent/a-{0..3}.tar"]);
    said.has("dataset photos", "wrong", "/nonexistent/a-0.tar");
    let shards = data("photos").join("photos-{000000..000003}.tar");
    let dataset = format!("photos={}", shards.display());
    let said = doctor(&[], &["--ranks", "1", "--batch", "1", "--dataset", &dataset]);
    said.has("dataset photos", "ok", "4 shards");
    let (_, found) = said.check("dataset photos");
    assert!(found.ends_with(" samples"), "{found}");
    let args = ["--ranks", "1", "--batch", "1", "--dataset", &dataset];
    for (of, ending) in
        [("", " samples, before filters"), ("photos", ", before filters"), ("other", " samples")]
    {
        let filters = format!("[{{dataset = '{of}', kind = 'width', min = 9}}]");
        let said = doctor(&[("HEADWATER_FILTER", &filters)], &args);
        let (_, found) = said.check("dataset photos");
        assert!(found.ends_with(ending), "{found}");
    }
    said.has("memory of slots", "ok", "1 ranks");
}

/// The kernel's list of features against what the program itself asks the processor.
#[test]
fn the_kernels_that_are_named_are_those_that_run() {
    let said = doctor(&[], &["--batch", "1"]);
    let best = headwater_simd::Simd::best().name();
    let (_, found) = said.check("processor");
    assert!(found.ends_with(&format!(", {best} kernels")), "{found}, not {best}");
}

/// A process that is killed when dropped.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

#[test]
fn a_name_with_a_line_break_is_no_check_of_its_own() {
    let folder = tempfile::tempdir().expect("a folder");
    let name = "a\nok      forged: all is well.tar";
    std::fs::copy(data("photos/photos-000003.tar"), folder.path().join(name)).expect("a shard");
    let dataset = format!("photos={}/*.tar", folder.path().display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(["doctor", "--ranks", "1", "--batch", "1", "--dataset", &dataset]);
    let output = command.current_dir(folder.path()).output().expect("the program starts");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("forged"), "{said}");
    assert!(!said.lines().any(|line| line.starts_with("ok      forged")), "{said}");
}

/// `doctor --serve` on some port, and the address.
fn serve(args: &[&str]) -> (Served, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    command.args(["doctor", "--serve", "127.0.0.1:0"]).args(args).stdout(Stdio::piped());
    let mut child = command.spawn().expect("the program starts");
    let mut line = String::new();
    let stdout = child.stdout.take().expect("piped");
    BufReader::new(stdout).read_line(&mut line).expect("a line");
    let address = line.trim().strip_prefix("doctor on ").expect("an address").to_owned();
    (Served(child), address)
}

#[test]
fn every_link_of_one_host_is_measured() {
    let (_served, address) = serve(&["--set", "receiver.links=shm,ucx,tcp"]);
    let said = doctor(&[], &["--link", &address]);
    assert_eq!(said.code, Some(0), "{}", said.stderr);
    let mut links = vec!["link shm", "link tcp"];
    match headwater_transport::links::ucx::detect(false) {
        Ok(_) => links.push("link ucx"),
        Err(error) => eprintln!("SKIP of ucx: {error}"),
    }
    for link in links {
        said.has(link, "ok", "within one host");
        let (_, found) = said.check(link);
        let figure = |unit: &str| -> f64 {
            let before = found.split(unit).next().expect("text").trim();
            before.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a number")
        };
        assert!(figure(" us") > 0.0 && figure(" GB/s") > 0.0, "{found}");
    }
    // The next caller is served too.
    assert_eq!(doctor(&[], &["--link", &address]).code, Some(0));
}

#[test]
fn who_has_not_the_token_measures_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let token = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("a file");
        format!("security.token_file={}", path.display())
    };
    let (ours, theirs) = (token("ours", "0123456789abcdef"), token("theirs", "fedcba9876543210"));
    let (_served, address) = serve(&["--set", &ours]);
    assert_eq!(doctor(&[], &["--link", &address, "--set", &ours]).code, Some(0));
    for args in [&["--link", &address][..], &["--link", &address, "--set", &theirs]] {
        let output = plain(folder.path(), args);
        assert!(output.contains("refused: another token"), "{output}");
    }
}

/// What a run that cannot report says.
fn plain(folder: &Path, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_headwater"));
    let output = command.arg("doctor").args(args).current_dir(folder).output();
    let output = output.expect("the program starts");
    assert_eq!(output.status.code(), Some(1));
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// `doctor --gpu` on the emulated GPU, under these variables.
fn proof(variables: &[(&str, &str)]) -> Said {
    let cache = tempfile::tempdir().expect("a folder");
    let folder = cache.path().display();
    let settings = ["augment", "receiver"].map(|tier| format!("{tier}.cuda_cache_dir={folder}"));
    let libraries = emulation::cuda().to_str().expect("text");
    let env = [&[("LD_LIBRARY_PATH", libraries)], variables].concat();
    doctor(&env, &["--batch", "1", "--gpu", "--set", &settings[0], "--set", &settings[1]])
}

#[test]
fn a_gpu_is_put_to_the_proof_and_a_wrong_kernel_is_named() {
    let said = proof(&[]);
    let bytes = "makes the processor's bytes";
    said.has("gpu proof of a worker", "ok", &format!("cuda Emulated GPU {bytes} in"));
    said.has("gpu proof of a receiver", "ok", &format!("{bytes}: copy of a slot, normalise"));
    said.has("gpu peer writes", "absent", "GPUDirect RDMA");
    let said =
        proof(&[("EMULATED_NVRTC_REPLACE", "range, away) + shift)=>range, away) + shift + 1)")]);
    said.has("gpu proof of a worker", "wrong", "`hue` gives other bytes than the processor");
    said.has("gpu proof of a receiver", "ok", bytes);
    let said = proof(&[("EMULATED_NVRTC_REPLACE", "third << 32=>third << 31")]);
    said.has("gpu proof of a worker", "ok", bytes);
    said.has("gpu proof of a receiver", "wrong", "`normalise` gives other bytes");
    assert_eq!(said.code, Some(1), "{}", said.stderr);
}

#[test]
fn cuda_libraries_say_their_versions() {
    let libraries = emulation::cuda().to_str().expect("text");
    let said = doctor(&[("LD_LIBRARY_PATH", libraries)], &[]);
    said.has("cuda driver library", "ok", "libcuda.so CUDA 13.0");
    said.has("nvrtc", "ok", "13.0");
    let old = [("LD_LIBRARY_PATH", libraries), ("EMULATED_CUDA_VERSION", "12040")];
    doctor(&old, &[]).has("nvrtc", "wrong", "it is of CUDA 13.0, and the driver takes CUDA 12.4");
}
