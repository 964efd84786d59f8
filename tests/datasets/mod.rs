//! The hub of datasets through the real program, verb by verb.

mod add;
mod buckets;
mod count;
mod distant;
mod entries;
mod fields;
mod filters;
mod formats;
mod index;
mod named;
mod pack;
mod preview;
mod program;
mod stubs;
mod tar_walk;
mod trained;
mod validate;
