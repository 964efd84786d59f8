"""Says which of Debian's packages files come from, with their licences, as an image has to.

Scanners for vulnerable packages look for the same: for `os-release`, and for packages in `var/lib/dpkg/status.d`.
"""

import re
import shutil
import subprocess
from pathlib import Path

# By these, scanners and NVIDIA's container runtime know a Debian.
RELEASE = ("usr/lib/os-release", "etc/debian_version")


def texts(sysroot: Path, files: "list[Path]") -> "tuple[dict[str, bytes], list[Path]]":
    """Texts by their path within an image, and those of the files that no package is known to have."""
    # Packages of cross-compilers lie in folders of this machine, which has the list of them.
    root = sysroot if (sysroot / "var/lib/dpkg/status").exists() else Path("/")
    found = {path: (sysroot / path).read_bytes() for path in RELEASE if (sysroot / path).exists()}
    if not shutil.which("dpkg-query"):
        return found, files
    query = ["dpkg-query", f"--admindir={root / 'var/lib/dpkg'}"]
    owners, unknown = {}, []
    names = {path: spellings(path.resolve(), root.resolve()) for path in files}
    said = subprocess.run([*query, "--search", *(name for both in names.values() for name in both)], capture_output=True, text=True).stdout
    packages = dict(reversed(match) for match in re.findall(r"^(\S+): (/.*)$", said, re.M))
    for path, both in names.items():
        package = next((packages[name] for name in both if name in packages), None)
        owners.update({package: path} if package else {})
        unknown += [] if package else [path]
    for package in owners:
        status = subprocess.run([*query, "--status", package], check=True, capture_output=True).stdout
        name = package.partition(":")[0]
        found[f"var/lib/dpkg/status.d/{name}"] = status
        copyright = root / "usr/share/doc" / name / "copyright"
        if copyright.exists():
            found[f"usr/share/doc/{name}/copyright"] = copyright.read_bytes()
    return found, unknown


def spellings(path: Path, root: Path) -> tuple[str, str]:
    """Both names of a file in a system whose `/lib` is `/usr/lib`: its package was made with either."""
    name = f"/{path.relative_to(root)}" if path.is_relative_to(root) else str(path)
    return name, name.removeprefix("/usr") if name.startswith("/usr/") else f"/usr{name}"
