//! Every faster twin gives the bytes of the plain operation, on all instruction sets that this
//! processor has.

mod cast;
mod colour;
mod erasing;
mod pictures;
mod resize;
mod warps;
