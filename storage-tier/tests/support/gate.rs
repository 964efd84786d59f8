//! A gate between callers and a node: requests go through, answers only while it is open.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What becomes of answers.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Open,
    Closed,
    /// Connections end, and new ones are not made.
    Cut,
}

pub(crate) struct Gate {
    pub(crate) address: String,
    way: watch::Sender<Way>,
}

// === impl Gate ===

impl Gate {
    /// Opens a gate to a node's address.
    pub(crate) async fn to(node: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let (way, seen) = watch::channel(Way::Open);
        let node = node.to_owned();
        tokio::spawn(async move {
            while let Ok((caller, _)) = listener.accept().await {
                let (node, mut seen) = (node.clone(), seen.clone());
                tokio::spawn(async move {
                    let mut until_cut = seen.clone();
                    tokio::select! {
                        _ = pass(caller, &node, &mut seen) => {}
                        _ = until_cut.wait_for(|way| *way == Way::Cut) => {}
                    }
                });
            }
        });
        Self { address, way }
    }

    pub(crate) fn open(&self) {
        self.way.send_replace(Way::Open);
    }

    pub(crate) fn close(&self) {
        self.way.send_replace(Way::Closed);
    }

    pub(crate) fn cut(&self) {
        self.way.send_replace(Way::Cut);
    }
}

async fn pass(caller: TcpStream, node: &str, way: &mut watch::Receiver<Way>) -> io::Result<()> {
    let (from_caller, to_caller) = caller.into_split();
    let (from_node, to_node) = TcpStream::connect(node).await?.into_split();
    let mut open = way.clone();
    open.mark_changed();
    tokio::try_join!(copy(from_caller, to_node, None), copy(from_node, to_caller, Some(open)))?;
    Ok(())
}

async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut way: Option<watch::Receiver<Way>>,
) -> io::Result<()> {
    let mut bytes = vec![0; 64 << 10];
    loop {
        let read = from.read(&mut bytes).await?;
        if read == 0 {
            return to.shutdown().await;
        }
        if let Some(way) = &mut way {
            let opened = way.wait_for(|way| *way == Way::Open).await;
            opened.map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        to.write_all(&bytes[..read]).await?;
    }
}
