"""What the chart makes of its values, for old and new clusters."""

import pytest
import yaml

from conftest import CASES, CHART, NEWEST, OLDEST, OPERATORS, ROOT, helm, of_kind, pods, refusal, render, validate

@pytest.mark.parametrize("case", CASES)
def test_the_linter_finds_nothing(case):
    values = CHART / "ci" / f"{case}-values.yaml"
    done = helm("lint", "--strict", CHART, "--values", values)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", [OLDEST, NEWEST])
@pytest.mark.parametrize("case", CASES)
def test_objects_fit_the_schemas_of_the_oldest_and_newest_cluster(case, version):
    objects = render(case, f"{version}.0")
    assert len(objects) >= 8
    for entry in objects:
        validate(entry, version)


@pytest.mark.parametrize("case", CASES)
def test_a_cluster_of_1_20_gets_only_apis_that_it_has(case):
    there = {"v1", "apps/v1", "batch/v1", "policy/v1beta1", "autoscaling/v2beta2",
             "networking.k8s.io/v1", "scheduling.k8s.io/v1", "rbac.authorization.k8s.io/v1", *OPERATORS}  # fmt: skip
    objects = render(case, "1.20.2")
    assert {entry["apiVersion"] for entry in objects} <= there
    gone = ("policy/v1beta1", "autoscaling/v2beta2")
    for entry in objects:
        if entry["apiVersion"] not in gone:
            validate(entry, OLDEST)


def test_ranks_are_numbered_by_the_job_or_by_a_job_each():
    (job,) = of_kind(render("minimal", NEWEST), "Job")
    assert (job["spec"]["completionMode"], job["spec"]["completions"]) == ("Indexed", 2)
    assert "job-completion-index" in str(rank_of(job)["valueFrom"])
    old = of_kind(render("minimal", "1.20.2"), "Job")
    assert [rank_of(job)["value"] for job in old] == ["0", "1"]
    assert all("completionMode" not in job["spec"] for job in old)
    first = old[0]["spec"]["template"]["spec"]
    for job in old:
        env = {entry["name"]: entry.get("value") for entry in trainer(job)["env"]}
        assert env["MASTER_ADDR"] == f"{first['hostname']}.{first['subdomain']}.ml.svc"
        assert env["WORLD_SIZE"] == "2"


def test_trials_are_pods_of_one_rank_with_a_number_and_a_place_each():
    flags = ["--set-json", 'job.checkpoints.volume={"emptyDir":{}}']
    (job,) = of_kind(render("trials", f"{NEWEST}.0", *flags), "Job")
    assert (job["spec"]["completionMode"], job["spec"]["completions"], job["spec"]["parallelism"]) == ("Indexed", 8, 8)
    env = {entry["name"]: entry for entry in trainer(job)["env"]}
    assert "job-completion-index" in str(env["HW_TRIAL"]["valueFrom"])
    assert env["HEADWATER_RECEIVER__CHECKPOINT_DIR"]["value"].endswith("/trial-$(HW_TRIAL)")
    # Variables are put in place of their names only where they stand before.
    names = list(env)
    assert names.index("HW_TRIAL") < names.index("HEADWATER_RECEIVER__CHECKPOINT_DIR")
    assert [env[name]["value"] for name in ("RANK", "WORLD_SIZE")] == ["0", "1"]
    assert "HEADWATER_RECEIVER__RANK" not in env
    old = of_kind(render("trials", "1.20.2"), "Job")
    numbers = [next(one["value"] for one in trainer(job)["env"] if one["name"] == "HW_TRIAL") for job in old]
    assert numbers == [str(number) for number in range(8)]
    assert "leave job.ranks at 1" in refusal("--set", "job.ranks=2", case="trials")


def trainer(job):
    return job["spec"]["template"]["spec"]["containers"][0]


def rank_of(job):
    (rank,) = [env for env in trainer(job)["env"] if env["name"] == "HEADWATER_RECEIVER__RANK"]
    return rank


@pytest.mark.parametrize("case", CASES)
def test_every_pod_is_locked_down(case):
    for pod in pods(render(case)):
        spec = pod["spec"]
        assert spec["securityContext"]["runAsNonRoot"] and spec["securityContext"]["runAsUser"] > 0
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        # Only who looks for endpoint slices asks the API server for anything.
        asks = case == "slices" and spec["containers"][0]["name"] != "storage"
        assert spec["automountServiceAccountToken"] is asks
        for container in spec["containers"] + spec.get("initContainers", []):
            locks = container["securityContext"]
            assert locks["readOnlyRootFilesystem"] and not locks["allowPrivilegeEscalation"]
            assert locks["capabilities"] == {"drop": ["ALL"]}


