//! The doors through which bytes come in from outside. Each takes any bytes, and either refuses
//! them or holds to what it promised; a panic, an endless loop or memory without bound is a fault.
//!
//! Used by the fuzz targets, and by `tests/fuzz_corpora.rs`, which replays what they have found.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use headwater_config::{Loaded, Sources, show};
use headwater_core::recipe::ExifOrientation;
use headwater_core::sampler::{Order, Sampler, SamplerConfig, State, Term};
use headwater_core::{Digest, Dtype, Layout, Manifest, Recipe, ShardEntry, TensorLayout};
use headwater_discovery::Places;
use headwater_proto::augment::{FromWorker, ToWorker};
use headwater_proto::storage::{
    EncodedSample, ReadQuery, ShardPlace, ShardPlan, ShardQuery, StorageWelcome,
};
use headwater_proto::v1::{self, Message as _};
use headwater_receiver::{OrderArrays, OrderConfig, ReceiverConfig, order_list as order_list_of};
use headwater_render::RenderError;
use headwater_render::decode::{DecodeLimits, Decoder, Levels};
use headwater_render::part::PartPlan;
use headwater_render::tokenizers::Tokenizers;
use headwater_storage::{FormatKind, InspectedShard, count_samples, fuzz_entry};
use headwater_storage_client::FieldSelection;

#[path = "../src/tenbin/mod.rs"]
mod tenbin;

/// Large images would make the fuzzer slow, not find more.
const PIXELS_MAX: u64 = 1 << 20;

