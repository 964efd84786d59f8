"""torchtitan's Flux, on the processor: its own step, tokenizers, encoders and model, with its own loader or with Headwater's.

Not its Trainer itself, which needs an accelerator: its `forward_backward_step` is called, and checkpoints are torch's.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import json
import os
import sys
import tempfile
import types
import warnings
from pathlib import Path

# No hub is asked, and nothing is written to the home folder.
os.environ |= {"HF_HUB_OFFLINE": "1", "HF_HOME": tempfile.gettempdir() + "/headwater-torchtitan", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}

import torch
import torch.distributed.checkpoint as dcp
from torchtitan.components.loss import MSELoss
from torchtitan.distributed.utils import set_spmd_backend
from torchtitan.models import flux
from torchtitan.models.flux import flux_datasets
from torchtitan.models.flux.model.autoencoder import AutoEncoder
from torchtitan.models.flux.model.hf_embedder import FluxEmbedder
from torchtitan.models.flux.tokenizer import FluxTokenizerContainer
from torchtitan.models.flux.trainer import FluxTrainer
from transformers import CLIPTokenizer, T5Tokenizer

from .figures import BATCH, EPOCHS, Log
from .photos import SAMPLES

SIDE, WIDTH, HEADS, LENGTH = 64, 32, 2, 32
STEPS_OF_EPOCH = SAMPLES // BATCH
DROPOUT = 0.447
# The models are tiny, and loaders have threads of their own.
torch.set_num_threads(1)
# Of a model without a mesh of ranks.
set_spmd_backend("partial_dtensor")


def described(number: int, label: int) -> str:
    return f"a photo of class {label}, number {number}"


@functools.cache
def parts(folder: str) -> FluxTokenizerContainer:
    """Tokenizers with a sign for each character, and the configurations of encoders, in a folder."""
    t5, clip = Path(folder) / "t5", Path(folder) / "clip"
    signs = [chr(code) for code in range(33, 127)]
    words = {sign: number for number, sign in enumerate([*signs, *(f"{sign}</w>" for sign in signs), "<|startoftext|>", "<|endoftext|>"])}
    CLIPTokenizer(vocab=words, merges=[]).save_pretrained(clip)
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -2.0), *((sign, -3.0) for sign in signs)]
    T5Tokenizer(vocab=pieces, extra_ids=0).save_pretrained(t5)
    size = {"num_heads": HEADS, "d_model": WIDTH, "d_kv": WIDTH // HEADS, "d_ff": WIDTH, "num_layers": 1, "vocab_size": len(pieces)}
    (t5 / "config.json").write_text(json.dumps({"model_type": "t5", **size}))
    size = {"hidden_size": WIDTH, "intermediate_size": WIDTH, "num_hidden_layers": 1, "num_attention_heads": HEADS, "vocab_size": len(words)}
    size |= {"eos_token_id": len(words) - 1, "bos_token_id": len(words) - 2, "pad_token_id": len(words) - 1}
    (clip / "config.json").write_text(json.dumps({"model_type": "clip_text_model", **size}))
    config = FluxTokenizerContainer.Config(t5_tokenizer_path=str(t5), clip_tokenizer_path=str(clip), max_t5_encoding_len=LENGTH)
    return config.build()


def create(kind: str, data: str, tokenizer, dp_rank: int = 0, dp_world_size: int = 1, batch: int = BATCH, options=None, **settings):
    """The same call of either `FluxDataLoader.Config`, which the Trainer builds like this. `data` is a folder of shards."""
    from headwater.integrations import torchtitan

    settings = {"dataset_path": data, "prompt_dropout_prob": DROPOUT, "img_size": SIDE, **settings}
    if kind == "upstream":
        config = flux_datasets.FluxDataLoader.Config(**settings)
    else:
        config = torchtitan.FluxDataLoader.Config(**settings, options={"embedded": "threads", **(options or {})})
    ranks = {"dp_rank": dp_rank, "dp_world_size": dp_world_size}
    return config.build(**ranks, tokenizer=tokenizer, seq_len=LENGTH, local_batch_size=batch, snapshot_every_n_steps=1)


def close(loader) -> None:
    if hasattr(loader, "close"):
        loader.close()


def network():
    """The debug model, smaller."""
    config, heads = flux._flux_debug(), {"hidden_size": WIDTH, "num_heads": HEADS, "mlp_ratio": 2.0}
    axes = (4, 6, 6)

    def embedder(of):
        layers = {"in_layer": dataclasses.replace(of.in_layer, out_features=WIDTH)}
        layers["out_layer"] = dataclasses.replace(of.out_layer, in_features=WIDTH, out_features=WIDTH)
        return dataclasses.replace(of, hidden_dim=WIDTH, **layers)

    vector = embedder(config.vector_in_config)
    vector = dataclasses.replace(vector, in_dim=WIDTH, in_layer=dataclasses.replace(vector.in_layer, in_features=WIDTH))
    last = config.final_layer_config
    last = dataclasses.replace(
        last,
        hidden_size=WIDTH,
        linear=dataclasses.replace(last.linear, in_features=WIDTH),
        adaln_linear=dataclasses.replace(last.adaln_linear, in_features=WIDTH, out_features=2 * WIDTH),
    )
    config = dataclasses.replace(
        config,
        **heads,
        vec_in_dim=WIDTH,
        context_in_dim=WIDTH,
        depth=1,
        depth_single_blocks=1,
        axes_dim=axes,
        img_in=dataclasses.replace(config.img_in, out_features=WIDTH),
        txt_in=dataclasses.replace(config.txt_in, in_features=WIDTH, out_features=WIDTH),
        pe_config=dataclasses.replace(config.pe_config, dim=sum(axes), axes_dim=axes),
        time_in_config=embedder(config.time_in_config),
        vector_in_config=vector,
        final_layer_config=last,
        double_blocks=[flux._make_double_block_config(**heads, qkv_bias=True)],
        single_blocks=[flux._make_single_block_config(**heads)],
    )
    model = config.build()
    model.init_states()
    return model


class Steps:
    """What `FluxTrainer` has in its steps, without ranks."""

    def __init__(self, folder: Path, seed: int) -> None:
        self.tokenizer = parts(str(folder))
        # Encoders are given; the seed is the training's.
        torch.manual_seed(0)
        size = {"resolution": SIDE, "ch": 32, "ch_mult": (1, 1, 1, 1), "num_res_blocks": 1, "z_channels": 16}
        encoder = AutoEncoder.Config(**size, in_channels=3, out_ch=3, scale_factor=0.3611, shift_factor=0.1159).build()
        t5, clip = (FluxEmbedder.Config(version=str(folder / name), random_init=True).build() for name in ("t5", "clip"))
        torch.manual_seed(seed)
        self.model = network()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-3)
        self._trainer = types.SimpleNamespace(
            device=torch.device("cpu"),
            _dtype=torch.float32,
            autoencoder=encoder.eval().requires_grad_(False),
            t5_encoder=t5,
            clip_encoder=clip,
            parallel_dims=types.SimpleNamespace(dp_enabled=False, cp_enabled=False, cp=1),
            model_parts=[self.model],
            ntokens_seen=0,
            config=types.SimpleNamespace(training=types.SimpleNamespace(seq_len=LENGTH + (SIDE // 16) ** 2)),
            train_context=contextlib.nullcontext,
            loss_fn=MSELoss(MSELoss.Config()),
        )

    def __call__(self, batch) -> float:
        inputs, labels = batch
        self.optimizer.zero_grad()
        loss = FluxTrainer.forward_backward_step(self._trainer, input_dict=dict(inputs), labels=labels)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 2.0)
        self.optimizer.step()
        return loss.item()


def losses(kind: str, data: str, seed: int, steps: int) -> list[float]:
    with tempfile.TemporaryDirectory() as scratch:
        step = Steps(Path(scratch), seed)
        loader = create(kind, data, step.tokenizer, **({"seed": seed} if kind == "headwater" else {}))
        found = [step(batch) for _, batch in zip(range(steps), loader)]
        close(loader)
    return found


def save(states: dict, path: Path) -> None:
    """As `CheckpointManager` does it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save(states, checkpoint_id=str(path))