@pytest.mark.parametrize("case", CASES)
def test_what_a_pod_mounts_probes_and_is_reached_by_is_there(case):
    objects = render(case)
    templates = pods(objects)
    for entry in objects:
        if "template" not in entry.get("spec", {}):
            continue
        spec = entry["spec"]["template"]["spec"]
        claims = [
            claim["metadata"]["name"] for claim in entry["spec"].get("volumeClaimTemplates", [])
        ]
        volumes = [volume["name"] for volume in spec["volumes"]] + claims
        worker = spec.get("initContainers", [])
        mounts = {mount["name"] for one in spec["containers"] + worker for mount in one["volumeMounts"]}
        assert sorted(mounts) == sorted(volumes)
        (container,) = spec["containers"]
        ports = [port["name"] for port in container["ports"]]
        probes = {kind: container[kind] for kind in container if kind.endswith("Probe")}
        for kind, probe in probes.items():
            path = "/healthz" if kind == "livenessProbe" else "/readyz"
            assert probe["httpGet"] == {"path": path, "port": "metrics"}
        assert len(probes) == 3 or case in ("gpu", "trials") and container["name"] == "trainer"
        assert "metrics" in ports
    for service in of_kind(objects, "Service"):
        selector = service["spec"]["selector"].items()
        reached = [pod for pod in templates if selector <= pod["metadata"]["labels"].items()]
        assert reached, service["metadata"]["name"]
        for pod in reached:
            ports = {
                port["name"]: port["containerPort"]
                for port in pod["spec"]["containers"][0]["ports"]
            }
            assert all(
                ports[port["targetPort"]] == port["port"] for port in service["spec"]["ports"]
            )


def test_an_upgrade_touches_only_the_tiers_whose_configuration_changes():
    def templates(*flags):
        names = ("-storage", "-augment-cpu", "-train-")
        objects = [e for e in render("rdma", NEWEST, *flags) if "template" in e.get("spec", {})]
        found = {
            key: entry for key in names for entry in objects if key in entry["metadata"]["name"]
        }
        return {key: (e["metadata"]["name"], e["spec"]["template"]) for key, e in found.items()}

    def changed(*flags):
        after = templates(*flags)
        return {key for key, before in templates().items() if before != after[key]}

    assert changed("--set", "augment.cpu.replicas=7") == set()
    assert changed("--set", "config.receiver.seed=1") == {"-train-"}
    assert changed("--set", "config.augment.threads=3") == {"-augment-cpu"}
    assert changed("--set", "config.storage.readers=3") == {"-storage"}
    assert changed("--set", "config.telemetry.log=debug") == {"-storage", "-augment-cpu", "-train-"}
    # A Job cannot be changed: what it runs is in its name.
    assert (
        templates()["-train-"][0]
        != templates("--set", "job.args={receive,--batches=1}")["-train-"][0]
    )


@pytest.mark.parametrize(
    "mode, kind", [("hpa", "HorizontalPodAutoscaler"), ("keda", "ScaledObject")]
)
def test_an_autoscaler_has_the_number_of_workers_to_itself(mode, kind):
    objects = render(mode)
    scalers = of_kind(objects, kind)
    workers = of_kind(objects, "Deployment")
    assert scalers and len(scalers) == len(workers)
    for worker, scaler in zip(workers, scalers):
        assert "replicas" not in worker["spec"]
        assert scaler["spec"]["scaleTargetRef"]["name"] == worker["metadata"]["name"]
    assert not of_kind(render("defaults"), kind)


def test_the_horizontal_autoscaler_aims_at_the_share_of_time_waited():
    (scaler, _) = of_kind(render("hpa"), "HorizontalPodAutoscaler")
    external = scaler["spec"]["metrics"][0]["external"]
    assert external["metric"]["name"] == "headwater_receiver_stall_share"
    assert external["target"] == {"type": "Value", "value": "25m"}
    # The adapter's rule makes that metric of the one that `headwater autoscale` and KEDA read too.
    manual = (ROOT / "docs" / "kubernetes.md").read_text()
    (rules,) = [yaml.safe_load(part.partition("```")[0]) for part in manual.split("```yaml\n")[1:] if "externalRules" in part]
    (rule,) = rules["externalRules"]
    assert rule["name"]["as"] == external["metric"]["name"]
    (scaled,) = of_kind(render("keda"), "ScaledObject")
    assert rule["seriesQuery"] in scaled["spec"]["triggers"][0]["metadata"]["query"]
    assert f'"{rule["seriesQuery"]}"' in (ROOT / "src" / "autoscale" / "looking.rs").read_text()


