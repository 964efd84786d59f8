//! The control connection: a line of JSON for each message.

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use headwater_access::Duplex;
use headwater_transport::{LeaseId, LinkKind, LinkOffer, PartPlace, SessionKey};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufStream};

use super::{PART_BYTES, PARTS_AT_ONCE, SLOT};

const CLOSED: &str = "the other side has closed the connection";
/// Version of these messages.
pub(super) const VERSION: u32 = 4;
/// Longest line: some addresses of links, of 64 KiB at most, whose bytes stand there as numbers.
const LINE_MAX_BYTES: u64 = 1 << 20;
/// Longest silence of the other side; a round of parts takes far less.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);
/// Most parts of one round.
const PARTS_MAX: u64 = 1 << 16;

/// What the measuring side says first.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Hello {
    pub(super) version: u32,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) token: Option<String>,
}

/// What the serving side answers.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Answer {
    Welcome(Welcome),
    Refused(String),
}

/// What there is to measure.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Welcome {
    /// The same on every boot of a host, and on no other.
    pub(super) host: String,
    pub(super) links: Vec<Offered>,
    /// A sentence on each link that could not be opened.
    pub(super) closed: Vec<String>,
    /// Rates of the ports there, in 1e9 bits per second.
    pub(super) rates: Rates,
}

/// Rates of ports, in 1e9 bits per second; `None` if unknown.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize)]
pub(super) struct Rates {
    /// The network interface towards the other side.
    pub(super) tcp: Option<f64>,
    /// The port of a card that a link takes, or the fastest one if none takes one.
    pub(super) rdma: Option<f64>,
}

/// A link and how to connect to it. A link with a number that has to be tried out is offered several times.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Offered {
    kind: String,
    address: Vec<u8>,
    key: [u8; 32],
}

/// What the measuring side asks for, once it was let in.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ask {
    /// Parts on their way.
    Round(Round),
    /// A connecting link's message to its other end, which answers with an [`Answered`].
    Link {
        /// Which of the offers, by its place in the list.
        link: usize,
        request: Vec<u8>,
    },
}

/// What the other end of a connecting link says.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Answered(pub(super) Vec<u8>);

/// Parts that the serving side must expect.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct Round {
    /// Which of the offers, by its place in the list.
    pub(super) link: usize,
    pub(super) first_lease: u64,
    pub(super) parts: u64,
    pub(super) part_bytes: u64,
}

/// What the serving side says of a round.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Progress {
    /// All parts of the round are expected.
    Expected,
    /// All parts of the round have arrived.
    Arrived,
    /// They will not, and why: the link is of no more use, others are.
    Failed(String),
}

/// One end of the connection.
pub(super) struct Control {
    stream: BufStream<Box<dyn Duplex>>,
    /// An answer is still to come that nobody waits for any more.
    is_owed: bool,
}

// === impl Control ===

impl Control {
    pub(super) fn new(stream: Box<dyn Duplex>) -> Self {
        Self { stream: BufStream::new(stream), is_owed: false }
    }

    pub(super) async fn say(&mut self, message: &impl Serialize) -> Result<()> {
        let line = serde_json::to_string(message)? + "\n";
        let written = async {
            self.stream.write_all(line.as_bytes()).await?;
            self.stream.flush().await
        };
        tokio::time::timeout(PATIENCE, written).await.context("the other side takes nothing")??;
        Ok(())
    }

    /// A message of a connecting link to its other end, and the answer. Whoever asks may stop waiting: the answer is
    /// skipped when it comes.
    pub(super) async fn ask(&mut self, link: usize, request: Vec<u8>) -> Result<Answered> {
        self.skip_owed().await?;
        self.say(&Ask::Link { link, request }).await?;
        self.is_owed = true;
        let line = self.line().await?;
        self.is_owed = false;
        understood(&line.context(CLOSED)?)
    }

    /// The next message; `None` where the other side has closed the connection.
    pub(super) async fn next<T: DeserializeOwned>(&mut self) -> Result<Option<T>> {
        self.skip_owed().await?;
        self.line().await?.map(|line| understood(&line)).transpose()
    }

