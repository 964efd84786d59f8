//! Which benches a report has, and by which commands.

use std::path::Path;

use clap::ValueEnum;
use serde::Serialize;

/// A kind of bench, in the order of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    /// Links between two processes
    Link,
    /// Samples from the kernel's cache
    Storage,
    /// Images through all three tiers
    Pipeline,
    /// The GPU back end
    Gpu,
}

/// One run of a bench.
#[derive(Clone, Debug)]
pub(crate) struct Piece {
    pub(crate) kind: Kind,
    /// As in `pipeline, dinov2, 2 threads`.
    pub(crate) what: String,
    /// After `headwater --config FILE`.
    pub(crate) arguments: Vec<String>,
}

/// Recipes that go through all tiers.
pub(super) const RECIPES: [&str; 2] = ["dinov2", "imagenet-train"];

// === impl Kind ===

impl Kind {
    pub(crate) const ALL: [Self; 4] = [Self::Link, Self::Storage, Self::Pipeline, Self::Gpu];
}

// === impl Piece ===

impl Piece {
    /// How it is run by hand. Where the samples are is left open.
    pub(crate) fn command(&self) -> String {
        let samples = match self.kind {
            Kind::Storage | Kind::Pipeline => " --dataset DATASET",
            Kind::Link | Kind::Gpu => "",
        };
        let mut words: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        words.retain(|word| *word != "--json");
        if let Some(at) = words.iter().position(|word| *word == "--photos") {
            words[at + 1] = "PHOTOS";
        }
        format!("headwater {}{samples}", words.join(" "))
    }
}

/// The benches of a machine with this number of cores. `photos` is a folder with images, or with
/// shards of images.
pub(crate) fn pieces(cores: usize, is_quick: bool, only: &[Kind], photos: &Path) -> Vec<Piece> {
    let mut pieces = Vec::new();
    for kind in Kind::ALL.into_iter().filter(|kind| only.is_empty() || only.contains(kind)) {
        match kind {
            Kind::Link => pieces.push(link(is_quick)),
            Kind::Storage => pieces.push(storage(is_quick)),
            Kind::Pipeline => {
                let counts = || threads(cores);
                let each =
                    RECIPES.into_iter().flat_map(|recipe| counts().map(move |n| (recipe, n)));
                pieces.extend(each.map(|(recipe, threads)| pipeline(recipe, threads, is_quick)));
            }
            Kind::Gpu => pieces.push(gpu(photos, is_quick)),
        }
    }
    pieces
}

/// Powers of two, and all.
fn threads(cores: usize) -> impl Iterator<Item = usize> {
    let powers = (0..usize::BITS).map(|power| 1 << power);
    powers.take_while(move |count| *count < cores).chain([cores.max(1)])
}

fn link(is_quick: bool) -> Piece {
    let (rounds, batches) = if is_quick { ("3", "10") } else { ("7", "40") };
    let arguments = ["bench", "link", "--rounds", rounds, "--batches", batches, "--json"];
    Piece { kind: Kind::Link, what: "link".to_owned(), arguments: owned(&arguments) }
}

fn storage(is_quick: bool) -> Piece {
    let (rounds, seconds) = if is_quick { ("1", "1") } else { ("5", "3") };
    let arguments = ["bench", "storage", "--rounds", rounds, "--seconds", seconds, "--json"];
    Piece { kind: Kind::Storage, what: "storage".to_owned(), arguments: owned(&arguments) }
}

fn pipeline(recipe: &str, threads: usize, is_quick: bool) -> Piece {
    // A round then takes the same time on many threads as on one, and its start is only a small
    // part.
    let epochs = threads * if is_quick { 4 } else { 12 };
    let rounds = if is_quick { "3" } else { "5" };
    let (preset, count) = (format!("recipe.preset={recipe}"), threads.to_string());
    let arguments = ["bench", "pipeline", "--set", &preset, "--threads", &count];
    let length = ["--epochs", &epochs.to_string(), "--rounds", rounds, "--json"];
    let what = format!("pipeline, {recipe}, {}", headwater_core::pluralize(threads, "thread"));
    let arguments = owned(&[&arguments[..], &length[..]].concat());
    Piece { kind: Kind::Pipeline, what, arguments }
}

fn gpu(photos: &Path, is_quick: bool) -> Piece {
    let (images, seconds, rounds) = if is_quick { ("8", "2", "10") } else { ("64", "10", "50") };
    let photos = photos.display().to_string();
    let arguments = ["bench", "gpu", "--photos", &photos, "--images", images];
    let length = ["--seconds", seconds, "--rounds", rounds, "--json"];
    let arguments = owned(&[&arguments[..], &length[..]].concat());
    Piece { kind: Kind::Gpu, what: "gpu".to_owned(), arguments }
}

fn owned(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::cli::Cli;

    #[test]
    fn threads_are_powers_of_two_and_all_cores() {
        let of = |cores| threads(cores).collect::<Vec<_>>();
        assert_eq!(
            [of(0), of(1), of(2), of(6), of(8)],
            [vec![1], vec![1], vec![1, 2], vec![1, 2, 4, 6], vec![1, 2, 4, 8]]
        );
    }

    #[test]
    fn every_command_is_understood_as_it_is_run_and_as_it_is_shown() {
        for is_quick in [true, false] {
            let all = pieces(4, is_quick, &[], Path::new("/photos"));
            assert_eq!(all.len(), 3 + 2 * 3);
            for piece in all {
                let run =
                    ["headwater"].into_iter().chain(piece.arguments.iter().map(String::as_str));
                assert!(Cli::try_parse_from(run).is_ok(), "{piece:?}");
                let shown = piece.command();
                let shown = shown.replace("DATASET", "photos=a.tar");
                assert!(Cli::try_parse_from(shown.split(' ')).is_ok(), "{shown}");
                assert!(!shown.contains("/photos") && !shown.contains("--json"), "{shown}");
            }
        }
    }

    #[test]
    fn only_what_is_named_is_run() {
        let kinds = |only: &[Kind]| {
            let pieces = pieces(1, true, only, Path::new("/photos"));
            pieces.into_iter().map(|piece| piece.kind).collect::<Vec<_>>()
        };
        assert_eq!(kinds(&[Kind::Gpu, Kind::Link]), [Kind::Link, Kind::Gpu]);
    }
}