def load(states: dict, path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.load(states, checkpoint_id=str(path))


class Trained:
    """The steps of a training that are in its checkpoint."""

    def __init__(self) -> None:
        self.steps = 0

    def state_dict(self) -> dict:
        return {"step": torch.tensor(self.steps)}

    def load_state_dict(self, state: dict) -> None:
        self.steps = int(state["step"])


def train(kind: str, data: str, out: Path, kill_after: int) -> None:
    """As many steps as two epochs have; a prompt is a photograph."""
    step, log, trained = Steps(out / f"parts-{kill_after}", 0), Log(out, kill_after), Trained()
    loader = create(kind, data, step.tokenizer)
    states = {"dataloader": loader, "model": step.model, "train_state": trained}
    if not kill_after:
        load(states, max((out / "checkpoint").iterdir(), key=lambda path: int(path.name)))
    for batch in loader:
        step(batch)
        trained.steps += 1
        epoch = (trained.steps - 1) // STEPS_OF_EPOCH
        log.trained(epoch, list(batch[0]["prompt"]), lambda: save(states, out / "checkpoint" / str(trained.steps)))
        if trained.steps == STEPS_OF_EPOCH * EPOCHS:
            break
    close(loader)


if __name__ == "__main__":
    train(sys.argv[1], sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]))