def test_pods_that_look_for_endpoint_slices_may_list_them():
    objects = render("slices")
    (role,) = of_kind(objects, "Role", "-discovery")
    assert role["rules"] == [
        {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"], "verbs": ["list", "watch"]}
    ]
    (binding,) = of_kind(objects, "RoleBinding", "-discovery")
    bound = {subject["name"] for subject in binding["subjects"]}
    asking = {
        pod["spec"]["serviceAccountName"]
        for pod in pods(objects)
        if pod["spec"]["automountServiceAccountToken"]
    }
    assert asking == bound
    assert not of_kind(render("defaults"), "Role")


def test_every_lossless_client_has_a_port_of_its_own():
    objects = render("publish")
    (publish,) = of_kind(objects, "Deployment", "-publish")
    (service,) = of_kind(objects, "Service", "-publish")
    assert publish["spec"]["strategy"] == {"type": "Recreate"}
    ports = [port["port"] for port in service["spec"]["ports"] if port["name"] != "metrics"]
    assert ports == [*range(7404, 7424)]
    (policy,) = of_kind(objects, "NetworkPolicy", "-publish")
    (batches,) = [rule for rule in policy["spec"]["ingress"] if len(rule["ports"]) == 20]
    assert batches["from"] == [{"podSelector": {"matchLabels": {"app": "trial"}}}]


def test_devices_are_asked_for_as_often_as_they_are_limited():
    gpu = of_kind(render("gpu"), "Deployment", "-gpu")[0]["spec"]["template"]["spec"]
    assert gpu["runtimeClassName"] == "nvidia"
    asked = gpu["containers"][0]["resources"]
    assert asked["limits"]["nvidia.com/gpu"] == asked["requests"]["nvidia.com/gpu"] == 1
    cpu = of_kind(render("gpu"), "Deployment", "-cpu")[0]["spec"]["template"]["spec"]
    assert "nvidia.com/gpu" not in str(cpu)

    objects = render("rdma")
    for name, count in (("augment", 1), ("trainer", 1), ("storage", 0)):
        (pod,) = [p["spec"] for p in pods(objects) if p["spec"]["containers"][0]["name"] == name]
        resources = pod["containers"][0]["resources"]
        for devices in ("rdma/hca_shared_devices", "hugepages-2Mi"):
            limit = resources["limits"].get(devices)
            assert limit == resources["requests"].get(devices)
            assert (limit is not None) == bool(count), (name, devices)


def test_a_worker_with_a_gpu_is_replaced_without_one_to_spare():
    gpu, cpu = (
        of_kind(render("gpu"), "Deployment", ending)[0]["spec"]["strategy"]["rollingUpdate"]
        for ending in ("-gpu", "-cpu")
    )
    assert (gpu["maxSurge"], gpu["maxUnavailable"]) == (0, 1)
    # Of few workers without GPUs none goes before its successor serves: parts of a worker round down.
    assert (cpu["maxSurge"], cpu["maxUnavailable"]) == ("25%", "25%")


def test_shared_memory_of_a_rank_is_in_memory():
    (job,) = of_kind(render("gpu"), "Job")
    (shm,) = [v for v in job["spec"]["template"]["spec"]["volumes"] if v["name"] == "shm"]
    assert shm["emptyDir"] == {"medium": "Memory", "sizeLimit": "32Gi"}
    (mount,) = [m for m in trainer(job)["volumeMounts"] if m["name"] == "shm"]
    assert mount["mountPath"] == "/dev/shm"


@pytest.mark.parametrize(
    "flag, named",
    [
        ("replicas=3", "replicas"),
        ("augment.cpu.replica=3", "replica"),
        ("augment.autoscaling.mode=headwater", "augment.autoscaling.mode"),
        ("storage.kind=Deployment", "storage.kind"),
        ("config.reciever.seed=1", "reciever"),
        ("config.receiver.window=3", "window"),
        ("config.receiver.batch_samples=many", "batch_samples"),
        ("config.dataset[0].shard=a.tar", "shard"),
        ("podSecurity.runAsUser=0", "podSecurity.runAsUser"),
    ],
)
def test_a_value_that_is_not_known_is_refused_by_name(flag, named):
    assert named in refusal("--set", flag)


@pytest.mark.parametrize(
    "flags, parts",
    [
        (["--set-json", "config.dataset=[]"], ["config.dataset", "name at least one"]),
        (["--set", "storage.enabled=false"], ["config.augment.storage"]),
        (["--set", "security.tls.enabled=true"], ["existingSecret", "certManager"]),
        (
            ["--set", "security.tls.enabled=true,security.tls.certManager.enabled=true"],
            ["issuerRef"],
        ),
        (["--set", "monitoring.monitors.enabled=true"], ["monitoring.coreos.com/v1", "install"]),
        (["--set", "augment.autoscaling.mode=keda"], ["keda.sh/v1alpha1", "install"]),
    ],
)
def test_what_cannot_work_is_refused_with_the_remedy(flags, parts):
    said = refusal(*flags)
    assert all(part in said for part in parts), said


def test_shards_without_a_place_are_refused_with_the_remedy():
    said = refusal("--set-json", 'config.dataset=[{"name":"a","shards":"a.tar"}]', case=None)
    assert "data.volume is empty" in said and "hostPath" in said


def test_the_chart_takes_the_values_of_the_real_clusters_tests(tmp_path):
    # What run.sh writes for a scene.
    text = (ROOT / "tests" / "k8s" / "values.yaml").read_text()
    for word, value in {"SHARDS": "/shards", "OUT": "/out", "STEP_MS": "5", "EPOCHS": "1"}.items():
        text = text.replace(word, value)
    values = tmp_path / "values.yaml"
    values.write_text(text)
    # Where helm has a cluster, it draws the token.
    for scene in ("job.enabled=true", "publish.enabled=true", "sharedMemory.sidecar.enabled=true,job.enabled=true"):
        flags = ["--set", f"security.token.existingSecret=token,{scene}"]
        done = helm("template", "run", CHART, "--kube-version", "1.20.2", "--values", values, *flags)
        assert done.returncode == 0, done.stderr
