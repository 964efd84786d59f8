"""Makes the shard, the tokenizers and the expected values of this folder.

    pip install numpy==2.2.6 tokenizers==0.22.2
    python tests/data/fields/make.py

Every value in expected.json comes from numpy, Python's json or the package `tokenizers`: none from Headwater. The
images are the smallest of tests/data/photos. The shard is the same each time; the vocabularies of BERT's and CLIP's
tokenizers may differ from one time to the next, as their training breaks ties by chance, and expected.json with them.
"""

import io
import json
import tarfile
from pathlib import Path

import numpy
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

HERE = Path(__file__).parent
PHOTOS = HERE.parent / "photos"
SAMPLES = 24
LENGTH = 12
CLASSES = 7
COLOURS = ["red", "green", "blue", "grün", "赤い", "🟣 violet"]
THINGS = ["dog", "cat's toy", "house", "tree, and a bird", "Straße", "l'été"]
HOSTILE = ["", " ", "a" * 500, "ab " * 300, "\u200b\ufeff\x00", "Ǆ ﬃ ①", "👩‍👩‍👧‍👦" * 9, "<|endoftext|> [MASK]", "12345 3.14"]


def caption(number: int) -> str:
    """A caption; some are cut by the tokenizers' length."""
    colour, thing = COLOURS[number % 6], THINGS[number * 5 % 6]
    return f"a photo of a {colour} {thing}" + " far away, at night" * (number % 4)


def train(kind: str) -> Tokenizer:
    """A tokenizer as CLIP, GPT-2 and BERT have theirs, of a small vocabulary."""
    texts = [caption(number) for number in range(200)]
    if kind == "bert":
        made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
        made.normalizer = normalizers.BertNormalizer(lowercase=True)
        made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
        made.train_from_iterator(texts, trainers.WordPieceTrainer(vocab_size=160, special_tokens=special, show_progress=False))
        made.post_processor = processors.TemplateProcessing(
            single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
        )
        made.enable_padding(pad_id=0, pad_token="[PAD]")
        return made
    suffix = "</w>" if kind == "clip" else None
    if kind == "clip":
        made = Tokenizer(models.BPE(unk_token="<|endoftext|>", end_of_word_suffix=suffix, continuing_subword_prefix=""))
        made.normalizer = normalizers.Sequence(
            [normalizers.NFC(), normalizers.Replace(_regex(r"\s+"), " "), normalizers.Lowercase()]
        )
        words = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
        made.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Split(_regex(words), "removed", invert=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
        special = ["<|startoftext|>", "<|endoftext|>"]
    else:
        made = Tokenizer(models.BPE())
        made.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        special = ["<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    options = {"end_of_word_suffix": suffix} if suffix else {}
    trainer = trainers.BpeTrainer(
        vocab_size=360, special_tokens=special, initial_alphabet=alphabet, show_progress=False, **options
    )
    made.train_from_iterator(texts, trainer)
    made.decoder = decoders.ByteLevel()
    if kind == "clip":
        made.post_processor = processors.RobertaProcessing(
            sep=("<|endoftext|>", 1), cls=("<|startoftext|>", 0), trim_offsets=False, add_prefix_space=False
        )
    else:
        made.post_processor = processors.ByteLevel(trim_offsets=False)
    return made


def _regex(pattern: str):
    from tokenizers import Regex

    return Regex(pattern)


def encoded(made: Tokenizer, text: str, pad: int) -> list[list[int]]:
    """Ids and mask, cut and padded by the package."""
    own = made.padding
    made.enable_truncation(LENGTH)
    made.enable_padding(length=LENGTH, pad_id=pad)
    found = made.encode(text)
    made.no_truncation()
    made.no_padding()
    if own is not None:
        made.enable_padding(pad_id=own["pad_id"], pad_token=own["pad_token"])
    return [found.ids, found.attention_mask]


def npy(array: numpy.ndarray) -> bytes:
    """The array as a file."""
    file = io.BytesIO()
    numpy.save(file, array)
    return file.getvalue()


def npz(compressed: bool, **arrays: numpy.ndarray) -> bytes:
    """Arrays as an archive."""
    file = io.BytesIO()
    (numpy.savez_compressed if compressed else numpy.savez)(file, **arrays)
    return file.getvalue()


def photos() -> list[bytes]:
    """The smallest of the project's photographs."""
    found = []
    with tarfile.open(PHOTOS / "photos-000000.tar") as shard:
        for member in shard:
            if member.name.lower().endswith((".jpg", ".jpeg")):
                found.append(shard.extractfile(member).read())
    return sorted(found, key=len)[:SAMPLES]


def main() -> None:
    """Writes all files."""
    made = {kind: train(kind) for kind in ("bert", "clip", "gpt2")}
    for kind, tokenizer in made.items():
        (HERE / f"{kind}-tokenizer.json").write_text(tokenizer.to_str(pretty=False), "utf-8")
    pads = {"bert": 0, "clip": 1, "gpt2": 0}
    texts = [caption(number) for number in range(SAMPLES)] + HOSTILE
    tokens = {kind: [encoded(made[kind], text, pads[kind]) for text in texts] for kind in made}
    random = numpy.random.default_rng(7)
    samples, shard = [], tarfile.open(HERE / "fields.tar", "w", format=tarfile.USTAR_FORMAT)
    images = photos()
    for number in range(SAMPLES):
        box = random.normal(size=(2, 3)).astype(numpy.float32)
        latent = random.integers(-9, 9, size=(4, 2), dtype=numpy.int16)
        boxes = [[round(value, 3) for value in row] for row in random.random((2, 4)).tolist()]
        document = {
            "caption": caption(number), "width": number * 7, "score": number / 7, "good": number % 3 == 0,
            "deep": [{"boxes": boxes}],
        }
        classes = sorted({number % CLASSES, number * 3 % CLASSES})
        order = [numpy.asarray, numpy.asfortranarray][number % 2]
        stored = box.astype(">f4") if number % 3 == 0 else box
        fields = {
            "jpg": images[number],
            "cls": str(number % 5).encode(),
            "txt": caption(number).encode(),
            "json": json.dumps(document, ensure_ascii=number % 2 == 0).encode(),
            "score": repr(number / 3).encode(),
            "count": f" {number * 11 - 50}\n".encode(),
            "box.npy": npy(order(stored)),
            "latent.npz": npz(number % 2 == 0, latent=latent, other=numpy.zeros(3)),
            "tags": (" ".join(map(str, classes)) if number % 2 else json.dumps(classes)).encode(),
            "blob": bytes(random.integers(0, 256, size=number, dtype=numpy.uint8)),
        }
        if number % 4 == 3:
            del fields["count"]
        for name, content in fields.items():
            info = tarfile.TarInfo(f"{number:04}.{name}")
            info.size = len(content)
            shard.addfile(info, io.BytesIO(content))
        hot = [int(one in classes) for one in range(CLASSES)]
        samples.append({
            "key": f"{number:04}", "caption": caption(number), "count": number * 11 - 50 if "count" in fields else -1,
            "score": numpy.float32(number / 3).item(), "score64": number / 3, "width": number * 7,
            "json_score": numpy.float32(number / 7).item(), "good": document["good"],
            "boxes": numpy.asarray(boxes, numpy.float32).tolist(), "box": box.tolist(), "latent": latent.tolist(),
            "tags": hot, "blob": list(fields["blob"]),
        })
    shard.close()
    expected = {"texts": texts, "tokens": tokens, "pads": pads, "length": LENGTH, "classes": CLASSES, "samples": samples}
    (HERE / "expected.json").write_text(json.dumps(expected, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
