//! Local services: a storage node and augment workers for the ranks of one job on one host, without
//! anybody who starts them.
//!
//! [`Services::shared`] finds those of the job through a socket in the user's runtime folder, or starts
//! them: one process, `headwater local`, which runs [`serve`]. It holds one connection for each
//! loader and ends with the last of them. [`Services::embedded`] starts them in threads of this process.
//! Both are [`Embedded`], which `headwater run` uses too. docs/adr/032 says why.
//!
//! [`host_receiver`] finds or starts, in the same way, the process `headwater host`, which runs [`serve_host`]:
//! one receiver for all trials of the host that want the same batches (docs/adr/036).
//!
//! Deliberately absent: Python, what batches are and how they are shared (the receiver knows), the words of
//! the configuration (they come whole, as a [`Config`](headwater_config::Config)), and any other process.
#![forbid(unsafe_code)]

mod alive;
mod client;
mod clients;
mod connection;
mod cores;
mod embedded;
mod error;
mod event_fd;
mod folder;
mod host;
mod job;
mod key;
mod lines;
mod messages;
mod program;
mod serve;
mod services;
mod status;
mod threads;
mod token;
mod wanted;
mod watch;

pub use embedded::{ANY_PORT, Embedded};
pub use error::{LocalError, LocalErrorKind};
pub use host::{host_receiver, serve_host};
pub use job::local_ranks;
pub use program::program;
pub use serve::serve;
pub use services::Services;
pub use wanted::Wanted;
pub use watch::Watch;
