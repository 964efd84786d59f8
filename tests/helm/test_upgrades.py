"""What an upgrade of the chart leaves as it is: pods that need no change, and a Job that runs."""

import re
import shutil

import pytest
import yaml

from api_server import ApiServer
from conftest import CHART, ROOT, helm, of_kind, pods, render


@pytest.fixture
def later(tmp_path):
    """The chart as the next release brings it."""
    shutil.copytree(CHART, tmp_path / "headwater")
    path = tmp_path / "headwater" / "Chart.yaml"
    text = re.sub(r"^version: .*", "version: 99.0.0", path.read_text(), flags=re.M)
    path.write_text(re.sub(r"^appVersion: .*", "appVersion: next", text, flags=re.M))
    return path.parent


def upgrade(chart, *flags, cluster=()):
    """What helm makes of an upgrade in a cluster that has these objects; or its refusal."""
    values = CHART / "ci" / "minimal-values.yaml"
    with ApiServer(*cluster) as server:
        place = ["--dry-run=server", "--kube-apiserver", server.address, "--namespace", "ml"]
        done = helm("template", "run", chart, *place, "--values", values, *flags)
    if done.returncode:
        return done.stderr
    return [entry for entry in yaml.safe_load_all(done.stdout) if entry]


def installed(*flags):
    """The Job as an installation leaves it."""
    (job,) = of_kind(upgrade(CHART, *flags), "Job")
    return job


def ended(job, condition):
    return job | {"status": {"conditions": [{"type": condition, "status": "True"}]}}


def set_wire(chart, version):
    path = chart / "Chart.yaml"
    path.write_text(re.sub(r"wire-version: .*", f'wire-version: "{version}"', path.read_text()))


def test_pods_carry_the_labels_that_select_them_and_their_own():
    for entry in render("gpu", "1.37.0", "--set", "commonLabels.team=vision,augment.podLabels.mine=yes"):
        labels = entry["metadata"]["labels"]
        assert labels["team"] == "vision" and labels["helm.sh/chart"].startswith("headwater-")
        if "template" not in entry.get("spec", {}):
            continue
        of_pod = entry["spec"]["template"]["metadata"]["labels"]
        selected = entry["spec"].get("selector", {}).get("matchLabels", {})
        more = {name for name in of_pod if name not in selected}
        plain = {"app.kubernetes.io/name", "app.kubernetes.io/instance", "app.kubernetes.io/component"}
        assert more == ({"mine"} if "augment" in entry["metadata"]["name"] else plain - set(selected))


def test_a_new_version_of_the_chart_changes_only_images_of_pods(later):
    before, after = ([pod for pod in pods(upgrade(chart))] for chart in (CHART, later))
    assert before != after
    changed = yaml.safe_dump(after).replace(":next", ":0.2.0")
    # A Job that does not run begins with the new images, under another name.
    names = [of_kind(upgrade(chart), "Job")[0]["metadata"]["name"] for chart in (CHART, later)]
    assert changed.replace(names[1], names[0]) == yaml.safe_dump(before)


def test_a_running_job_keeps_its_ranks_through_a_new_version(later):
    running = installed()
    objects = upgrade(later, "--set", "commonLabels.team=vision", cluster=[running])
    (job,) = of_kind(objects, "Job")
    assert (job["metadata"]["name"], job["spec"]) == (running["metadata"]["name"], running["spec"])
    (worker,) = of_kind(objects, "Deployment")
    assert worker["spec"]["template"]["spec"]["containers"][0]["image"].endswith("augment:next")


@pytest.mark.parametrize("condition", ["Complete", "Failed"])
def test_a_job_that_has_ended_is_made_anew_by_a_new_version(later, condition):
    over = ended(installed(), condition)
    (job,) = of_kind(upgrade(later, cluster=[over]), "Job")
    assert job["metadata"]["name"] != over["metadata"]["name"]
    assert job["spec"]["template"]["spec"]["containers"][0]["image"].endswith("receiver:next")


