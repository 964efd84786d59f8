"""What users of other loaders type, and what a `headwater.Loader` has for it.

The loader's errors and docs/keywords.md are made from these tables: `python tests/docs/keywords.py --write` writes the page.
A text is part of a sentence, in Markdown, and fits in a cell of a table.
"""

from __future__ import annotations

__all__ = ["LOADERS", "MEANINGS", "REFUSED"]

#: Keywords that the loader takes, and what each of them means here.
MEANINGS: dict[str, str] = {
    # PyTorch's DataLoader.
    "shuffle": "`True` is the default; `False` is `shuffle_block=0`",
    "drop_last": '`True` is `epoch_end="drop_last"`, the default; `False` is `epoch_end="short_last"`',
    "num_workers": "`augment_threads=`; without `data`, workers of a cluster have their own `augment.threads`",
    "prefetch_factor": "`window_batches=`, for the whole loader",
    "timeout": "`worker_wait_ms=`, in milliseconds",
    "pin_memory": "no effect: a GPU reads batches where they are; `device=` copies them in advance",
    "persistent_workers": "no effect: services stay between epochs",
    # DALI.
    "random_shuffle": "`True` is the default; `False` is `shuffle_block=0`",
    "num_threads": "`augment_threads=`; without `data`, workers of a cluster have their own `augment.threads`",
    "prefetch_queue_depth": "`window_batches=`",
    "shard_id": "`rank=`; torchrun and SLURM set it",
    "num_shards": "`world_size=`; torchrun and SLURM set it",
    # timm, torchvision's scripts.
    "img_size": "`image_size=`",
    "crop_size": "`image_size=`",
    "scale": "`crop_scale=`",
}

_RECIPE = "`recipe=` has the operations: a preset, a dict, or `headwater.recipe_from(transform)` of torchvision's transforms"
_BATCHES = "batches are made by the recipe, as tensors: change `batch.torch()` in the loop"
_FIRST = "give the path, pattern or URL as the first argument"
_FIELDS = "`image_field=` and `label_field=` name the fields (docs/fields.md)"
_CACHE = "`storage.cache` in headwater.toml has the folders of a storage node's cache (docs/cache.md)"
_MIXED = "`shuffle_block=` is how many shards are mixed"
_EPOCH = '`epoch_end={"steps": N}` is an epoch of N steps; datasets begin again as often as needed'
_LENGTH = "`len(loader)` follows from the data: leave it out"
_RANKS = "`rank=` and `world_size=` are enough: all ranks read all shards"
_LAST = '`epoch_end=` is `"drop_last"` or `"short_last"`; no batch is filled up'
_INDEX = "indices are found next to the shards, or made: leave it out"
_STATE = "`loader.state_dict()` and `loader.load_state_dict(state)` are always there: leave it out"
_NONE = "there is nothing to set here: leave it out"
_DRAWN = "`datasets=[(name, weight), ..]` gives the weights, and the order follows from `seed=`: leave it out"
_CREDENTIALS = "credentials come from the usual variables (docs/sources.md)"
_TRACE = '`loader.trace("out.json")` records what each thread does (docs/traces.md)'

