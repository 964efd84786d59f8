"""Images made without a container engine, and the Containerfile that makes the same with one."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib

import pytest

from conftest import ROOT, pods, render

TIERS = ["storage", "augment", "receiver"]
NOBODY = 65532


@pytest.fixture(scope="module")
def images(program, tmp_path_factory):
    """Image and unpacked file system of each tier."""
    made = {}
    folder = tmp_path_factory.mktemp("images")
    for tier in TIERS:
        archive = folder / f"{tier}.tar"
        pack(tier, program, archive)
        made[tier] = archive
    return made


@pytest.fixture(scope="module")
def root(images, tmp_path_factory):
    """The file system of a container, as nobody there may change it."""
    folder = tmp_path_factory.mktemp("root")
    folder.chmod(0o755)
    with tarfile.open(images["augment"]) as archive:
        layer = archive.extractfile(docker(archive)["Layers"][0])
        with tarfile.open(fileobj=layer) as files:
            files.extractall(folder, filter="fully_trusted")
    return folder


def pack(tier, program, archive):
    command = [
        sys.executable,
        ROOT / "scripts" / "image.py",
        tier,
        "--binary",
        program,
        "--out",
        archive,
    ]
    subprocess.run(command, check=True, capture_output=True)


def blob(archive, digest):
    return archive.extractfile("blobs/" + digest.replace(":", "/")).read()


def docker(archive):
    return json.loads(archive.extractfile("manifest.json").read())[0]


def config(path):
    with tarfile.open(path) as archive:
        return json.loads(archive.extractfile(docker(archive)["Config"]).read())["config"]


@pytest.mark.parametrize("tier", TIERS)
def test_both_indices_lead_to_the_same_image_and_digests_hold(tier, images):
    with tarfile.open(images[tier]) as archive:
        for name in archive.getnames():
            if name.startswith("blobs/"):
                digest = hashlib.sha256(archive.extractfile(name).read()).hexdigest()
                assert name == f"blobs/sha256/{digest}"
        (entry,) = json.loads(archive.extractfile("index.json").read())["manifests"]
        manifest = json.loads(blob(archive, entry["digest"]))
        image = json.loads(blob(archive, manifest["config"]["digest"]))
        assert image["rootfs"]["diff_ids"] == [manifest["layers"][0]["digest"]]
        path = "blobs/" + manifest["config"]["digest"].replace(":", "/")
        assert docker(archive)["Config"] == path
        assert docker(archive)["RepoTags"] == [entry["annotations"]["io.containerd.image.name"]]


def test_the_same_inputs_make_the_same_bytes(images, program, tmp_path):
    pack("augment", program, tmp_path / "again.tar")
    assert (tmp_path / "again.tar").read_bytes() == images["augment"].read_bytes()


def test_the_program_runs_in_the_image_as_an_ordinary_user(root, program):
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    chroot = shutil.which("chroot", path="/usr/sbin:/usr/bin:/sbin:/bin")
    inside = [chroot, f"--userspec={NOBODY}:{NOBODY}", root, "/usr/bin/headwater"]
    said = subprocess.run([*inside, "--version"], capture_output=True, text=True, env={})
    outside = subprocess.run([program, "--version"], capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (0, outside.stdout), said.stderr
    # Further than the version: what a container is started with.
    done = subprocess.run([*inside, "storage"], capture_output=True, text=True, env={})
    assert "no dataset is configured" in done.stderr


def test_nothing_but_the_program_is_in_the_image(root):
    programs = {
        str(path.relative_to(root))
        for path in root.glob("**/*")
        if path.is_file() and os.access(path, os.X_OK) and ".so" not in path.name
    }
    assert programs == {"usr/bin/headwater"}
    assert not [
        path for path in root.glob("**/*") if path.is_file() and path.stat().st_mode & 0o7022
    ]
    assert (root / "usr/share/doc/headwater/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert f":{NOBODY}:" in (root / "etc" / "passwd").read_text()


def targets():
    """Instructions of the Containerfile by target, the bases' before their own."""
    found = {}
    text = (ROOT / "Containerfile").read_text().replace("\\\n", " ")
    for part in re.split(r"^(?=FROM )", text, flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        _, base, _, name = head.split()
        found[name] = found.get(base, f"FROM {base}\n") + body
    return found


@pytest.mark.parametrize("tier", TIERS)
def test_the_containerfile_makes_the_same_image(tier, images):
    text = targets()[tier]
    image = config(images[tier])
    value = lambda key: re.findall(rf"^{key} (.*)$", text, re.M)[-1]
    assert value("USER") == image["User"] == f"{NOBODY}:{NOBODY}"
    assert json.loads(value("ENTRYPOINT")) == image["Entrypoint"] == ["/usr/bin/headwater"]
    assert json.loads(value("CMD")) == image["Cmd"]
    assert value("ENV") in image["Env"]
    assert dict(re.findall(r'(org\S+)="([^"]*)"', text)) == image["Labels"]
    assert "distroless" in text.partition("\n")[0]


def test_versions_are_those_of_the_tree():
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    channel = tomllib.loads((ROOT / "rust-toolchain.toml").read_text())["toolchain"]["channel"]
    assert f"rust:{channel}-" in targets()["build"].partition("\n")[0]
    assert f'image.version="{workspace["version"]}"' in targets()["storage"]
    images = {
        container["image"]
        for pod in pods(render("minimal"))
        for container in pod["spec"]["containers"]
    }
    assert images == {f"localhost/headwater-{tier}:{workspace['version']}" for tier in TIERS}
