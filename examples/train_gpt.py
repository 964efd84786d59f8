"""Trains a tiny GPT on Megatron's token corpora, in Megatron's order; stops and resumes bit for bit.

    python examples/train_gpt.py out/texts.bin --text README.md ARCHITECTURE.md docs/*.md

`data` is a `.bin` file or a list of weights and corpora; see docs/tokens.md. `--text` first writes texts into it, a document each,
a token for each byte.
"""

import struct
from pathlib import Path

import torch
from headwater.integrations.megatron import gpt_loader
from loading import arguments
from torch import nn
from torch.nn import functional as F

#: Ends a document: no byte of a text.
EOD = 0


def parse():
    parser = arguments(__doc__)
    parser.add_argument("--text", type=Path, nargs="+", help="texts to write into `data` first")
    parser.add_argument("--length", type=int, default=64, help="tokens of a sample")
    parser.add_argument("--steps", type=int, default=200, help="step after which this run ends")
    parser.add_argument("--samples", type=int, default=1_000_000, help="samples of the order")
    parser.add_argument("--checkpoint", type=Path, help="file to write at the end, and to continue from if it exists")
    return parser.parse_args()


def write(data, texts):
    """A corpus as Megatron's `preprocess_data.py` writes one: one sequence for each document."""
    documents = [text.read_bytes().replace(b"\0", b"") + bytes([EOD]) for text in texts]
    data.parent.mkdir(parents=True, exist_ok=True)
    data.write_bytes(b"".join(documents))
    lengths = list(map(len, documents))
    begins = [sum(lengths[:at]) for at in range(len(lengths))]
    count = len(lengths)
    head = b"MMIDIDX\0\0" + struct.pack("<QBQQ", 1, 1, count, count + 1)
    numbers = struct.pack(f"<{count}i{count}q{count + 1}q", *lengths, *begins, *range(count + 1))
    data.with_suffix(".idx").write_bytes(head + numbers)


class GPT(nn.Module):
    """Two layers of attention that stays within documents."""

    def __init__(self, length, width=64, vocabulary=256):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(length, width)
        layers = [nn.TransformerEncoderLayer(width, 4, 4 * width, 0.0, batch_first=True, norm_first=True) for _ in range(2)]
        self.layers, self.norm = nn.ModuleList(layers), nn.LayerNorm(width)

    def forward(self, tokens, positions, hidden):
        # One mask for each head.
        hidden = hidden.expand(-1, 4, -1, -1).flatten(0, 1)
        found = self.token(tokens) + self.position(positions)
        for layer in self.layers:
            found = layer(found, src_mask=hidden)
        return self.norm(found) @ self.token.weight.T


def loss_of(model, batch):
    """Cross-entropy of the tokens whose loss counts."""
    found = model(batch["tokens"], batch["position_ids"], batch["attention_mask"])
    each = F.cross_entropy(found.flatten(0, 1), batch["labels"].flatten(), reduction="none")
    counts = batch["loss_mask"].flatten()
    return (each * counts).sum() / counts.sum()


def main():
    options = parse()
    if options.text:
        write(Path(options.data), options.text)
    torch.manual_seed(options.seed)
    model = GPT(options.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    saved = torch.load(options.checkpoint) if options.checkpoint and options.checkpoint.exists() else {"step": 0}
    step = saved["step"]
    if step:
        model.load_state_dict(saved["model"])
        optimizer.load_state_dict(saved["optimizer"])
    services = {"storage": options.storage, "workers": options.workers} if options.storage else {}
    batches = gpt_loader(
        options.data,
        sequence_length=options.length,
        micro_batch_size=options.batch_size,
        samples=options.samples,
        stored="u8",
        eod=EOD,
        reset_position_ids=True,
        reset_attention_mask=True,
        eod_mask_loss=True,
        create_attention_mask=True,
        consumed_samples=step * options.batch_size,
        **services,
    )
    for step, batch in enumerate(batches, step):
        if step >= options.steps:
            break
        loss = loss_of(model, batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step:3}  loss {loss.item():.6f}", flush=True)
    batches.close()
    if options.checkpoint:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, options.checkpoint)


if __name__ == "__main__":
    main()
