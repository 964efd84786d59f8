"""What the chart says to schedulers, networks and rollouts."""

import tomllib

import pytest

from conftest import CHART, helm, of_kind, pods, refusal, render


def container(pod):
    return pod["spec"]["containers"][0]


def of_component(objects, name):
    return [pod for pod in pods(objects) if container(pod)["name"] == name]


def env(one):
    return {entry["name"]: entry for entry in one["env"]}


def test_a_worker_has_as_many_threads_as_cores_are_requested_for_it():
    def threads(*flags):
        objects = render("gpu", "1.37.0", *[flag for setting in flags for flag in ("--set", setting)])
        found = [env(container(pod)).get("HEADWATER_AUGMENT__THREADS") for pod in of_component(objects, "augment")]
        assert len(found) == 2
        return found

    requested = {"name": "HEADWATER_AUGMENT__THREADS", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu"}}}
    assert threads() == [requested, requested]
    # The program reads a limit by itself. 0 means a thread for each core there is.
    assert threads("augment.cpu.resources.limits.cpu=6") == [None, requested]
    assert threads("augment.gpu.resources.requests.cpu=null") == [requested, None]
    assert threads("config.augment.threads=3") == threads("config.augment.threads=0") == [None, None]


@pytest.mark.parametrize("case", ["rdma", "tls", "sidecar"])
def test_volumes_are_given_to_the_group_once(case):
    for pod in pods(render(case)):
        assert pod["spec"]["securityContext"]["fsGroupChangePolicy"] == "OnRootMismatch"


@pytest.mark.parametrize(
    "flags, links, images",
    [
        ("", ["tcp"], ["augment", "receiver"]),
        ("rdma.enabled=true", ["rdma", "tcp"], ["augment-rdma", "receiver-rdma"]),
        ("sharedMemory.socketHostPath=/s", ["shm", "tcp"], ["augment", "receiver"]),
        ("rdma.enabled=true,sharedMemory.socketHostPath=/s", ["shm", "rdma", "tcp"], ["augment-rdma", "receiver-rdma"]),
        ("rdma.enabled=true,sharedMemory.sidecar.enabled=true", ["shm", "rdma", "tcp"], ["augment-rdma", "receiver-rdma"]),
        ("rdma.enabled=true,config.receiver.links={ucx}", ["ucx"], ["augment-rdma", "receiver-rdma"]),
    ],
)
def test_links_and_images_follow_the_switches(flags, links, images):
    objects = render("minimal", "1.37.0", "--set", flags)
    (config,) = of_kind(objects, "ConfigMap")
    assert tomllib.loads(config["data"]["receiver.toml"])["receiver"]["links"] == links
    used = [container(pod)["image"] for pod in of_component(objects, "augment") + of_component(objects, "trainer")]
    assert used == [f"localhost/headwater-{name}:0.2.0" for name in images]


def test_workers_with_gpus_have_the_image_with_cuda():
    def images(*flags):
        return [container(pod)["image"].rpartition("/")[2] for pod in of_component(render("gpu", "1.37.0", *flags), "augment")]

    assert images() == ["headwater-augment:0.2.0", "headwater-augment-cuda:0.2.0"]
    assert images("--set", "rdma.enabled=true") == ["headwater-augment-rdma:0.2.0", "headwater-augment-cuda:0.2.0"]
    assert images("--set", "augment.gpu.image=a/mine:1") == ["headwater-augment:0.2.0", "mine:1"]


def test_a_worker_in_the_ranks_pod_serves_only_that_rank_through_a_folder_of_the_pod():
    objects = render("sidecar")
    (job,) = of_kind(objects, "Job")
    pod = job["spec"]["template"]["spec"]
    (worker,), (trainer,) = pod["initContainers"], pod["containers"]
    assert env(worker)["HEADWATER_AUGMENT__LISTEN"]["value"] == "127.0.0.1:7402"
    (config,) = of_kind(objects, "ConfigMap")
    receiver = tomllib.loads(config["data"]["receiver.toml"])
    assert receiver["receiver"]["workers"] == ["127.0.0.1:7402"] and receiver["receiver"]["links"][0] == "shm"
    folders = [{m["mountPath"]: m["name"] for m in one["volumeMounts"]} for one in (worker, trainer)]
    assert {folder[receiver["links"]["shm_socket_dir"]] for folder in folders} == {"sockets"}
    (sockets,) = [volume for volume in pod["volumes"] if volume["name"] == "sockets"]
    assert sockets["emptyDir"]["medium"] == "Memory"
    # It reads the augment tier's file, the rank its own.
    (files,) = [volume["configMap"]["items"] for volume in pod["volumes"] if volume["name"] == "config"]
    paths = {item["path"]: item["key"] for item in files}
    keys = [paths[one["volumeMounts"][0]["subPath"]] for one in (worker, trainer)]
    assert keys == ["augment.toml", "receiver.toml"]
    # Workers of the tier serve it too, where there are some.
    more = of_kind(render("sidecar", "1.37.0", "--set", "augment.cpu.enabled=true"), "ConfigMap")[0]
    workers = tomllib.loads(more["data"]["receiver.toml"])["receiver"]["workers"]
    assert workers == ["127.0.0.1:7402", "dns:run-headwater-augment.ml.svc:7402"]
    # Another configuration of the worker makes another Job.
    (other,) = of_kind(render("sidecar", "1.37.0", "--set", "config.augment.queue_parts=3"), "Job")
    assert other["metadata"]["name"] != job["metadata"]["name"]


def test_a_worker_in_the_ranks_pod_is_watched_too():
    objects = render("sidecar")
    (monitor,) = of_kind(objects, "PodMonitor")
    assert [one["port"] for one in monitor["spec"]["podMetricsEndpoints"]] == ["metrics", "worker-metrics"]
    (policy,) = of_kind(objects, "NetworkPolicy", "-receiver")
    assert [port["port"] for port in policy["spec"]["ingress"][-1]["ports"]] == ["metrics", "worker-metrics"]


def test_workers_reach_loaders_that_listen_on_ports_of_the_kernels_choice():
    def from_workers(case):
        (policy,) = of_kind(render(case, "1.37.0", "--set", "networkPolicy.enabled=true"), "NetworkPolicy", "-receiver")
        return policy["spec"]["ingress"][0].get("ports")

    assert from_workers("minimal") == [{"port": "link", "protocol": "TCP"}]
    assert from_workers("trials") is None


def test_pods_that_ask_the_api_server_reach_it():
    policies = of_kind(render("slices"), "NetworkPolicy")
    reach = {policy["metadata"]["name"].rpartition("-")[2]: str(policy["spec"]["egress"]) for policy in policies}
    assert {name for name, rules in reach.items() if "10.0.0.1/32" in rules} == {"augment", "receiver"}
    said = refusal("--set-json", "networkPolicy.apiServer=[]", case="slices")
    assert "networkPolicy.apiServer" in said and "kubectl get endpoints kubernetes" in said


def test_a_job_says_how_it_may_fail_and_how_long_its_end_may_take():
    def spec(case, version="1.37.0", *flags):
        return of_kind(render(case, version, *flags), "Job")[0]["spec"]

    job = spec("minimal")
    (rule,) = job["podFailurePolicy"]["rules"]
    assert rule == {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}
    assert (job["backoffLimit"], job["template"]["spec"]["terminationGracePeriodSeconds"]) == (3, 30)
    assert "podFailurePolicy" not in spec("minimal", "1.25.0")
    grace = spec("minimal", "1.37.0", "--set", "job.terminationGracePeriodSeconds=600")
    assert grace["template"]["spec"]["terminationGracePeriodSeconds"] == 600
    # Each trial has as many attempts, however often the others fail.
    trials = spec("trials")
    assert (trials.get("backoffLimit"), trials["backoffLimitPerIndex"]) == (None, 3)
    assert spec("trials", "1.28.0")["backoffLimit"] == 3 * 8
    assert spec("trials", "1.20.2")["backoffLimit"] == 3


def test_labels_of_a_job_are_not_those_of_its_pods():
    (job,) = of_kind(render("sidecar"), "Job")
    queue = "kueue.x-k8s.io/queue-name"
    assert job["metadata"]["labels"][queue] == "training"
    assert queue not in job["spec"]["template"]["metadata"]["labels"]
    (other,) = of_kind(render("sidecar", "1.37.0", "--set-json", f'job.labels={{"{queue}":"other"}}'), "Job")
    assert other["metadata"]["name"] == job["metadata"]["name"]


def test_a_rollout_goes_on_when_ranks_have_found_the_new_pod():
    objects = render("tls")
    for kind in ("Deployment", "StatefulSet"):
        assert of_kind(objects, kind)[0]["spec"]["minReadySeconds"] == 10
    assert of_kind(render("gpu", "1.20.2"), "DaemonSet")[0]["spec"]["minReadySeconds"] == 10
    # That kind learnt it with 1.22, and has it by default since 1.23.
    assert "minReadySeconds" not in of_kind(render("tls", "1.22.0"), "StatefulSet")[0]["spec"]


def test_images_may_be_pinned():
    digest = "sha256:" + "0123456789abcdef" * 4
    objects = render("minimal", "1.37.0", "--set", f"image.digests.storage={digest},image.digests.augment-rdma={digest}")
    assert container(of_component(objects, "storage")[0])["image"] == f"localhost/headwater-storage:0.2.0@{digest}"
    assert container(of_component(objects, "augment")[0])["image"] == "localhost/headwater-augment:0.2.0"


@pytest.mark.parametrize(
    "flag, named",
    [
        ("storage.replicas=0", "storage.replicas"),
        ("fullnameOverride=My_Name", "fullnameOverride"),
        ("nameOverride=9lives", "nameOverride"),
        (f"fullnameOverride={'a' * 41}", "fullnameOverride"),
        ("serviceAccount.name=A", "serviceAccount.name"),
        ("security.token.existingSecret=a_b", "existingSecret"),
        ("image.digests.augment=sha256:12", "image.digests.augment"),
        ("image.digests.trainer=x", "trainer"),
        ("sharedMemory.sidecar.enabled=true,sharedMemory.socketHostPath=/s", "choose one"),
    ],
)
def test_what_a_cluster_would_refuse_later_is_refused_at_once(flag, named):
    assert named in refusal("--set", flag)


def test_a_release_whose_name_no_service_can_have_is_refused():
    values = CHART / "ci" / "minimal-values.yaml"
    for name in ("9lives", "a.b"):
        assert "set fullnameOverride" in helm("template", name, CHART, "--values", values).stderr
        assert helm("template", name, CHART, "--values", values, "--set", "fullnameOverride=a").returncode == 0


def test_a_worker_in_the_pod_of_a_trainer_without_probes_needs_a_cluster_that_ends_it():
    flags = ["--set", "job.enabled=true,job.probes=false,sharedMemory.sidecar.enabled=true"]
    assert "needs Kubernetes 1.29" in refusal("--kube-version", "1.28.0", *flags)
    assert of_kind(render("defaults", "1.29.0", *flags), "Job")
