"""Images made without a container engine, and the Containerfile that makes the same with one."""

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
from pathlib import Path

import pytest

from conftest import ROOT, pods, render

sys.path.insert(0, str(ROOT / "scripts"))
import elf
import image as packer

TIERS = ["storage", "augment", "receiver"]
IMAGES = [*TIERS, "augment-rdma", "augment-cuda", "receiver-rdma"]
NOBODY = 65532
SYSTEM = "/usr/sbin:/usr/bin:/sbin:/bin"
# What exists where `scripts/install-system.sh tests` has put it.
ARM = "aarch64-linux-gnu"
ARM_LIBRARIES = Path("/usr", ARM, "lib")
EMULATOR = shutil.which("qemu-aarch64-static")


class Made:
    """Images of one program, each made when it is first asked for."""

    def __init__(self, program, folder):
        self.program, self.folder = program, folder
        self.toolkit = None

    def cuda(self):
        """NVRTC and nvJPEG from PyPI."""
        if self.toolkit is None:
            script = [ROOT / "scripts" / "install-cuda.sh", Path(sys.prefix, "bin", "uv"), self.folder / "cuda", "libraries"]
            done = subprocess.run(script, capture_output=True, text=True)
            if done.returncode == 77:
                pytest.skip(f"SKIP: {done.stderr}")
            assert done.returncode == 0, done.stderr
            self.toolkit = done.stdout.strip()
        return self.toolkit

    def archive(self, image):
        archive = self.folder / f"{image}.tar"
        if not archive.exists():
            done = pack(image, self.program, "--out", archive, *self.more(image))
            if "install libibverbs1" in done.stderr:
                pytest.skip(f"SKIP: {done.stderr}")
            assert done.returncode == 0, done.stderr
        return archive

    def more(self, image):
        return ["--cuda", self.cuda()] if image.endswith("-cuda") else []

    def root(self, image):
        """The file system of a container, as nobody there may change it."""
        folder = self.folder / f"root-{image}"
        if not folder.exists():
            archive = self.archive(image)
            folder.mkdir(mode=0o755)
            with tarfile.open(archive) as files, tarfile.open(fileobj=layer(files)) as content:
                content.extractall(folder, filter="fully_trusted")
        return folder


