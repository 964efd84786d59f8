"""The lines that each page changes in its repository, as they are applied to a checkout."""

from __future__ import annotations

import types
from dataclasses import dataclass

from . import upstreams


@dataclass(frozen=True)
class Edit:
    """A line of a page. `new` takes the place of `old`, which a file has once; `is_added` says that `old` stays before it."""

    file: str
    old: str
    new: str
    is_added: bool = False
    #: Only with Headwater; the others are checkpoints that upstream does not write in mid-epoch.
    is_ours: bool = True


_MID = '"model": getattr(model, "module", model).state_dict(), "optimizer": optimizer.state_dict(), "epoch": epoch'
_OWN = '"scaler": loss_scaler.state_dict()'
_LOADER = ', "loader": data_loader.state_dict()'

EDITS = {
    "dinov2": [
        Edit(
            "dinov2/train/train.py",
            "from dinov2.train.ssl_meta_arch import SSLMetaArch\n",
            "from headwater.integrations.dinov2 import make_data_loader, make_dataset\n",
            is_added=True,
        ),
        Edit("dinov2/train/train.py", "seed=start_iter,", "seed=cfg.train.seed,"),
        Edit("dinov2/train/train.py", "sampler_advance=0,", "sampler_advance=start_iter * cfg.train.batch_size_per_gpu,"),
    ],
    "dinov3": [
        Edit(
            "dinov3/train/train.py",
            "from dinov3.train.ssl_meta_arch import SSLMetaArch\n",
            "from headwater.integrations.dinov3 import CombinedDataLoader, make_data_loader, make_dataset\n",
            is_added=True,
        ),
        Edit("dinov3/train/train.py", "seed=cfg.train.seed + start_iter + 1,", "seed=cfg.train.seed,"),
    ],
    "mae": [
        Edit("main_pretrain.py", "import models_mae\n", "from headwater.integrations.mae import DataLoader\n", is_added=True),
        Edit("main_pretrain.py", "data_loader_train = torch.utils.data.DataLoader(", "data_loader_train = DataLoader("),
        Edit(
            "engine_pretrain.py",
            "torch.cuda.synchronize()\n",
            f'        if data_iter_step % 1000 == 999: misc.save_on_master({{{_MID}, {_OWN}{_LOADER}}}, f"{{args.output_dir}}/mid.pth")\n',
            is_added=True,
            is_ours=False,
        ),
        Edit(
            "main_pretrain.py",
            "misc.load_model(args=args, model_without_ddp=model_without_ddp, optimizer=optimizer, loss_scaler=loss_scaler)\n",
            '    if args.resume.endswith("mid.pth"): args.start_epoch = data_loader_train.resume(torch.load(args.resume)["loader"])\n',
            is_added=True,
        ),
        Edit(
            "engine_pretrain.py",
            "enumerate(metric_logger.log_every(data_loader, print_freq, header))",
            "enumerate(metric_logger.log_every(data_loader, print_freq, header), data_loader.step)",
        ),
    ],
    "ijepa": [
        Edit(
            "src/train.py",
            "from src.datasets.imagenet1k import make_imagenet1k",
            "from headwater.integrations.ijepa import make_imagenet1k",
        ),
        Edit("src/train.py", "'epoch': epoch,\n", "            'loader': unsupervised_loader.state_dict(),\n", is_added=True),
        Edit(
            "src/train.py",
            "            log_stats()\n",
            "            if itr % 1000 == 999: save_checkpoint(epoch)\n",
            is_added=True,
            is_ours=False,
        ),
        Edit(
            "src/train.py",
            "            scaler=scaler)\n",
            "        start_epoch = unsupervised_loader.resume(torch.load(load_path)['loader'])\n",
            is_added=True,
        ),
        Edit("src/train.py", "range(start_epoch*ipe)", "range(start_epoch*ipe + unsupervised_loader.step)"),
    ],
}


def applied(name: str, file: str, is_ours: bool = True, saved_every: int = 1000) -> types.CodeType:
    """A file of a checkout with the lines of its page, or only with the checkpoints of mid-epoch."""
    path = upstreams.folder(name) / file
    text = path.read_text()
    for edit in EDITS[name]:
        if edit.file != file or (edit.is_ours and not is_ours):
            continue
        assert text.count(edit.old) == 1, f"{file} of {name} has {text.count(edit.old)} times: {edit.old}"
        new = edit.new if is_ours else edit.new.replace(_LOADER, "")
        text = text.replace(edit.old, edit.old + new if edit.is_added else new)
    return compile(text.replace("% 1000 == 999", f"% {saved_every} == {saved_every - 1}"), str(path), "exec")


def module(name: str, file: str, **others) -> types.ModuleType:
    """A module of such a file."""
    made = types.ModuleType(file.removesuffix(".py").replace("/", "."))
    made.__file__ = str(upstreams.folder(name) / file)
    exec(applied(name, file, **others), made.__dict__)
    return made
