"""Two datasets of photographs, written in the format of each library.

    photos(tars)                 yields the JPEGs of WebDataset tars, in order
    write(folder, tars, formats) writes the datasets `a` and `b`, each in SHARDS shards

A sample has the JPEG as `jpg` and a number as `id`: 0, 1, .. in `a`, and B_BEGINS and up in `b`.
"""

import io
import pathlib
import tarfile

# Two ranks of two workers get equal parts of each.
SHARDS = 8
B_BEGINS = 1_000_000


def photos(tars):
    for tar in tars:
        with tarfile.open(tar) as members:
            for member in members:
                if member.name.endswith(".jpg"):
                    yield members.extractfile(member).read()


def cut(samples):
    """The samples of each shard; what does not fill a shard is left out, so that all have the same number."""
    size = len(samples) // SHARDS
    return [samples[shard * size : (shard + 1) * size] for shard in range(SHARDS)]


def write(folder, tars, formats):
    """The first half of the tars is `a`, the second `b`. Gives the number of samples of each."""
    tars = sorted(tars)
    division = max(1, (len(tars) + 1) // 2)
    counts = {}
    for name, begin, some in [("a", 0, tars[:division]), ("b", B_BEGINS, tars[division:])]:
        samples = [(begin + number, jpeg) for number, jpeg in enumerate(photos(some))]
        shards = cut(samples)
        counts[name] = sum(map(len, shards))
        for format in formats:
            WRITERS[format](pathlib.Path(folder) / name / format, shards)
    return counts


def write_tars(folder, shards):
    folder.mkdir(parents=True)
    for number, samples in enumerate(shards):
        with tarfile.open(folder / f"{number:06}.tar", "w") as tar:
            for id, jpeg in samples:
                info = tarfile.TarInfo(f"{id:08}.jpg")
                info.size = len(jpeg)
                tar.addfile(info, io.BytesIO(jpeg))


def write_mds(folder, shards):
    from streaming import MDSWriter

    # A shard closes when the next sample would exceed the limit.
    limit = max(sum(len(jpeg) + 64 for _, jpeg in samples) for samples in shards)
    with MDSWriter(out=str(folder), columns={"id": "int", "jpg": "bytes"}, size_limit=limit) as writer:
        for samples in shards:
            for id, jpeg in samples:
                writer.write({"id": id, "jpg": jpeg})


def write_parquet(folder, shards):
    import pyarrow
    import pyarrow.parquet

    folder.mkdir(parents=True)
    for number, samples in enumerate(shards):
        ids, jpegs = zip(*samples)
        table = pyarrow.table({"id": pyarrow.array(ids), "jpg": pyarrow.array(jpegs, pyarrow.binary())})
        pyarrow.parquet.write_table(table, folder / f"{number:06}.parquet", row_group_size=100)


def same(sample):
    return sample


def write_litdata(folder, shards):
    import litdata

    samples = [{"id": id, "jpg": jpeg} for samples in shards for id, jpeg in samples]
    litdata.optimize(
        fn=same,
        inputs=samples,
        output_dir=str(folder),
        chunk_size=len(shards[0]),
        num_workers=1,
        keep_data_ordered=True,
        verbose=False,
    )


WRITERS = {"tar": write_tars, "mds": write_mds, "parquet": write_parquet, "litdata": write_litdata}