@pytest.fixture(scope="module")
def images(program, tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    folder.chmod(0o755)
    return Made(program, folder)


def pack(image, program, *more):
    command = [sys.executable, ROOT / "scripts" / "image.py", image, "--binary", program, *more]
    return subprocess.run(command, capture_output=True, text=True)


def blob(archive, digest):
    return archive.extractfile("blobs/" + digest.replace(":", "/")).read()


def docker(archive):
    return json.loads(archive.extractfile("manifest.json").read())[0]


def layer(archive):
    return archive.extractfile(docker(archive)["Layers"][0])


def config(path):
    with tarfile.open(path) as archive:
        return json.loads(archive.extractfile(docker(archive)["Config"]).read())


def inside(root, *command):
    """Runs a command in an unpacked image, as a container does."""
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    chroot = shutil.which("chroot", path=SYSTEM)
    command = [chroot, f"--userspec={NOBODY}:{NOBODY}", root, *command]
    return subprocess.run(command, capture_output=True, text=True, env={})


@pytest.mark.parametrize("image", ["augment", "augment-cuda"])
def test_both_indices_lead_to_the_same_image_and_digests_hold(image, images):
    with tarfile.open(images.archive(image)) as archive:
        for name in archive.getnames():
            if name.startswith("blobs/"):
                digest = hashlib.sha256(archive.extractfile(name).read()).hexdigest()
                assert name == f"blobs/sha256/{digest}"
        (entry,) = json.loads(archive.extractfile("index.json").read())["manifests"]
        manifest = json.loads(blob(archive, entry["digest"]))
        content = json.loads(blob(archive, manifest["config"]["digest"]))
        assert json.loads(archive.extractfile(docker(archive)["Config"]).read()) == content
        (packed,) = manifest["layers"]
        assert content["rootfs"]["diff_ids"] == [packed["digest"]]
        assert docker(archive)["Layers"] == ["blobs/" + packed["digest"].replace(":", "/")]
        assert docker(archive)["RepoTags"] == [entry["annotations"]["io.containerd.image.name"]]
        assert content["architecture"] == entry["platform"]["architecture"]
        assert content["architecture"] == {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()]


def test_the_same_inputs_make_the_same_bytes(images, tmp_path):
    again = tmp_path / "again.tar"
    done = pack("augment", images.program, "--out", again)
    assert done.returncode == 0, done.stderr
    assert again.read_bytes() == images.archive("augment").read_bytes()


def test_the_program_runs_in_the_image_as_an_ordinary_user(images):
    said = inside(images.root("augment"), "/usr/bin/headwater", "--version")
    outside = subprocess.run([images.program, "--version"], capture_output=True, text=True)
    assert (said.returncode, said.stdout) == (0, outside.stdout), said.stderr
    assert outside.stdout.split()[1] == config(images.archive("augment"))["config"]["Labels"]["org.opencontainers.image.version"]
    # Further than the version: what a container is started with.
    done = inside(images.root("augment"), "/usr/bin/headwater", "storage")
    assert "no dataset is configured" in done.stderr


@pytest.mark.parametrize("image, opened", [
    ("augment", set()), ("augment-rdma", {"libibverbs", "ucx"}), ("augment-cuda", {"libibverbs", "ucx", "nvrtc", "nvjpeg"}),
])
def test_the_program_opens_the_libraries_of_links_and_gpus_in_their_images(image, opened, images):
    said = inside(images.root(image), "/usr/bin/headwater", "doctor").stdout
    found = set(re.findall(r"^ok +(libibverbs|ucx|nvrtc|nvjpeg): ", said, re.M))
    assert found == opened, said


@pytest.mark.parametrize("image", ["augment", "augment-cuda"])
def test_every_library_of_an_image_loads_there(image, images):
    root = images.root(image)
    loader = "/" + elf.read(images.program).interpreter.lstrip("/")
    libraries = [path for path in root.glob("usr/**/*.so*") if "ld-linux" not in path.name]
    assert len(libraries) > 2
    for path in libraries:
        said = inside(root, loader, "--list", "/" + str(path.relative_to(root)))
        assert said.returncode == 0 and "not found" not in said.stdout, said.stdout + said.stderr


def test_the_compiler_of_kernels_finds_its_other_half(images):
    (compiler,) = images.root("augment-cuda").glob("usr/**/libnvrtc.so.*")
    (other,) = set(re.findall(rb"libnvrtc-builtins\.so[.0-9]*[0-9]", compiler.read_bytes()))
    assert (compiler.parent / other.decode()).is_file()


def test_a_driver_with_two_names_stays_one_file(images):
    """As two files it would be loaded twice, and UCX would not know the devices that libibverbs opened by the other one."""
    (library,) = images.root("augment-rdma").glob("usr/**/libmlx5.so.1")
    (driver,) = library.parent.glob("libibverbs/libmlx5-*.so")
    assert library.samefile(driver)


@pytest.mark.parametrize("image", ["augment", "augment-cuda"])
def test_nothing_but_the_program_is_in_the_image(image, images):
    root = images.root(image)
    files = [path for path in root.glob("**/*") if path.is_file()]
    programs = {
        str(path.relative_to(root)) for path in files if os.access(path, os.X_OK) and ".so" not in path.name
    }
    assert programs == {"usr/bin/headwater"}
    assert not [path for path in files if path.stat().st_mode & 0o7022]
    assert (root / "usr/share/doc/headwater/LICENSE").read_bytes() == (ROOT / "LICENSE").read_bytes()
    assert f":{NOBODY}:" in (root / "etc" / "passwd").read_text()


def test_an_image_names_the_packages_in_it_and_has_their_licences(images):
    if not shutil.which("dpkg-query"):
        pytest.skip("SKIP: no dpkg here: an image has no packages of the system")
    root = images.root("augment-cuda")
    packages = sorted((root / "var/lib/dpkg/status.d").iterdir())
    assert {"libc6", "libgcc-s1", "libibverbs1", "ibverbs-providers", "libucx0"} <= {path.name for path in packages}
    for path in packages:
        installed = subprocess.run(["dpkg-query", "-W", "-f", "${Version}", path.name], check=True, capture_output=True, text=True).stdout
        assert f"\nVersion: {installed.strip()}\n" in path.read_text()
        licence = Path("usr/share/doc", path.name, "copyright")
        assert (root / licence).read_bytes() == ("/" / licence).read_bytes()
    for package in ("nvidia_cuda_nvrtc", "nvidia_nvjpeg"):
        assert "License" in (root / "usr/share/doc" / package / "License.txt").read_text()
    assert (root / "usr/lib/os-release").read_bytes() == Path("/usr/lib/os-release").read_bytes()


def test_the_program_is_stripped(images):
    """Symbols and tables for debuggers are five sixths of what a release build makes."""
    program = images.root("augment") / "usr/bin/headwater"
    sections = lambda path: subprocess.run(["readelf", "--wide", "-S", path], check=True, capture_output=True, text=True).stdout
    assert ".symtab" in sections(images.program)
    assert not re.findall(r" \.(symtab|debug\S*) ", sections(program))
    assert program.stat().st_size < images.program.stat().st_size


# === Which libraries ===


def test_headers_are_read_as_readelf_reads_them(images):
    libraries = elf.Sysroot(elf.read(images.program).processor).complete(images.program, {})
    assert len(libraries) > 3
    for path in (images.program, *libraries.values()):
        said = subprocess.run(["readelf", "--wide", "-d", "-l", path], check=True, capture_output=True, text=True).stdout
        found = elf.read(path)
        assert list(found.needed) == re.findall(r"\(NEEDED\) .*\[(.*)\]", said)
        assert [found.interpreter] == (re.findall(r"program interpreter: (.*)\]", said) or [""])


def test_libraries_are_those_of_the_loader(images):
    said = subprocess.run(["ldd", images.program], check=True, capture_output=True, text=True).stdout
    expected = {Path(path).name for path in re.findall(r"(/\S+) \(0x", said)}
    found = elf.Sysroot(elf.read(images.program).processor).complete(images.program, {})
    assert {Path(path).name for path in found} == expected


def test_what_is_missing_is_named(images, tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    done = pack("augment", images.program, "--out", tmp_path / "none.tar", "--sysroot", empty)
    assert done.returncode != 0 and f"{empty} has no /lib" in done.stderr
    done = pack("augment-rdma", images.program, "--out", tmp_path / "none.tar", "--sysroot", empty)
    assert done.returncode != 0 and "install libibverbs1, ibverbs-providers and libucx0" in done.stderr
    done = pack("augment-cuda", images.program, "--out", tmp_path / "none.tar")
    assert done.returncode != 0 and "--cuda goes with augment-cuda" in done.stderr
    done = pack("augment", ROOT / "LICENSE", "--out", tmp_path / "none.tar")
    assert done.returncode != 0 and "is not an ELF file" in done.stderr


# === Another processor ===

# Says its version, as a program of all its libraries that does nothing else.
ARM_PROGRAM = """
    .section .rodata
said: .string "headwater of arm64"
    .text
    .global _start
_start:
    adrp x0, said
    add x0, x0, :lo12:said
    bl puts
    mov w0, 0
    bl exit
"""


@pytest.fixture
def arm_program(tmp_path):
    if not shutil.which(f"{ARM}-ld") or not ARM_LIBRARIES.is_dir():
        pytest.skip(f"SKIP: binutils-{ARM} or libc6-arm64-cross is missing; scripts/install-system.sh tests installs them")
    (tmp_path / "program.s").write_text(ARM_PROGRAM)
    subprocess.run([f"{ARM}-as", "-g", "-o", "program.o", "program.s"], cwd=tmp_path, check=True)
    needed = [ARM_LIBRARIES / name for name in ("libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6")]
    linked = ["-o", "program", "-dynamic-linker", "/lib/ld-linux-aarch64.so.1", "--no-as-needed", "program.o", *needed]
    subprocess.run([f"{ARM}-ld", *linked], cwd=tmp_path, check=True)
    return tmp_path / "program"


@pytest.fixture
def arm_images(arm_program, tmp_path):
    tmp_path.chmod(0o755)
    return Made(arm_program, tmp_path)


def test_an_image_is_for_the_processor_of_its_program(arm_images):
    with tarfile.open(arm_images.archive("storage")) as archive:
        (entry,) = json.loads(archive.extractfile("index.json").read())["manifests"]
        assert entry["platform"] == {"architecture": "arm64", "os": "linux"}
        with tarfile.open(fileobj=layer(archive)) as content:
            binaries = [member for member in content if member.isfile() and (".so" in member.name or "/bin/" in member.name)]
            machines = {content.extractfile(member).read()[18:20] for member in binaries}
    assert config(arm_images.archive("storage"))["architecture"] == "arm64"
    # The program, the loader, libc, libm, libgcc_s and libstdc++. 183 is EM_AARCH64.
    assert (len(binaries), machines) == (6, {b"\xb7\0"})


def test_libraries_of_another_processor_are_refused(arm_images, images):
    done = pack("storage", arm_images.program, "--out", arm_images.folder / "none.tar", "--sysroot", "/")
    assert done.returncode != 0 and "/ has no /lib/ld-linux-aarch64.so.1" in done.stderr
    with pytest.raises(SystemExit, match="is for x86_64, the program for aarch64"):
        elf.Sysroot(elf.read(arm_images.program).processor).complete(arm_images.program, {"usr/lib/opened.so": images.program})


def test_an_image_of_another_processor_starts(arm_images):
    if not EMULATOR:
        pytest.skip("SKIP: qemu-aarch64-static is missing; scripts/install-system.sh tests installs it")
    root = arm_images.root("storage")
    shutil.copy(EMULATOR, root)
    said = inside(root, "/qemu-aarch64-static", "/usr/bin/headwater")
    assert (said.returncode, said.stdout) == (0, "headwater of arm64\n"), said.stderr


# === The Containerfile ===


def stages():
    """Instructions of the Containerfile by stage, the bases' before their own."""
    found = {}
    text = (ROOT / "Containerfile").read_text().replace("\\\n", " ")
    for part in re.split(r"^(?=FROM )", text, flags=re.M)[1:]:
        head, _, body = part.partition("\n")
        _, base, _, name = head.split()
        found[name] = found.get(base, f"FROM {base}\n") + body
    return found


@pytest.mark.parametrize("image", IMAGES)
def test_the_containerfile_makes_the_same_image(image):
    text = stages()[image]
    content = json.loads(packer.config(image, packer.version(), "amd64", "sha256:"))["config"]
    value = lambda key: re.findall(rf"^{key} (.*)$", text, re.M)[-1]
    assert value("USER") == content["User"] == f"{NOBODY}:{NOBODY}"
    assert json.loads(value("ENTRYPOINT")) == content["Entrypoint"] == ["/usr/bin/headwater"]
    assert json.loads(value("CMD")) == content["Cmd"]
    assert " ".join(re.findall(r"^ENV (.*)$", text, re.M)).split() == content["Env"]
    assert dict(re.findall(r'(org\S+)="([^"]*)"', text)) == content["Labels"]
    assert text.startswith("FROM scratch\n")
    # The files are laid out by the same script, for an image with the same libraries.
    ((stage, tree),) = re.findall(r"^COPY --from=(\S+) (\S+)/ /$", text, re.M)
    (like,) = re.findall(rf"scripts/image.py (\S+) --binary /out/headwater --tree {tree}\s", stages()[stage])
    assert like.partition("-")[2] == image.partition("-")[2]


def test_bases_of_the_containerfile_are_pinned():
    bases = {text.partition("\n")[0] for text in stages().values()} - {"FROM scratch"}
    assert bases and all(re.search(r"@sha256:[0-9a-f]{64}$", base) for base in bases), bases


def test_a_tree_has_the_files_of_the_archive(images, tmp_path):
    archive, tree = images.archive("augment-rdma"), tmp_path / "tree"
    assert pack("augment-rdma", images.program, "--tree", tree).returncode == 0
    found = {}
    for path in tree.glob("**/*"):
        state = path.lstat()
        kind = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path.relative_to(tree))] = (kind, None if path.is_symlink() else state.st_mode & 0o7777, state.st_uid)
    expected = {}
    with tarfile.open(archive) as files, tarfile.open(fileobj=layer(files)) as content:
        for member in content:
            kind = member.linkname if member.issym() else content.extractfile(member).read() if member.isfile() else None
            owner = member.uid if os.geteuid() == 0 else os.getuid()
            expected[member.name] = (kind, None if member.issym() else member.mode, owner)
    assert found == expected
    assert expected["home/headwater"] == (None, 0o700, NOBODY if os.geteuid() == 0 else os.getuid())


def test_versions_are_those_of_the_tree():
    workspace = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    channel = tomllib.loads((ROOT / "rust-toolchain.toml").read_text())["toolchain"]["channel"]
    assert f"rust:{channel}-" in stages()["build"].partition("\n")[0]
    assert f'image.version="{workspace["version"]}"' in stages()["storage"]
    images = {
        container["image"]
        for pod in pods(render("minimal"))
        for container in pod["spec"]["containers"]
    }
    assert images == {f"localhost/headwater-{tier}:{workspace['version']}" for tier in TIERS}
