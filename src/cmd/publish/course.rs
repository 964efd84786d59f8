//! What `headwater publish` does: batches of a rank go out to addresses, each course at its own pace.

use std::thread;

use anyhow::{Context, Result, ensure};
use headwater_batch_view::BatchView;
use headwater_config::Config;
use headwater_core::pluralize;
use headwater_receiver::{Position, Receiver, Resume};
use headwater_telemetry::{Phase, Target, Traced, start_traces};

use crate::cmd::runtime;
use crate::cmd::serving::{Serving, announce};
use crate::cmd::stream::{keep_place, next_meanwhile};
use crate::publish::{Publisher, Stream, describe, streams};
use crate::shutdown::{Interrupted, Shutdown};

/// A receiver with the addresses that it feeds.
struct Course {
    receiver: Receiver,
    publisher: Publisher,
}

/// How a course ended that ran next to others.
enum End {
    Whole,
    Interrupted,
    GivenUp,
}

pub(crate) fn run(config: &Config) -> Result<()> {
    let receiver_config = config.receiver_tier()?;
    let datasets = config.dataset_uses()?;
    let traced = Traced::rank("publish", receiver_config.rank, receiver_config.world_size);
    let _traces = start_traces(&config.telemetry, &traced);
    let runtime = runtime()?;
    let (serving, metrics) = {
        let target =
            Target { tier: "publish", ..Target::rank(&config.receiver.job, config.receiver.rank) };
        runtime.block_on(Serving::open_rank(&config.telemetry, &target))?
    };
    let Serving { health, shutdown } = serving;
    describe();
    let recipe = config.recipe.recipe()?;
    let settings = &config.publish;
    let streams = streams(settings.pace, settings.addresses()?, receiver_config)?;
    let context = zmq::Context::new();
    context.set_io_threads(settings.io_threads as i32).context("publish.io_threads")?;
    // Before the tiers are asked: an address in use is known at once.
    let open = |Stream { receiver, addresses }| {
        let resumes = receiver.checkpoints.resume != Resume::No;
        let publisher = Publisher::open(&context, &addresses, settings, &recipe, resumes)?;
        Ok((receiver, publisher))
    };
    let opened: Vec<_> = streams.into_iter().map(open).collect::<Result<_>>()?;
    let begin = |(receiver, publisher)| {
        let receiver = Receiver::open(receiver, recipe.clone(), &datasets)?;
        Ok(Course { receiver, publisher })
    };
    let opening = shutdown.ends_at_once(&runtime);
    let courses: Vec<Course> = opened.into_iter().map(begin).collect::<Result<_>>()?;
    drop(opening);
    for name in courses.iter().flat_map(|course| course.publisher.names()) {
        announce("publishing on", name);
    }
    if let Some(course) = courses.first() {
        let (telemetry, security) = (&config.telemetry, &config.security);
        BatchView::serve(&course.receiver, telemetry, security, metrics.as_ref())?;
    }
    health.set(Phase::Ready);
    go(courses, &shutdown)
}

/// Runs all courses at the same time. If one of them ends, the others continue.
fn go(mut courses: Vec<Course>, shutdown: &Shutdown) -> Result<()> {
    if let [course] = &mut courses[..] {
        return course.go(shutdown);
    }
    let count = courses.len();
    let ended: Vec<End> = thread::scope(|scope| {
        let course = |mut course: Course| scope.spawn(move || course.go_alone(shutdown));
        let threads: Vec<_> = courses.into_iter().map(course).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or(End::GivenUp)).collect()
    });
    let failed = ended.iter().filter(|end| matches!(end, End::GivenUp)).count();
    ensure!(failed == 0, "{failed} of {count} addresses were given up: the log says why");
    if ended.iter().all(|end| matches!(end, End::Whole)) { Ok(()) } else { shutdown.check() }
}

// === impl Course ===

impl Course {
    /// Hands on every batch, and keeps the place.
    fn go(&mut self, shutdown: &Shutdown) -> Result<()> {
        let published = self.feed(shutdown)?;
        let names: Vec<&str> = self.publisher.names().collect();
        println!("{} published on {}", pluralize(published, "batch"), names.join(", "));
        // Without an address that takes more, there is nothing to come back for.
        if self.takes_more() { keep_place(&self.receiver, shutdown) } else { Ok(()) }
    }

    /// As [`Course::go`], but next to others.
    fn go_alone(&mut self, shutdown: &Shutdown) -> End {
        match self.go(shutdown) {
            Ok(()) => End::Whole,
            Err(error) if error.is::<Interrupted>() => End::Interrupted,
            Err(error) => {
                let names: Vec<&str> = self.publisher.names().collect();
                let reason = headwater_core::error_chain(error.as_ref());
                tracing::error!("{} is given up, the others go on: {reason}", names.join(", "));
                End::GivenUp
            }
        }
    }

    fn takes_more(&self) -> bool {
        let Position { epoch, step } = self.receiver.position();
        self.publisher.takes(self.receiver.batch_number(epoch, step))
    }

    fn feed(&mut self, shutdown: &Shutdown) -> Result<u64> {
        self.publisher.wait_for_subscribers(shutdown)?;
        let mut published = 0;
        loop {
            // Before a batch is taken: if no address has room for it, it stays in the stream.
            if !self.takes_more() {
                return Ok(published);
            }
            let Self { receiver, publisher } = self;
            let batch = next_meanwhile(receiver, shutdown, || publisher.notice())?;
            let Some(batch) = batch else { return Ok(published) };
            publisher.publish(
                &batch,
                receiver.batch_number(batch.epoch(), batch.step()),
                shutdown,
            )?;
            published += 1;
        }
    }
}
