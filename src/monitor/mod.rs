//! What goes on, as somebody sees it who looks from outside: streams of batches.
//!
//! Deliberately absent: any part in the stream beyond that of one more client.

mod stream;
mod window;

pub(crate) use stream::Stream;
pub(crate) use window::Window;
