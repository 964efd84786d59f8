//! `headwater publish`: takes batches as a training rank would, and hands them on over ZeroMQ or writes them
//! to files.

#[cfg(feature = "zeromq")]
mod course;

use clap::Args;
use headwater_config::Setting;

use crate::cmd::stream::StreamFlags;
use crate::flags::given;

#[cfg(feature = "zeromq")]
pub(crate) use course::run;

/// Flags of `publish`.
#[derive(Clone, Debug, Args)]
pub(crate) struct Flags {
    /// Addresses as Tensorcom writes them, as in `zpub://0.0.0.0:7404,zrpush://0.0.0.0:{7410..7429}`
    /// and for files `file:batches-{000000..}.ten`
    #[arg(long, visible_alias = "to", value_name = "URL,..")]
    urls: Option<String>,
    /// Subscriptions that each `pub` address waits for before the first batch
    #[arg(long, value_name = "N")]
    subscribers: Option<u32>,
    #[command(flatten)]
    stream: StreamFlags,
}

// === impl Flags ===

impl Flags {
    pub(crate) fn settings(&self) -> Vec<Setting> {
        let own = [
            given("--urls", "publish.urls", self.urls.as_ref()),
            given("--subscribers", "publish.subscribers_min", self.subscribers),
        ];
        own.into_iter().flatten().chain(self.stream.settings()).collect()
    }
}

#[cfg(not(feature = "zeromq"))]
pub(crate) fn run(_: &headwater_config::Config) -> anyhow::Result<()> {
    crate::cmd::without("zeromq", "`publish`")
}