/// A folder of this process that is removed with it.
fn folder(name: &str) -> PathBuf {
    let memory = PathBuf::from("/dev/shm");
    let parent = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let folder = parent.join(format!("headwater-doors-{name}-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    folder
}

/// A tar archive as a shard: scanned, each sample read, its index written and read again.
pub(crate) fn shard(bytes: &[u8]) {
    let folder = folder("shard");
    let path = folder.join("a.tar");
    let _ = fs::remove_file(folder.join("a.idx"));
    fs::write(&path, bytes).expect("a file");
    if let Ok(inspected) = InspectedShard::open(&path) {
        let samples = inspected.shard().index().samples();
        for index in 0..samples {
            let read = inspected.shard().read(&[index], &FieldSelection::all());
            let read = read.expect("a sample that the scan found");
            assert!(read[0].bytes() <= bytes.len() as u64, "more bytes than there are");
        }
        if inspected.fault().is_none() && samples > 0 {
            fs::write(folder.join("a.idx"), inspected.dali_idx()).expect("a file");
            if inspected.check_idx().is_ok() {
                let counted = count_samples(&path).expect("a shard with its own index");
                assert_eq!(counted.samples, u64::from(samples), "the index counts otherwise");
            }
        }
    }
    let _ = fs::remove_dir_all(folder);
}

/// Any bytes as the index of a good shard.
pub(crate) fn idx(bytes: &[u8]) {
    let folder = folder("idx");
    let path = folder.join("a.tar");
    fs::write(&path, include_bytes!("corpus/shard/three-samples.tar")).expect("a shard");
    fs::write(folder.join("a.idx"), bytes).expect("an index");
    let inspected = InspectedShard::open(&path).expect("a good shard");
    let fits = inspected.check_idx();
    let counted = count_samples(&path).expect("a good shard");
    if fits.is_ok() {
        assert_eq!(counted.samples, 3, "an index that fits has the shard's samples");
    }
    let _ = fs::remove_dir_all(folder);
}

/// What a shard may unpack to: more than a good file of the sizes that are tried.
const UNPACKED_BYTES_MAX: u64 = 16 << 20;

/// A file of Parquet: its footer, and the pages that this leads to.
pub(crate) fn parquet_footer(bytes: &[u8]) {
    let folder = folder("parquet");
    let path = folder.join("a.parquet");
    fs::write(&path, bytes).expect("a file");
    let _ = fuzz_entry(&path, FormatKind::Parquet, UNPACKED_BYTES_MAX);
    let _ = fs::remove_dir_all(folder);
}

/// A file of TFRecord, compressed or not.
pub(crate) fn tfrecord(bytes: &[u8]) {
    let folder = folder("tfrecord");
    let path = folder.join("a.tfrecord");
    fs::write(&path, bytes).expect("a file");
    if let Ok(samples) = fuzz_entry(&path, FormatKind::TfRecord, UNPACKED_BYTES_MAX) {
        assert!(samples > 0, "a file without records is refused");
    }
    let _ = fs::remove_dir_all(folder);
}

/// A file in a folder of its own, read as a format.
fn read_file(name: &str, bytes: &[u8], format: FormatKind) {
    let folder = folder(&name.replace('.', "-"));
    let path = folder.join(name);
    fs::write(&path, bytes).expect("a file");
    let _ = fuzz_entry(&path, format, UNPACKED_BYTES_MAX);
    let _ = fs::remove_dir_all(folder);
}

/// A file of NumPy: an array, or a zip archive of arrays.
pub(crate) fn npy(bytes: &[u8]) {
    read_file("a.npy", bytes, FormatKind::Npy);
}

/// A sample's field of each kind in turn; the first byte says which kind.
pub(crate) fn fields(bytes: &[u8]) {
    static PLANS: OnceLock<Vec<PartPlan>> = OnceLock::new();
    let plans = PLANS.get_or_init(|| {
        let tokenizer =
            PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/fields/clip-tokenizer.json"));
        let fuzzed = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/fields/clip-tokenizer.json"));
        let path = if tokenizer.exists() { tokenizer } else { fuzzed };
        let tokenizers = Tokenizers::open(std::slice::from_ref(&path)).expect("a tokenizer");
        let sha256 = tokenizers.sha256(&path).expect("one").to_owned();
        let kinds = [
            serde_json::json!({"kind": "int"}),
            serde_json::json!({"kind": "float"}),
            serde_json::json!({"kind": "json", "path": "", "as": "array", "dtype": "i32", "shape": [2, 3]}),
            serde_json::json!({"kind": "json", "path": "/a/0", "as": "text", "truncate": true}),
            serde_json::json!({"kind": "npy", "dtype": "i16", "shape": [2, 3]}),
            serde_json::json!({"kind": "npz", "member": "a", "dtype": "f32", "shape": [2, 3]}),
            serde_json::json!({"kind": "multi_hot", "classes": 9}),
            serde_json::json!({"kind": "bytes"}),
            serde_json::json!({"kind": "text", "truncate": true, "bytes_max": 7}),
            serde_json::json!({"kind": "sequence", "length": 3, "eod": 0, "dtype": "i32", "reset_attention_mask": true}),
            serde_json::json!({"kind": "tokens", "sha256": sha256, "length": 9}),
        ];
        let plan = |mut keys: serde_json::Value| {
            keys["name"] = serde_json::json!("f");
            let mut recipe = Recipe::preset("imagenet-eval", Dtype::U8).expect("a preset");
            recipe.fields = vec![serde_json::from_value(keys).expect("a field")];
            recipe.validate().expect("a recipe");
            PartPlan::new(Arc::new(recipe)).tokenizing(&tokenizers).expect("its tokenizer")
        };
        kinds.into_iter().map(plan).collect()
    });
    let Some((kind, bytes)) = bytes.split_first() else { return };
    let plan = &plans[usize::from(*kind) % plans.len()];
    let sibling = [Some(bytes.to_vec().into())];
    let read = plan.fields().read(&sibling);
    match &read {
        Ok(rows) => {
            let tensors = plan.recipe().field_tensors();
            let len: u64 = tensors.map(|tensor| tensor.row_bytes().expect("a size")).sum();
            assert_eq!(rows.len() as u64, len, "bytes of the rows");
        }
        Err(error) => assert!(matches!(error, RenderError::Bad(_)), "no verdict: {error}"),
    }
    assert!(read == plan.fields().read(&sibling), "another answer the second time");
}

/// A file that is the order of samples: numbers, or weights of samples.
pub(crate) fn order_list(bytes: &[u8]) {
    let folder = folder("order-list");
    let path = folder.join("order");
    fs::write(&path, bytes).expect("a file");
    let listed = |order: OrderConfig| {
        let order = OrderConfig { order: Order::List, ..order };
        ReceiverConfig { order, ..ReceiverConfig::default() }
    };
    let weights = listed(OrderConfig { order_weights: path.clone(), ..OrderConfig::default() });
    let numbers = listed(OrderConfig { order_list: path, ..OrderConfig::default() });
    for config in [numbers, weights] {
        if let Ok(list) = order_list_of(&config, OrderArrays::default()) {
            let again = order_list_of(&config, OrderArrays::default()).expect("the same file");
            let digests = [list, again].map(|list| list.expect("a list").digest());
            assert_eq!(digests[0], digests[1], "one file, two lists");
        }
    }
    let _ = fs::remove_dir_all(folder);
}

/// A file of HDF5.
pub(crate) fn hdf5(bytes: &[u8]) {
    read_file("a.h5", bytes, FormatKind::Hdf5);
}

/// Lines; the first byte says of what kind.
pub(crate) fn lines(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 4 {
        0 => read_file("a.csv", bytes, FormatKind::Csv),
        1 => read_file("a.tsv", bytes, FormatKind::Tsv),
        2 => read_file("a.jsonl", bytes, FormatKind::Jsonl),
        _ => read_file("a.txt", bytes, FormatKind::Text),
    }
}

/// Any bytes as the metadata of good chunks of Zarr, of both versions.
pub(crate) fn zarr_metadata(bytes: &[u8]) {
    const SHARDED: &[u8] =
        include_bytes!("../tests/data/formats/arrays/zarr/v3-sharded.zarr/c/0/0/0");
    const LZ4: &[u8] = include_bytes!("../tests/data/formats/arrays/zarr/v2-lz4.zarr/0.0.0");
    for (metadata, chunk, content) in [("zarr.json", "c/0/0/0", SHARDED), (".zarray", "0.0.0", LZ4)]
    {
        let folder = folder("zarr");
        let chunk = folder.join(chunk);
        fs::create_dir_all(chunk.parent().expect("a folder")).expect("a folder");
        fs::write(chunk, content).expect("a chunk");
        fs::write(folder.join(metadata), bytes).expect("metadata");
        let _ = fuzz_entry(&folder, FormatKind::Zarr, UNPACKED_BYTES_MAX);
        let _ = fs::remove_dir_all(folder);
    }
}

/// Any bytes as the index of good tokens.
pub(crate) fn tokens_idx(bytes: &[u8]) {
    const TOKENS: &[u8] = include_bytes!("../tests/data/formats/arrays/tokens/short.bin");
    let folder = folder("tokens");
    fs::write(folder.join("a.bin"), TOKENS).expect("tokens");
    fs::write(folder.join("a.idx"), bytes).expect("an index");
    if let Ok(samples) = fuzz_entry(&folder.join("a.bin"), FormatKind::Tokens, 0) {
        assert!(samples < TOKENS.len() as u64, "more sequences than bytes");
    }
    let _ = fs::remove_dir_all(folder);
}

/// Any bytes as the index of good shards of MDS.
pub(crate) fn mds_index(bytes: &[u8]) {
    let folder = folder("mds");
    let shards: [(&str, &[u8]); 2] = [
        ("shard.00001.mds", include_bytes!("../tests/data/formats/mds/raw/shard.00001.mds")),
        (
            "shard.00001.mds.zstd",
            include_bytes!("../tests/data/formats/mds/zstd/shard.00001.mds.zstd"),
        ),
    ];
    for (name, shard) in shards {
        fs::write(folder.join(name), shard).expect("a shard");
    }
    fs::write(folder.join("index.json"), bytes).expect("an index");
    if let Ok(samples) = fuzz_entry(&folder, FormatKind::Mds, UNPACKED_BYTES_MAX) {
        assert!(samples > 0, "an index without samples is refused");
    }
    let _ = fs::remove_dir_all(folder);
}

/// Messages of both protocols; the first byte says which.
pub(crate) fn message(bytes: &[u8]) {
    let Some((kind, bytes)) = bytes.split_first() else { return };
    match kind % 8 {
        0 => drop(v1::ToWorker::decode(bytes).map(ToWorker::try_from)),
        1 => drop(v1::FromWorker::decode(bytes).map(FromWorker::try_from)),
        2 => drop(v1::ReadRequest::decode(bytes).map(ReadQuery::try_from)),
        3 => drop(v1::Sample::decode(bytes).map(EncodedSample::try_from)),
        4 => drop(v1::LocateRequest::decode(bytes).map(ShardQuery::try_from)),
        5 => drop(v1::LocateReply::decode(bytes).map(ShardPlace::try_from)),
        6 => drop(v1::PrefetchRequest::decode(bytes).map(ShardPlan::try_from)),
        _ => drop(v1::StorageWelcome::decode(bytes).map(StorageWelcome::try_from)),
    }
}

/// A checkpoint: taken over by a sampler, whatever differs, and walked on from.
pub(crate) fn state(bytes: &[u8]) {
    let Ok(state) = serde_json::from_slice::<State>(bytes) else { return };
    let shard = |i: u32| ShardEntry {
        name: format!("{i}.tar"),
        samples: 7 + i,
        bytes: 1 << 20,
        digest: Digest(i.into()),
    };
    let manifest = |name: &str| Manifest::new(name.into(), Vec::new(), (0..5).map(shard).collect());
    let manifests = ["a", "b"].map(|name| Arc::new(manifest(name).expect("a manifest")));
    let config = SamplerConfig::new(1, 2, 0, 3);
    let mut sampler = Sampler::new(config, manifests.to_vec()).expect("a sampler");
    let allow = [
        Term::Seed,
        Term::Order,
        Term::ShuffleBlock,
        Term::GlobalBatch,
        Term::WorldSize,
        Term::EpochEnd,
        Term::Weights,
        Term::Manifest,
        Term::Recipe,
    ];
    let Ok(restored) = sampler.restore(&state, &allow) else { return };
    if let Ok(batch) = sampler.batch(restored.epoch, restored.step) {
        assert!(!batch.samples.is_empty() && batch.samples.len() <= 3, "{}", batch.samples.len());
        sampler.state(restored.epoch, restored.step).expect("the state of a batch that there is");
    }
}

/// Images of every format, also turned, and masks, within small bounds.
pub(crate) fn image(bytes: &[u8]) {
    let limits = DecodeLimits { pixels_max: PIXELS_MAX, jpeg_scans_max: 20 };
    let mut decoder = Decoder::new(limits).expect("a decoder");
    // Twice: what is left of a broken image must not change the next.
    let first = decoder.decode(bytes).map(|image| (image.extent(), image.pixels()));
    let again = decoder.decode(bytes).map(|image| (image.extent(), image.pixels()));
    assert!(first == again, "the same bytes decode to other pixels the second time");
    if let Ok((extent, pixels)) = &first {
        let extent = *extent;
        assert_eq!(decoder.header(bytes), Ok(extent), "what is decoded has a header");
        let area = u64::from(extent.width) * u64::from(extent.height);
        assert!(area <= PIXELS_MAX && pixels.len() as u64 == 3 * area, "{extent:?}");
    }
    let applied = ExifOrientation::Apply;
    let raw = Recipe { exif_orientation: applied, decode_limits: limits, ..Recipe::raw(1) };
    decoder.follow(&raw).expect("a decoder");
    let turned = decoder.decode(bytes).map(|image| image.pixels().len());
    assert_eq!(turned.ok(), first.as_ref().ok().map(|(_, pixels)| pixels.len()), "turned");
    let mut levels = Levels::default();
    let mut read =
        || levels.decode(bytes, &limits).map(|()| (levels.extent(), levels.values().to_vec()));
    let (first, again) = (read(), read());
    assert_eq!(first, again, "a mask is what its bytes are");
    if let Ok((extent, values)) = first {
        assert_eq!(values.len() as u64, u64::from(extent.width) * u64::from(extent.height));
    }
}

/// A recipe as it travels: refused, or one that a batch can be laid out for.
pub(crate) fn recipe(bytes: &[u8]) {
    let Ok(recipe) = serde_json::from_slice::<Recipe>(bytes) else { return };
    if recipe.validate().is_err() {
        return;
    }
    let layout = Layout::new(&recipe, 2);
    let regions = layout.part_regions(0, 2);
    assert!(regions.iter().all(|r| r.offset_bytes + r.len_bytes <= layout.len_bytes()));
    let json = serde_json::to_vec(&recipe).expect("plain data");
    let again: Recipe = serde_json::from_slice(&json).expect("what was written");
    assert_eq!(again.digest(), recipe.digest(), "another recipe after writing and reading");
}

/// Messages of every data link.
pub(crate) fn frame(bytes: &[u8]) {
    headwater_transport::links::take_any(bytes);
}

/// A configuration file: refused, or one that means the same when it is written and read again.
pub(crate) fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    // Lists of addresses come from files and variables too.
    let _ = Places::parse(&[text]);
    let read = |text: &str| Loaded::read(&Sources::text("fuzz.toml", text));
    let Ok(loaded) = read(text) else { return };
    let config = &loaded.config;
    if config.validate().is_err() {
        return;
    }
    let receiver = &config.receiver;
    assert!(
        receiver.window.slots_limit() > receiver.window.window_batches as usize,
        "no slot for the trainer"
    );
    let written = show(&loaded);
    let again = read(&written).expect("what was written");
    assert!(again.config == *config, "another configuration after writing and reading:\n{written}");
}

/// One tensor of any shape and type, as Tensorcom's clients get it: what is read back as their
/// `tenbin.py` reads it is what was put in.
pub(crate) fn tensorcom(bytes: &[u8]) {
    let [dtype, dims, samples, wide, rest @ ..] = bytes else { return };
    let dtypes = [
        Dtype::F32,
        Dtype::F16,
        Dtype::Bf16,
        Dtype::Fp8E4m3,
        Dtype::Mxfp8E4m3,
        Dtype::E8m0,
        Dtype::U8,
        Dtype::I64,
        Dtype::Bool,
        Dtype::F64,
        Dtype::I8,
        Dtype::I16,
        Dtype::I32,
        Dtype::U16,
        Dtype::U32,
    ];
    let dtype = dtypes[usize::from(*dtype) % dtypes.len()];
    let Some((shape, rest)) = rest.split_at_checked(usize::from(dims % 5)) else { return };
    let row_shape: Vec<u32> = shape.iter().map(|dim| u32::from(dim % 8)).collect();
    let row_bytes =
        row_shape.iter().map(|dim| u64::from(*dim)).product::<u64>() * dtype.size_bytes();
    let samples = u32::from(samples % 4);
    let name = String::from_utf8_lossy(&rest[..rest.len().min(12)]).into_owned();
    let tensor = TensorLayout {
        name,
        dtype,
        is_image: false,
        views: 1,
        row_shape,
        offset_bytes: 0,
        row_bytes,
    };
    let data: Vec<u8> = rest
        .iter()
        .chain(&[0; 8])
        .copied()
        .cycle()
        .take((row_bytes * u64::from(samples)) as usize)
        .collect();
    let shape = tensor.shape(samples);
    let Ok(chunk) = tenbin::chunk(&tensor, samples, data.clone(), wide % 2 == 1) else {
        assert!(dtype == Dtype::I64 && wide % 2 == 0, "{dtype:?} is refused");
        return;
    };
    let chunks: [tenbin::Chunk; 2] = [chunk, tenbin::scale_inv(0.5)];
    let (frame, mut file) = (tenbin::in_one_frame(&chunks), Vec::new());
    tenbin::write_framed(&chunks, &mut file).expect("memory takes it");
    assert!(file == frame, "a file differs from a frame");
    let parts = unframed(&frame);
    let [header, body, scale_header, scale] = parts[..] else { panic!("{} parts", parts.len()) };
    let number = |at: usize| i64::from_le_bytes(header[at..at + 8].try_into().expect("a number"));
    assert_eq!(number(16), shape.len() as i64);
    let told: Vec<u64> = (0..shape.len()).map(|dim| number(24 + 8 * dim) as u64).collect();
    assert_eq!(told, shape);
    assert_eq!(header.len(), 24 + 8 * shape.len());
    let width = usize::from(header[1] - b'0');
    assert_eq!(body.len() as u64, shape.iter().product::<u64>() * width as u64);
    match &header[..2] {
        b"i4" if dtype == Dtype::I64 => {
            let wide = body.as_chunks::<4>().0.iter().map(|n| i64::from(i32::from_le_bytes(*n)));
            assert!(wide.flat_map(i64::to_le_bytes).eq(data), "other numbers");
        }
        _ => assert!(body == data, "other bytes"),
    }
    assert_eq!((&scale_header[..2], scale), (&b"f4"[..], &0.5_f32.to_le_bytes()[..]));
}

/// A `.ten` file, or a message of Tensorcom's in one frame or in two: refused, or tensors that fit it.
pub(crate) fn ten(bytes: &[u8]) {
    let fits = |tensors: Vec<tenbin::Tensor>| {
        for tenbin::Tensor { code, shape, data, .. } in tensors {
            let width: u64 = code[1..].parse().expect("a width");
            assert_eq!(
                shape.iter().product::<u64>() * width,
                data.len() as u64,
                "{code} {shape:?}"
            );
        }
    };
    let _ = tenbin::tensors_of_message(&[bytes]).map(fits);
    let [cut, rest @ ..] = bytes else { return };
    let (header, data) = rest.split_at(rest.len().min((*cut).into()));
    let _ = tenbin::tensors_of_message(&[header, data]).map(fits);
}

/// The chunks of a frame, as Tensorcom takes it apart.
fn unframed(mut frame: &[u8]) -> Vec<&[u8]> {
    let mut parts = Vec::new();
    while !frame.is_empty() {
        assert_eq!(&frame[..8], b"~TenBin~");
        let len = i64::from_le_bytes(frame[8..16].try_into().expect("a length")) as usize;
        parts.push(&frame[16..16 + len]);
        frame = &frame[16 + len.next_multiple_of(64)..];
    }
    parts
}
