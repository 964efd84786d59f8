//! `headwater bench --report`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use headwater_config::{Config, DatasetEntry};
use headwater_inventory::Machine;
use headwater_storage::find_shards;

use crate::bench::report::{
    self, Dataset, Description, Figures, Kind, Measured, Outcome, PAGE, Piece, Ran, Runner,
    Synthetic, Watch, pieces,
};
use crate::cmd::runtime;
use crate::flags::DatasetFlags;
use crate::screen::Screen;
use crate::shutdown::Shutdown;

/// Flags of `bench` without a verb.
#[derive(Clone, Debug, Args)]
pub(crate) struct ReportFlags {
    /// Runs all benches and writes a page into this folder: report.md, figures.json
    #[arg(long = "report", value_name = "DIR")]
    pub(super) folder: Option<PathBuf>,
    #[command(flatten)]
    pub(super) datasets: DatasetFlags,
    /// With --report: few and short rounds
    #[arg(long, requires = "folder")]
    quick: bool,
    /// With --report: these benches only, comma-separated
    #[arg(long, value_enum, value_delimiter = ',', value_name = "BENCH", requires = "folder")]
    only: Vec<Kind>,
}

/// Samples that benches read, kept while they run.
struct Samples {
    config: Config,
    dataset: Dataset,
    /// Images, or shards of them.
    photos: PathBuf,
    _made: Option<Synthetic>,
}

/// Runs the benches and writes the page.
///
/// # Errors
/// The folder cannot be written to, no bench could be run, or this process is asked to end.
pub(super) fn run(
    config: Config,
    flags: &ReportFlags,
    folder: &Path,
    screen: &Screen,
) -> Result<()> {
    let machine = Machine::this();
    // Before anything is done here.
    let described = Description::of(&machine);
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder `{}`", folder.display()))?;
    let runtime = runtime()?;
    let shutdown = {
        let _within = runtime.enter();
        Shutdown::listen()?
    };
    let samples = Samples::find(config, screen)?;
    let pieces = pieces(described.usable_cores, flags.quick, &flags.only, &samples.photos);
    let mut figures = Figures::begin(flags.quick, samples.dataset.clone(), described);
    let runner = Runner::new(&samples.config)?;
    let watch = Watch::begin(&machine);
    let progress = screen.progress("benches", pieces.len() as u64);
    for (number, piece) in (1..).zip(&pieces) {
        let outcome = runtime.block_on(runner.run(piece, shutdown.clone()))?;
        // A bench that was interrupted with this process says nothing about the machine.
        shutdown.check()?;
        screen.line(&told(piece, &outcome));
        let (kind, what, command) = (piece.kind, piece.what.clone(), piece.command());
        figures.benches.push(Ran { kind, what, command, outcome });
        progress.set(number);
    }
    drop(progress);
    figures.machine.others_share = watch.and_then(|watch| watch.others_share(&machine));
    report::write(folder, &figures)?;
    let page = folder.join(PAGE);
    let is_measured = |ran: &Ran| matches!(ran.outcome, Outcome::Measured(_));
    ensure!(
        figures.benches.iter().any(is_measured),
        "no bench could be run: `{}` says why",
        page.display()
    );
    screen.print(&page.display().to_string());
    Ok(())
}

/// A line on what came of a bench.
fn told(piece: &Piece, outcome: &Outcome) -> String {
    let what = &piece.what;
    match outcome {
        Outcome::Measured(Measured::Pipeline(summary)) => {
            let (tiers, plain) = (summary.tiers_images_per_s, summary.plain_images_per_s);
            format!("{what}: {tiers:.0} images/s, plain loop {plain:.0}")
        }
        Outcome::Measured(_) => format!("{what}: measured"),
        Outcome::NotMeasured(reason) => format!("{what}: not measured: {reason}"),
    }
}

// === impl Samples ===

impl Samples {
    /// The datasets that are configured or named, or synthetic photographs.
    fn find(mut config: Config, screen: &Screen) -> Result<Self> {
        if !config.dataset.is_empty() {
            let names = config.dataset.iter().map(|dataset| format!("`{}`", shown(dataset)));
            let text = names.collect::<Vec<_>>().join(", ");
            let dataset = Dataset { is_synthetic: false, text };
            let patterns = config
                .dataset
                .iter()
                .flat_map(|dataset| dataset.served().shards)
                .collect::<Vec<_>>();
            // Without files of this host the GPU's bench says that it finds none.
            let shards = find_shards(&patterns).unwrap_or_default();
            let photos = shards.first().and_then(|shard| shard.parent()).map(Path::to_owned);
            return Ok(Self { config, dataset, photos: photos.unwrap_or_default(), _made: None });
        }
        let made = Synthetic::make(screen)?;
        config.dataset.push(DatasetEntry::parse(&made.dataset())?);
        let dataset = Dataset { is_synthetic: true, text: Synthetic::text() };
        Ok(Self { config, dataset, photos: made.photos(), _made: Some(made) })
    }
}

/// A dataset as `--dataset` has it.
fn shown(dataset: &DatasetEntry) -> String {
    let shards = dataset.served().shards.join(",");
    format!("{}={shards}", dataset.name)
}
