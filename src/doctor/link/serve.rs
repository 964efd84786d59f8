//! The side that is measured against.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use headwater_access::{Access, Connection};
use headwater_config::Config;
use headwater_inventory::Machine;
use headwater_transport::links::ListenOptions;
use headwater_transport::{Arrival, PeerId};
use tokio::net::TcpListener;
use tokio_stream::StreamExt as _;

use super::control::{
    self, Answer, Answered, Ask, Control, Hello, Progress, Rates, Round, VERSION, Welcome,
};
use super::ends::{self, Opened};
use crate::cmd::serving::announce;
use crate::shutdown::Shutdown;

/// Callers that may wait for their turn.
const CALLERS_MAX: usize = 64;

/// Serves one caller after another until the process must end. Two callers at once would disturb
/// each other's measurements.
pub(crate) async fn serve(config: &Config, address: &str) -> Result<()> {
    let access = Access::open(&config.security)?;
    let listener = TcpListener::bind(address)
        .await
        .with_context(|| format!("cannot listen on `{address}`"))?;
    announce("doctor on", listener.local_addr()?);
    let shutdown = Shutdown::listen()?;
    let mut callers = access.incoming(listener, CALLERS_MAX, "doctor");
    let serving = async {
        while let Some(connection) = callers.next().await {
            let served = async { one(config, &access, connection?).await };
            if let Err(error) = served.await {
                tracing::warn!(error = %format!("{error:#}"), "a caller is left");
            }
        }
        Ok(())
    };
    tokio::select! {
        ended = serving => ended,
        _ = shutdown.asked() => Ok(()),
    }
}

async fn one(config: &Config, access: &Access, connection: Connection) -> Result<()> {
    let (local, peer) = connection.ends()?;
    let standing = connection.standing();
    let mut control = Control::new(Box::new(connection));
    let hello: Hello = control.heard().await?;
    if let Some(refusal) = refusal(access, &hello) {
        control.say(&Answer::Refused(refusal.clone())).await?;
        bail!("{refusal}");
    }
    if !standing.let_in() {
        bail!("as many callers are served as may be");
    }
    let (mut links, closed) = ends::open(config, local.ip()).await;
    let rates = ends::rates(&Machine::this(), peer.ip(), &receiver_options(config));
    control.say(&Answer::Welcome(welcome(&links, closed, local.ip(), rates))).await?;
    let offers = offers(&links);
    while let Some(ask) = control.next::<Ask>().await? {
        match ask {
            Ask::Round(round) => {
                round.validate(offers.len())?;
                let (link, peer) = offers[round.link];
                serve_round(&mut control, &mut links[link], peer, &round).await?;
            }
            Ask::Link { link, request } => {
                let &(link, _) = offers.get(link).context("a link that was not offered")?;
                let link = Arc::clone(&links[link].link);
                // It opens a path, which takes its time.
                let answering = move || Some(link.answers_requests()?.answer(&request));
                let answer = tokio::task::spawn_blocking(answering).await?;
                let answer = answer.context("a link that answers nothing")?;
                control.say(&Answered(answer)).await?;
            }
        }
    }
    Ok(())
}

/// As far as they say which port a receiver takes.
fn receiver_options(config: &Config) -> ListenOptions {
    let near_cards = config.receiver.near_cards();
    ListenOptions { config: config.links.clone(), near_cards, ..ListenOptions::default() }
}

/// The links' places, and who is measured over each: an offer for each.
fn offers(links: &[Opened]) -> Vec<(usize, PeerId)> {
    let each = links.iter().enumerate();
    each.flat_map(|(link, opened)| opened.admitted.iter().map(move |(peer, _)| (link, *peer)))
        .collect()
}

async fn serve_round(
    control: &mut Control,
    opened: &mut Opened,
    peer: PeerId,
    round: &Round,
) -> Result<()> {
    let Opened { link, arrivals, .. } = opened;
    round.places().for_each(|place| link.expect(peer, place));
    control.say(&Progress::Expected).await?;
    let arrived = async {
        let mut missing = round.parts;
        while missing > 0 {
            match arrivals.recv().await {
                Some(Arrival::Part { .. }) => missing -= 1,
                Some(Arrival::Connected { .. } | Arrival::Quiet { .. }) => {}
                Some(Arrival::Gone { peer: other, .. }) if other != peer => {}
                Some(Arrival::Gone { reason, .. }) => bail!("the link is gone: {reason}"),
                None => bail!("the link has ended"),
            }
        }
        Ok(())
    };
    // The other side waits for twice as long to hear which it is.
    let limit = control::PATIENCE / 2;
    let ended = tokio::time::timeout(limit, arrived).await.context("no parts arrived in time");
    let progress = match ended.and_then(|arrived| arrived) {
        Ok(()) => Progress::Arrived,
        Err(error) => Progress::Failed(format!("{error:#}")),
    };
    control.say(&progress).await
}

fn refusal(access: &Access, hello: &Hello) -> Option<String> {
    if hello.version != VERSION {
        let theirs = hello.version;
        return Some(format!("version {theirs} of doctor's messages; this one speaks {VERSION}"));
    }
    let refused = !access.lets_in(hello.token.as_deref());
    refused.then(|| "another token: give both sides the same security.token_file".to_owned())
}

fn welcome(links: &[Opened], closed: Vec<String>, local: IpAddr, rates: Rates) -> Welcome {
    let offered = links.iter().flat_map(|opened| {
        let offer = opened.link.offer(local);
        let keys = opened.admitted.iter().map(|(_, key)| key);
        keys.map(move |key| control::Offered::new(offer.clone(), key))
    });
    Welcome { host: ends::host(), links: offered.collect(), closed, rates }
}
