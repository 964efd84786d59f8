"""A training script as it is written for dino_loader: only the import of the loader differs.

usage: dino_train.py OUT STOP_AFTER. Ends after STOP_AFTER steps as a job that is lost; 0: never. Writes to OUT what
each rank was given, and the model's and the loader's checkpoints.
"""

import hashlib
import json
import os
import sys
import time
from pathlib import Path

import torch
from headwater.dino import DatasetSpec, DINOAugConfig, DINODataLoader, LoaderConfig, slurm_init
from torch import distributed

EPOCHS, STEPS, EVERY = 2, 12, 5
OUT, STOP_AFTER = Path(sys.argv[1]), int(sys.argv[2])

env = slurm_init()
specs = [
    DatasetSpec("photos", shards=["/data/photos-000001.tar"], weight=0.7),
    DatasetSpec("others", shards=["/data/photos-000003.tar"], weight=0.3),
]
loader = DINODataLoader(
    specs=specs,
    batch_size=2,
    aug_cfg=DINOAugConfig(global_crop_size=32, local_crop_size=16, n_local_crops=3),
    config=LoaderConfig(checkpoint_dir=str(OUT / "dl"), checkpoint_every_steps=EVERY, seed=11),
    device_id=env.local_rank,
    steps_per_epoch=STEPS,
    resume=True,
)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def loss_of(batch):
    crops = batch.global_crops + batch.local_crops
    return sum(model(crop.float().mean((2, 3))).pow(2).mean() for crop in crops)


def digest(batch):
    crops = batch.global_crops + batch.local_crops
    elements = [crop.contiguous().view(torch.uint8).numpy().tobytes() for crop in crops]
    return hashlib.sha256(b"".join(elements)).hexdigest()


def be_lost():
    """Ends at once, as by SIGKILL, when all ranks are through with the step."""
    (OUT / f"lost-{env.rank}").touch()
    while len(list(OUT.glob("lost-*"))) < env.world_size:
        time.sleep(0.01)
    os._exit(9)


def main():
    saved = OUT / "model.pt"
    start_epoch = torch.load(saved)["epoch"] if saved.exists() else 0
    taken = 0
    with (OUT / f"taken-{env.rank}").open("a", buffering=1) as log:
        for epoch in range(start_epoch, EPOCHS):
            loader.set_epoch(epoch)
            for step, batch in enumerate(loader):
                optimizer.zero_grad()
                loss_of(batch).backward()
                optimizer.step()
                print(json.dumps([epoch, digest(batch), batch.labels.tolist()]), file=log)
                loader.checkpoint(step)
                if step % EVERY == 0 and env.rank == 0:
                    torch.save({"epoch": epoch, "model": model.state_dict()}, saved)
                taken += 1
                if taken == STOP_AFTER:
                    be_lost()
    distributed.destroy_process_group()


main()