#: Keywords that the loader does not take, and what to do in their place.
REFUSED: dict[str, str] = {
    # PyTorch's DataLoader.
    "dataset": f"{_FIRST}, or the names of a cluster's datasets by `datasets=`",
    "sampler": "`order=` takes the numbers of the samples in order: `order=list(sampler)`, the same for each epoch",
    "batch_sampler": "`order=` takes the numbers of the samples, and `order_groups=` what may share a batch (docs/order.md)",
    "collate_fn": _BATCHES,
    "generator": "`seed=` is what all randomness follows from",
    "worker_init_fn": "there are no worker processes of yours: a function of your own is an operation (docs/own-python.md)",
    "multiprocessing_context": "there are no worker processes of yours: leave it out",
    "pin_memory_device": '`device="cuda:0"` hands batches out on that GPU',
    "in_order": "batches come in order: leave it out",
    # torchvision.
    "root": _FIRST,
    "transform": _RECIPE,
    "transforms": _RECIPE,
    "target_transform": "labels come as the data have them: change `batch.labels.torch()` in the loop",
    "loader": "the recipe decodes the images: leave it out (docs/decoding.md)",
    "is_valid_file": "leave files out by a list of paths, or by `order=` the numbers of the samples",
    "train": f"{_FIRST}: that of the split",
    "split": f"{_FIRST}: that of the split",
    "download": f"{_FIRST}; nothing is downloaded in advance",
    # DALI.
    "device_id": '`device="cuda:0"` hands batches out on that GPU',
    "file_root": _FIRST,
    "file_list": _FIRST,
    "files": _FIRST,
    "path": _FIRST,
    "paths": _FIRST,
    "index_path": _INDEX,
    "index_paths": _INDEX,
    "ext": _FIELDS,
    "features": _FIELDS,
    "initial_fill": _MIXED,
    "shuffle_after_epoch": "each epoch has another order: leave it out",
    "stick_to_shard": _RANKS,
    "pad_last_batch": _LAST,
    "last_batch_policy": _LAST,
    "last_batch_padded": _LAST,
    "fill_last_batch": _LAST,
    "pipelines": _RECIPE,
    "output_map": "tensors have the names of the recipe, such as `batch.images`; `loader.tuples()` gives them without names",
    "size": _LENGTH,
    "reader_name": _LENGTH,
    "auto_reset": "each `for` loop is an epoch, without `reset()`: leave it out",
    "dynamic_shape": "the recipe gives each tensor its shape: leave it out",
    "prepare_first_batch": "batches are made from the start, in advance: leave it out",
    "py_num_workers": "`augment_threads=`; Python functions run on the workers (docs/own-python.md)",
    "exec_async": _NONE,
    "exec_pipelined": _NONE,
    "read_ahead": _NONE,
    "enable_checkpointing": _STATE,
    "hw_decoder_load": '`recipe.hw_decoder_load` with `recipe.decoder = "nvjpeg"`, in headwater.toml',
    # WebDataset.
    "urls": _FIRST,
    "shardshuffle": f"{_MIXED}; 0 shuffles nothing",
    "detshuffle": "the order always follows from `seed=`: leave it out",
    "resampled": _EPOCH,
    "mode": _EPOCH,
    "repeat": "each `for` loop is an epoch: `for epoch in loader.epochs(n)`",
    "handler": '`on_bad_sample=` is `"substitute"`, the default, or `"fail"`',
    "nodesplitter": _RANKS,
    "workersplitter": _RANKS,
    "cache_size": _CACHE,
    "url_to_name": "the cache names its files itself: leave it out",
    "select_files": _FIELDS,
    "rename_files": _FIELDS,
    "empty_check": "a dataset without samples is an error: leave it out",
    "verbose": "the variable `HEADWATER_LOG=info` shows more log lines",
    # LitData.
    "input_dir": _FIRST,
    "cache_dir": _CACHE,
    "max_cache_size": _CACHE,
    "item_loader": f"{_FIRST}: its format is found (docs/formats.md)",
    "serializers": "the format says how fields are read (docs/formats.md): leave it out",
    "subsample": "`order=` takes the numbers of the samples that you want (docs/order.md)",
    "encryption": "encrypted data are not read: decrypt them first",
    "storage_options": _CREDENTIALS,
    "session_options": _CREDENTIALS,
    "max_pre_download": "`storage.shard_prefetch_window` in headwater.toml is how many shards are fetched in advance",
    "force_override_state_dict": "`loader.load_state_dict(state, allow=[..])` names what may differ",
    "batch_decode": _NONE,
    "item_shuffle_window": _MIXED,
    "window_direct_io": _NONE,
    "profile_batches": _TRACE,
    "profile_skip_batches": _TRACE,
    "profile_dir": _TRACE,
    "profile_cprofile": _TRACE,
    # Mosaic Streaming.
    "streams": "`data={name: path, ..}` names several datasets, and `datasets=[(name, weight), ..]` their weights",
    "local": _FIRST,
    "remote": _FIRST,
    "shuffle_seed": "`seed=` is what all randomness follows from",
    "predownload": "`window_batches=` is how many batches are made in advance",
    "num_canonical_nodes": "the order does not depend on the number of nodes: leave it out",
    "download_retry": "`storage.source_retry_ms` in headwater.toml is how long a request is tried again (docs/sources.md)",
    "download_timeout": "`storage.source_timeout_ms` in headwater.toml is the time for one request (docs/sources.md)",
    "validate_hash": "hashes in `index.json` are checked where a shard is unpacked (docs/formats.md): leave it out",
    "keep_zip": "the cache keeps what was unpacked (docs/cache.md): leave it out",
    "epoch_size": _EPOCH,
    "cache_limit": _CACHE,
    "sampling_method": _DRAWN,
    "sampling_granularity": _DRAWN,
    "partition_algo": _RANKS,
    "shuffle_algo": f"{_MIXED}; 0 shuffles nothing",
    "shuffle_block_size": f"{_MIXED}; 0 shuffles nothing",
    "batching_method": "`order_groups=` says what may share a batch (docs/order.md)",
    "allow_unsafe_types": "pickled columns are refused; `columns` of a dataset leaves them out (docs/formats.md)",
    "replication": "`rank=` and `world_size=` are those of data parallelism: equal ranks get equal batches",
    "stream_name": _NONE,
    "stream_config": _NONE,
}

