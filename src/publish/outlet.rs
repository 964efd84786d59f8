//! One address: a socket, or a series of files.

use anyhow::Result;
use headwater_config::publish::{Address, PublishConfig};
use headwater_receiver::Batch;
use zmq::PollItem;

use super::files::FileOutlet;
use super::message::Encoder;
use super::socket::SocketOutlet;

/// Takes the batches of one address.
pub(super) struct Outlet {
    /// Where it is, as people write it: `zpub://127.0.0.1:7404`.
    pub(super) name: String,
    way: Way,
}

enum Way {
    Socket(Box<SocketOutlet>),
    Files(FileOutlet),
}

// === impl Outlet ===

impl Outlet {
    /// Binds, connects, or makes the folder. `resumes`: batches may have been taken before.
    ///
    /// # Errors
    /// The address is in use or is not one of this host's, or the folder cannot be made.
    pub(super) fn open(
        context: &zmq::Context,
        address: &Address,
        config: &PublishConfig,
        resumes: bool,
    ) -> Result<Self> {
        Ok(match address {
            Address::Socket(address) => {
                let socket = SocketOutlet::open(context, address, config)?;
                Self { name: socket.name.clone(), way: Way::Socket(Box::new(socket)) }
            }
            Address::Files(series) => {
                let files = FileOutlet::open(series, resumes)?;
                Self { name: series.to_string(), way: Way::Files(files) }
            }
        })
    }

    /// Subscriptions so far, for sockets that drop messages without room.
    pub(super) fn subscriptions(&self) -> Option<u32> {
        match &self.way {
            Way::Socket(socket) => socket.drops().then_some(socket.subscriptions),
            Way::Files(_) => None,
        }
    }

    /// Counts who has come and gone meanwhile.
    ///
    /// # Errors
    /// ZeroMQ refuses.
    pub(super) fn notice(&mut self) -> Result<()> {
        match &mut self.way {
            Way::Socket(socket) => socket.notice(),
            Way::Files(_) => Ok(()),
        }
    }

    /// Descriptors to wait on, until [`Outlet::has_room`] or somebody subscribes. Files always
    /// have room.
    pub(super) fn poll_item(&self) -> Option<PollItem<'_>> {
        match &self.way {
            Way::Socket(socket) => Some(socket.poll_item()),
            Way::Files(_) => None,
        }
    }

    /// Whether it would take a batch without waiting.
    ///
    /// # Errors
    /// ZeroMQ refuses.
    pub(super) fn has_room(&self) -> Result<bool> {
        match &self.way {
            Way::Socket(socket) => socket.has_room(),
            Way::Files(_) => Ok(true),
        }
    }

    /// Whether the batch of this number has a place here.
    pub(super) fn takes(&self, number: u64) -> bool {
        match &self.way {
            Way::Socket(_) => true,
            Way::Files(files) => files.takes(number),
        }
    }

    /// Takes a batch. Returns its bytes, or `None` if the client went away meanwhile: then another
    /// client must get it.
    ///
    /// # Errors
    /// ZeroMQ or the file system refuses; a number does not fit its type.
    pub(super) fn send(
        &mut self,
        batch: &Batch,
        number: u64,
        encoder: &Encoder,
    ) -> Result<Option<u64>> {
        let chunks = encoder.chunks(batch)?;
        match &mut self.way {
            Way::Socket(socket) => socket.send(chunks),
            Way::Files(files) => files.send(number, &chunks),
        }
    }
}