    async fn skip_owed(&mut self) -> Result<()> {
        if self.is_owed {
            self.line().await?.context(CLOSED)?;
            self.is_owed = false;
        }
        Ok(())
    }

    async fn line(&mut self) -> Result<Option<String>> {
        let mut line = String::new();
        let mut limited = (&mut self.stream).take(LINE_MAX_BYTES);
        let read = tokio::time::timeout(PATIENCE, limited.read_line(&mut line));
        let length = read.await.context("the other side says nothing")??;
        if length == 0 {
            return Ok(None);
        }
        if !line.ends_with('\n') {
            bail!("a message has no end within {LINE_MAX_BYTES} bytes");
        }
        Ok(Some(line))
    }

    /// The next message of a side that has more to say.
    pub(super) async fn heard<T: DeserializeOwned>(&mut self) -> Result<T> {
        self.next().await?.context(CLOSED)
    }
}

fn understood<T: DeserializeOwned>(line: &str) -> Result<T> {
    serde_json::from_str(line).context("a message that is not understood")
}

// === impl Offered ===

impl Offered {
    pub(super) fn new(offer: LinkOffer, key: &SessionKey) -> Self {
        Self { kind: offer.kind.name().to_owned(), address: offer.address, key: key.0 }
    }

    /// `None` for a kind that this program does not know.
    pub(super) fn take(&self) -> Option<(LinkOffer, SessionKey)> {
        let kind = LinkKind::from_name(&self.kind)?;
        Some((LinkOffer { kind, address: self.address.clone() }, SessionKey(self.key)))
    }
}

// === impl Round ===

impl Round {
    /// Checks what came over the wire.
    pub(super) fn validate(&self, links: usize) -> Result<()> {
        let fits = self.link < links
            && (1..=PARTS_MAX).contains(&self.parts)
            && (1..=PART_BYTES).contains(&self.part_bytes)
            && self.first_lease.checked_add(self.parts).is_some();
        if !fits {
            bail!("a round that cannot be: {self:?}");
        }
        Ok(())
    }

    /// Where each part goes: as many places in turn as parts are on their way at one time.
    pub(super) fn places(&self) -> impl Iterator<Item = PartPlace> + use<> {
        let Self { first_lease, parts, part_bytes, .. } = *self;
        (0..parts).map(move |part| {
            let offset_bytes = part % PARTS_AT_ONCE * PART_BYTES;
            let region = headwater_core::Region { offset_bytes, len_bytes: part_bytes };
            PartPlace { lease: LeaseId(first_lease + part), slot: SLOT, regions: [region].into() }
        })
    }
}

// === impl Rates ===

impl Rates {
    /// What both ends can do.
    pub(super) fn with(self, other: Self) -> Self {
        let least = |one: Option<f64>, two: Option<f64>| match (one, two) {
            (Some(one), Some(two)) => Some(one.min(two)),
            (one, two) => one.or(two),
        };
        Self { tcp: least(self.tcp, other.tcp), rdma: least(self.rdma, other.rdma) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_that_nobody_waits_for_any_more_is_no_other_ones() {
        let (ours, theirs) = tokio::io::duplex(1024);
        let (mut ours, mut theirs) = (Control::new(Box::new(ours)), Control::new(Box::new(theirs)));
        let limit = Duration::from_millis(50);
        tokio::time::timeout(limit, ours.ask(0, vec![1])).await.map(drop).expect_err("no answer");
        theirs.say(&Answered(vec![1])).await.unwrap();
        theirs.say(&Answered(vec![2])).await.unwrap();
        theirs.say(&Progress::Expected).await.unwrap();
        assert_eq!(ours.ask(0, vec![2]).await.unwrap().0, [2]);
        assert_eq!(ours.heard::<Progress>().await.unwrap(), Progress::Expected);
        tokio::time::timeout(limit, ours.ask(0, vec![3])).await.map(drop).expect_err("no answer");
        theirs.say(&Answered(vec![3])).await.unwrap();
        theirs.say(&Progress::Arrived).await.unwrap();
        assert_eq!(ours.heard::<Progress>().await.unwrap(), Progress::Arrived);
    }
}
