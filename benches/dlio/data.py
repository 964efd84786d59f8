"""Makes the datasets that `measure.py` reads, as DLIO names their files.

Photographs are copies of those in a folder, or in tars of it, as JPEG or PNG. Arrays are made by DLIO itself; each of its files is there several
times under other names (hard links), because no reader looks at what others have read.
"""

import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).resolve().parent


def photographs(folder):
    """The bytes of the JPEGs in a folder, and in the tars in it."""
    for path in sorted(Path(folder).rglob("*")):
        if path.suffix == ".tar":
            with tarfile.open(path) as archive:
                for member in archive:
                    if member.name.endswith((".jpg", ".jpeg")):
                        yield archive.extractfile(member).read()
        elif path.suffix.lower() in (".jpg", ".jpeg"):
            yield path.read_bytes()


def images(folder, kind, count, source):
    """Writes photographs as `count` files of DLIO's names."""
    train = folder / "train"
    train.mkdir(parents=True)
    (folder / "valid").mkdir()
    encoded = list(photographs(source))
    if not encoded:
        sys.exit(f"no .jpg in {source} or in a tar in it")
    if kind == "png":
        for number, one in enumerate(encoded):
            file = io.BytesIO()
            Image.open(io.BytesIO(one)).convert("RGB").save(file, "PNG")
            encoded[number] = file.getvalue()
    digits = len(str(count))
    for number in range(count):
        (train / f"img_{number:>0{digits}}_of_{count}.{kind}").write_bytes(encoded[number % len(encoded)])


def arrays(folder, workload, kind, count, different, environment):
    """Has DLIO generate `different` files, and names each of them several times."""
    made = folder.with_name(f"{folder.name}-made")
    command = [sys.executable, "-m", "dlio_benchmark.main", "--config-dir", str(HERE), f"workload={workload}"]
    command += [f"hydra.run.dir={made}-log", f"++workload.dataset.data_folder={made}", f"++workload.dataset.num_files_train={different}"]
    command += ["++workload.workflow.generate_data=true", "++workload.workflow.train=false"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    sources = sorted((made / "train").glob(f"*.{kind}"))
    if len(sources) != different:
        sys.exit(f"DLIO made {len(sources)} files in place of {different}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    train = folder / "train"
    train.mkdir(parents=True)
    (folder / "valid").mkdir()
    digits = len(str(count))
    for number in range(count):
        os.link(sources[number % different], train / f"img_{number:>0{digits}}_of_{count}.{kind}")
