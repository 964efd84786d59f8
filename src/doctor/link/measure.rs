//! The side that measures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use headwater_access::{Access, Dialed};
use headwater_config::Config;
use headwater_inventory::Machine;
use headwater_transport::links::ListenOptions;
use headwater_transport::{LinkError, PartPlace, WorkerLink};
use tokio::task::JoinSet;

use super::control::{Answer, Ask, Control, Hello, Progress, Rates, Round, VERSION, Welcome};
use super::trials::Trials;
use super::verdict::{self, Figures};
use super::{PART_BYTES, PARTS_AT_ONCE, PING_BYTES, ends};
use crate::doctor::Check;

/// Round trips; the median is shown.
const PINGS: usize = 101;
/// Parts of one round of bandwidth: 256 MiB.
const PARTS: u64 = 32;
/// Rounds go on for so long; the first is not counted.
const MEASURE: Duration = Duration::from_secs(1);

/// The measuring side of one link.
struct Course<'a> {
    control: &'a mut Control,
    /// None once it has failed.
    link: Option<Arc<dyn WorkerLink>>,
    /// Its place in the other side's list.
    number: usize,
    next_lease: u64,
}

/// Measures every link to the `headwater doctor --serve` at `peer`.
pub(crate) async fn measure(config: &Config, machine: &Machine, peer: &str) -> Result<Vec<Check>> {
    let access = Access::open(&config.security)?;
    let Dialed { stream, peer: address, .. } = access.dial(peer).await.with_context(|| {
        "cannot connect; run `headwater doctor --serve HOST:PORT` there, with the same [security]"
    })?;
    let mut control = Control::new(stream);
    control.say(&Hello { version: VERSION, token: access.token() }).await?;
    let answer = control.heard().await.with_context(
        || "that is no `headwater doctor --serve HOST:PORT`: run it there, on a port of its own",
    )?;
    let welcome: Welcome = match answer {
        Answer::Welcome(welcome) => welcome,
        Answer::Refused(reason) => bail!("refused: {reason}"),
    };
    let same_host = welcome.host == ends::host();
    let rates = match same_host {
        true => Rates::default(), // The way within a host has no port.
        false => {
            let config = config.links.clone();
            let options = ListenOptions { config, ..ListenOptions::default() };
            welcome.rates.with(ends::rates(machine, address.ip(), &options))
        }
    };
    let mut checks: Vec<Check> = welcome.closed.iter().map(|why| verdict::closed(why)).collect();
    let mut trials = Trials::new(&config.links);
    for (number, offered) in welcome.links.iter().enumerate() {
        let Some((offer, key)) = offered.take() else { continue };
        let facts = offer.kind.facts();
        // A link that is tuned is offered several times.
        let Some(settings) = trials.next(offer.kind) else { continue };
        if facts.is_within_host && !same_host {
            checks.push(verdict::other_host(offer.kind));
            continue;
        }
        let connected = ends::connect(settings.clone(), &offer, &key, number, &mut control).await;
        let check = match connected {
            Ok(link) => {
                let kind = link.kind();
                let link = Some(link);
                let mut course = Course { control: &mut control, link, number, next_lease: 1 };
                match course.run().await.with_context(|| format!("{kind} link"))? {
                    Ok(figures) => {
                        trials.note(kind, &settings, figures);
                        if settings != config.links {
                            continue;
                        }
                        verdict::of(kind, figures, rates, same_host)
                    }
                    Err(reason) => verdict::broken(kind, &reason),
                }
            }
            Err(error) => verdict::refused(offer.kind, &error),
        };
        if !check.is_ok() {
            trials.give_up(offer.kind);
        }
        checks.push(check);
    }
    checks.extend(trials.verdicts(same_host));
    Ok(checks)
}

// === impl Course ===

impl Course<'_> {
    /// The figures, or why the link failed. An error is the control connection's.
    async fn run(&mut self) -> Result<Result<Figures, String>> {
        let mut trips = Vec::with_capacity(PINGS);
        for _ in 0..PINGS {
            match self.round(1, PING_BYTES).await? {
                Ok(trip) => trips.push(trip),
                Err(reason) => return Ok(Err(reason)),
            }
        }
        trips.sort_unstable();
        // The first faults pages in and opens windows.
        let (mut started, mut spent, mut parts) = (None, Duration::ZERO, 0);
        while started.is_none_or(|started: Instant| started.elapsed() < MEASURE) {
            match self.round(PARTS, PART_BYTES).await? {
                Ok(time) if started.is_some() => {
                    spent += time;
                    parts += PARTS;
                }
                Ok(_) => started = Some(Instant::now()),
                Err(reason) => return Ok(Err(reason)),
            }
        }
        let gigabytes = (parts * PART_BYTES) as f64 / 1e9;
        let gb_per_s = gigabytes / spent.as_secs_f64();
        Ok(Ok(Figures { round_trip: trips[trips.len() / 2], gb_per_s }))
    }

    /// The time from the first byte of the first part until the other side's word that all are
    /// there; or why the link failed.
    async fn round(&mut self, parts: u64, part_bytes: u64) -> Result<Result<Duration, String>> {
        let Some(link) = self.link.clone() else { bail!("the link has failed before") };
        let round = Round { link: self.number, first_lease: self.next_lease, parts, part_bytes };
        self.next_lease += parts;
        self.control.say(&Ask::Round(round)).await?;
        let expected: Progress = self.control.heard().await?;
        ensure!(expected == Progress::Expected, "a word out of turn");
        let started = Instant::now();
        let sent = send(&link, &round).await;
        drop(link);
        if sent.is_err() {
            self.link = None; // Then the other side sees that it is gone, and waits for no part.
        }
        let progress: Progress = self.control.heard().await?;
        let took = started.elapsed();
        Ok(match (sent, progress) {
            (Ok(()), Progress::Arrived) => Ok(took),
            (Err(error), _) => Err(error.to_string()),
            (Ok(()), Progress::Failed(reason)) => Err(format!("the other side: {reason}")),
            (Ok(()), Progress::Expected) => bail!("a word out of turn"),
        })
    }
}

async fn send(link: &Arc<dyn WorkerLink>, round: &Round) -> Result<(), LinkError> {
    if link.kind().facts().renders_in_slot {
        // Parts are in the slot itself, so no two of them may overlap.
        for place in round.places() {
            deliver(link, place).await?;
        }
        return Ok(());
    }
    let mut running = JoinSet::new();
    for place in round.places() {
        if running.len() as u64 == PARTS_AT_ONCE {
            finished(running.join_next().await)?;
        }
        let link = Arc::clone(link);
        running.spawn(async move { deliver(&link, place).await });
    }
    while let Some(ended) = running.join_next().await {
        finished(Some(ended))?;
    }
    Ok(())
}

/// One part. In the slot itself it is filled, since writing there is what moves bytes.
async fn deliver(link: &Arc<dyn WorkerLink>, place: PartPlace) -> Result<(), LinkError> {
    let lease = place.lease.0;
    let mut part = link.begin(place).await?;
    if link.kind().facts().renders_in_slot {
        part.regions_mut().into_iter().for_each(|region| region.fill(lease as u8));
    }
    link.commit(part).await
}

fn finished(
    ended: Option<Result<Result<(), LinkError>, tokio::task::JoinError>>,
) -> Result<(), LinkError> {
    match ended {
        Some(Ok(delivered)) => delivered,
        Some(Err(panicked)) => std::panic::resume_unwind(panicked.into_panic()),
        None => Ok(()),
    }
}