_DATALOADER = (
    *("dataset", "batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory", "drop_last"),
    *("timeout", "worker_init_fn", "multiprocessing_context", "generator", "prefetch_factor", "persistent_workers"),
    *("pin_memory_device", "in_order"),
)
#: The keywords of each loader, in its own order. One that is in neither table is a keyword of `headwater.Loader` too.
LOADERS: dict[str, tuple[str, ...]] = {
    "torch DataLoader": _DATALOADER,
    "DALI": (
        *("batch_size", "num_threads", "device_id", "seed", "prefetch_queue_depth", "py_num_workers", "exec_pipelined"),
        *("exec_async", "enable_checkpointing", "file_root", "file_list", "files", "path", "paths", "index_path", "index_paths"),
        *("ext", "features", "random_shuffle", "initial_fill", "shuffle_after_epoch", "shard_id", "num_shards"),
        *("stick_to_shard", "pad_last_batch", "read_ahead", "hw_decoder_load", "pipelines", "output_map", "size", "reader_name"),
        *("auto_reset", "last_batch_policy", "last_batch_padded", "fill_last_batch", "dynamic_shape", "prepare_first_batch"),
    ),
    "WebDataset": (
        *("urls", "handler", "mode", "resampled", "repeat", "shardshuffle", "cache_size", "cache_dir", "url_to_name"),
        *("detshuffle", "nodesplitter", "workersplitter", "select_files", "rename_files", "empty_check", "verbose", "seed"),
        # WebLoader has those of DataLoader in addition.
        *("batch_size", "num_workers"),
    ),
    "LitData": (
        *("input_dir", "cache_dir", "item_loader", "shuffle", "drop_last", "seed", "serializers", "max_cache_size"),
        *("subsample", "encryption", "storage_options", "session_options", "max_pre_download", "index_path"),
        *("force_override_state_dict", "transform", "num_canonical_nodes", "batch_decode", "item_shuffle_window"),
        *("window_direct_io", "batch_size", "num_workers", "profile_batches", "profile_skip_batches", "profile_dir"),
        *("profile_cprofile", "prefetch_factor", "collate_fn"),
    ),
    "Mosaic Streaming": (
        *("streams", "remote", "local", "split", "download_retry", "download_timeout", "validate_hash", "keep_zip", "epoch_size"),
        *("predownload", "cache_limit", "sampling_method", "sampling_granularity", "partition_algo", "num_canonical_nodes"),
        *("batch_size", "shuffle", "shuffle_algo", "shuffle_seed", "shuffle_block_size", "batching_method", "allow_unsafe_types"),
        # StreamingDataLoader has those of DataLoader in addition.
        *("replication", "stream_name", "stream_config", "num_workers", "drop_last"),
    ),
}