def test_only_the_releases_own_job_counts(later):
    other = installed()
    other["metadata"]["labels"]["app.kubernetes.io/instance"] = "other"
    (job,) = of_kind(upgrade(later, cluster=[other]), "Job")
    assert job["spec"]["template"]["spec"]["containers"][0]["image"].endswith("receiver:next")


def test_an_image_that_is_named_is_taken(later):
    (job,) = of_kind(upgrade(later, "--set", "job.image=mine:2", cluster=[installed()]), "Job")
    assert job["spec"]["template"]["spec"]["containers"][0]["image"] == "mine:2"


def test_workers_that_speak_another_wire_version_are_refused_while_the_job_runs(later):
    set_wire(later, 11)
    running = installed()
    said = upgrade(later, cluster=[running])
    assert f"Job {running['metadata']['name']} runs with wire version 10" in said
    assert "speak 11" in said and "job.enabled=false" in said
    # Where the Job ends by this upgrade, or has ended, or goes on with workers that the values name.
    assert not isinstance(upgrade(later, "--set", "job.enabled=false", cluster=[running]), str)
    assert not isinstance(upgrade(later, cluster=[ended(running, "Complete")]), str)
    assert not isinstance(upgrade(later, "--set", "augment.image=mine:1", cluster=[running]), str)


def test_the_charts_wire_version_is_that_of_the_sources():
    (ours,) = re.findall(r"pub const WIRE_VERSION: u32 = (\d+);", (ROOT / "proto" / "src" / "lib.rs").read_text())
    assert yaml.safe_load((CHART / "Chart.yaml").read_text())["annotations"]["headwater/wire-version"] == ours


def test_the_notes_say_what_an_upgrade_does(later):
    # `helm template` leaves the notes out, so they are an object here.
    text = (later / "templates" / "NOTES.txt").read_text()
    made = '{{- define "notes" }}' + text + '{{ end }}kind: Notes\nmetadata: {name: notes}\ntext: {{ include "notes" . | quote }}\n'
    (later / "templates" / "notes.yaml").write_text(made)

    def notes(*flags):
        (found,) = of_kind(upgrade(later, *flags), "Notes")
        return found["text"]

    assert "wire version 10. An upgrade to workers of another version is refused" in notes()
    assert "leaves running ranks as they are, with their image" in notes()
    assert "with their image" not in notes("--set", "job.image=mine:1")
    assert "no upgrade compares wire versions" in notes("--set", "image.tag=v7")
    assert "wire version, which is 10" in notes("--set", "job.enabled=false")


def test_a_digest_of_a_job_is_of_what_it_runs_and_not_of_how_it_is_written(later):
    path = later / "templates" / "_job.tpl"
    path.write_text(path.read_text().replace("    restartPolicy: Never\n", "    # As a later chart may say.\n    restartPolicy:   Never\n"))
    (job,) = of_kind(upgrade(later, cluster=[installed()]), "Job")
    assert job["metadata"]["name"] == installed()["metadata"]["name"]


def test_a_drawn_token_is_kept_and_not_drawn_without_a_cluster():
    flags = ["--set", "security.token.enabled=true"]
    (drawn,) = of_kind(upgrade(CHART, *flags), "Secret")
    (again,) = of_kind(upgrade(CHART, *flags, cluster=[drawn]), "Secret")
    assert again["data"] == drawn["data"] and len(drawn["data"]["token"]) > 40
    done = helm("template", "run", CHART, "--values", CHART / "ci" / "minimal-values.yaml", *flags)
    assert "security.token.existingSecret" in done.stderr and "--dry-run=server" in done.stderr


def test_a_rendering_is_the_same_each_time():
    for case in ("tls", "slices", "publish"):
        render.cache_clear()
        assert render(case) == render.__wrapped__(case)
