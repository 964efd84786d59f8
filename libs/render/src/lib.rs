//! One sample through a recipe: decoded, augmented, cast, to its row of a part.
//!
//! `decode` turns encoded bytes into pixels, libs/pixels holds the operations of a recipe, `render` takes one sample
//! through all of it. `extra_fields` reads what lies beside an image, `part` puts samples where a batch has them, `backend`
//! is what may render them instead of the processor.
//!
//! Pure functions of their arguments that keep their memory. Deliberately absent: tiers, leases, threads, sockets; which
//! samples make a batch, and where their bytes come from.
#![deny(unsafe_code)]

pub mod backend;
pub mod decode;
mod error;
pub mod extra_fields;
mod metrics;
pub mod part;
pub mod python;
mod render;
pub mod tokenizers;

pub use error::{BadImage, FieldFault, RenderError};
pub use metrics::{JPEG_IMAGES, describe_metrics};
pub use render::{
    AlignedTargets, BoxPart, Draws, GeometryPart, PartSample, PatchPart, RenderKey, Rendered,
    Renderer, ViewSink, boxes, check_row,
};
