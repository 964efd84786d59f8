//! Everything in a page, in the form of `figures.json`.

use std::time::SystemTime;

use serde::Serialize;

use super::Description;
use super::date::date;
use super::pieces::Kind;
use crate::bench::{PipelineSummary, gpu, link, storage};

/// All figures of one report.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Figures {
    /// The program's version.
    pub(crate) version: &'static str,
    /// `release` or `dev`, whose figures say nothing.
    pub(crate) build: &'static str,
    /// When it began.
    pub(crate) date: String,
    /// Whether few rounds were taken.
    pub(crate) is_quick: bool,
    pub(crate) dataset: Dataset,
    pub(crate) machine: Description,
    pub(crate) benches: Vec<Ran>,
}

/// What was read and rendered.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Dataset {
    pub(crate) is_synthetic: bool,
    /// A sentence without its full stop.
    pub(crate) text: String,
}

/// One bench.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Ran {
    pub(crate) kind: Kind,
    /// As in `pipeline, dinov2, 2 threads`.
    pub(crate) what: String,
    /// How it is run by hand.
    pub(crate) command: String,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
}

/// Its result.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Outcome {
    Measured(Measured),
    /// Why not.
    NotMeasured(String),
}

/// Figures of one bench, as it prints them.
#[derive(Clone, Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Measured {
    Link(link::Summary),
    Storage(storage::Summary),
    Pipeline(PipelineSummary),
    Gpu(gpu::summary::Summary),
}

// === impl Figures ===

impl Figures {
    /// A report without a bench, of this program and this moment.
    pub(crate) fn begin(is_quick: bool, dataset: Dataset, machine: Description) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION"),
            build: if cfg!(debug_assertions) { "dev" } else { "release" },
            date: date(SystemTime::now()),
            is_quick,
            dataset,
            machine,
            benches: Vec::new(),
        }
    }

    /// What was measured of one kind, with its commands.
    pub(crate) fn measured(&self, kind: Kind) -> impl Iterator<Item = (&Ran, &Measured)> {
        let ran = self.benches.iter().filter(move |ran| ran.kind == kind);
        ran.filter_map(|ran| match &ran.outcome {
            Outcome::Measured(measured) => Some((ran, measured)),
            Outcome::NotMeasured(_) => None,
        })
    }

    /// Rows of the pipeline by one recipe, by threads.
    pub(crate) fn pipeline(&self, recipe: &str) -> Vec<&PipelineSummary> {
        let rows = self.measured(Kind::Pipeline).filter_map(|(_, measured)| match measured {
            Measured::Pipeline(row) => Some(row),
            _ => None,
        });
        rows.filter(|row| row.recipe == recipe).collect()
    }
}

// === impl Measured ===

impl Measured {
    /// Reads the output of a bench.
    ///
    /// # Errors
    /// It is something else.
    pub(crate) fn read(kind: Kind, json: &str) -> serde_json::Result<Self> {
        Ok(match kind {
            Kind::Link => Self::Link(serde_json::from_str(json)?),
            Kind::Storage => Self::Storage(serde_json::from_str(json)?),
            Kind::Pipeline => Self::Pipeline(serde_json::from_str(json)?),
            Kind::Gpu => Self::Gpu(serde_json::from_str(json)?),
        })
    }
}
