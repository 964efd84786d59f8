//! What is done to a sample: views, operations, output dtype. Plain data.
//!
//! Two recipes with equal digests give equal bytes; the digest is part of a batch's coordinates.

mod aligned;
mod aligned_targets;
mod boxes;
mod buckets;
mod decoder;
mod dino;
mod dinov3;
mod error;
mod fields;
mod follow;
mod fp8;
mod geometry;
mod imagenet;
mod interpolation;
mod kernels;
mod limits;
mod names;
mod options;
mod orientation;
mod passes;
mod preset;
mod published;
mod python;
mod raw;
mod reserved;
mod scales;
mod scaling;
mod sequences;
mod spec;
mod validate;

pub use aligned::AlignedSpec;
pub use boxes::{BoxFormat, BoxesSpec};
pub use buckets::{BUCKETS_MAX, nearest_bucket};
pub use decoder::{HW_DECODER_LOAD_DEFAULT, JpegDecoder};
pub use dinov3::Dinov3;
pub use error::RecipeError;
pub(crate) use error::wrong;
pub use fields::{
    AnyFloat, FIELD_BYTES_MAX, FieldKeys, FieldKind, FieldSpec, FieldTensor, JsonSpec, JsonValue,
    KeyValue, PackSpec, SequenceSpec, TokensSpec,
};
pub use fp8::{DelayedScaling, FP8_E4M3_MAX, Fp8Scaling, MX_BLOCK};
pub use geometry::GeometrySpec;
pub use imagenet::{IMAGENET_MEAN, IMAGENET_STD};
pub use interpolation::Interpolation;
pub use limits::DecodeLimits;
pub use names::PRESETS;
pub use options::PresetOptions;
pub use orientation::ExifOrientation;
pub use passes::ResizePasses;
pub use python::PythonFunction;
pub use raw::{RAW_BYTES_MAX, RawSpec};
pub use scaling::DecodeScaling;
pub use sequences::SequencesSpec;
pub use spec::{BaseSpec, BucketsSpec, CropSpec, Recipe, TensorSpec, ViewSpec};
