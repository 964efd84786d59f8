"""What needs a GPU and one process: one_rank.py nccl|float8 SHARD

nccl: `verify_interconnect` over NCCL with one rank. float8: a batch's elements as Transformer Engine's `Float8Tensor`, used
once. Exits with 77 where a package or the GPU is missing, and names it.
"""

import sys

try:
    import headwater
    import torch
    from headwater import fp8
    from headwater.distributed import slurm_init, verify_interconnect
except ImportError as missing:
    print(f"NOT RUN: {missing}")
    sys.exit(77)


def nccl(_shard):
    if not torch.distributed.is_nccl_available():
        print("NOT RUN: this PyTorch has no NCCL")
        sys.exit(77)
    environment = slurm_init()
    assert environment.backend == "nccl" and environment.world_size == 1, environment
    found = verify_interconnect()
    assert found.verdict == "ok" and not found.corrupt_ranks, found
    nccl_version = ".".join(map(str, torch.cuda.nccl.version()))
    print(f"NCCL {nccl_version}, one rank on {environment.device}: {found.nbytes >> 20} MiB in {1e3 * found.seconds:.2f} ms, sums right")
    torch.distributed.destroy_process_group()


def float8(shard):
    if not fp8.transformer_engine_is_here():
        print("NOT RUN: transformer_engine is not installed")
        sys.exit(77)
    import transformer_engine

    recipe = {"preset": "dinov2", "dtype": "fp8_e4m3"}
    with headwater.Loader(shard, embedded="threads", batch_size=4, recipe=recipe) as loader:
        crops = next(iter(loader)).global_crops
        elements, scale_inv = crops.torch().cuda(), crops.scale_inv
        made = fp8.to_transformer_engine(crops)
        # To the last bit: one product in f32 for each element.
        values = elements.float() * scale_inv
        assert type(made).__name__ == "Float8Tensor" and made.shape == elements.shape, made
        assert torch.equal(made.dequantize(), values), "other values than elements times scale"
        weights = torch.randn(8, values.shape[-1], device="cuda")
        product, expected = (torch.nn.functional.linear(one, weights) for one in (made, values))
        assert torch.allclose(product, expected), "another product"
    print(f"Transformer Engine {transformer_engine.__version__}: a Float8Tensor of {tuple(made.shape)}, its values equal, a product close")


if not torch.cuda.is_available():
    print("NOT RUN: this PyTorch has no GPU")
    sys.exit(77)
{"nccl": nccl, "float8": float8}[sys.argv[1]](sys.argv[2])
