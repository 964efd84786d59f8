//! Watches from outside: a service, by the metrics of its processes, or a stream of batches.
//!
//! Deliberately absent: any influence on the service. The monitor is only one more reader of
//! metrics, or one more client of the stream.

mod figures;
mod history;
mod page;
mod process;
mod remedy;
mod report;
mod rows;
#[cfg(feature = "terminal")]
mod screen;
mod seen;
mod series;
#[cfg(feature = "zeromq")]
mod stream;
mod survey;
mod tables;
mod targets;
mod text;
mod verdict;
mod watch;
#[cfg(feature = "zeromq")]
mod window;

pub(crate) use page::Page;
pub(crate) use report::Report;
#[cfg(feature = "terminal")]
pub(crate) use screen::show;
#[cfg(feature = "zeromq")]
pub(crate) use stream::Stream;
pub(crate) use survey::Terms;
pub(crate) use targets::{SlurmPorts, Sources};
pub(crate) use text::text;
pub(crate) use watch::Watch;
#[cfg(feature = "zeromq")]
pub(crate) use window::Window;
