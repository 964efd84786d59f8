//! Prints the draws of the fixtures' views as JSON, by folder, for `tests/fixtures/make.py`, which
//! replays them with torchvision.

use std::collections::BTreeMap;

#[path = "../tests/golden/cases.rs"]
mod cases;
#[path = "../tests/golden/draws.rs"]
mod draws;

fn main() {
    let folders = cases::folders();
    let folders: BTreeMap<_, _> =
        folders.iter().map(|(folder, cases)| (folder, draws::of(cases))).collect();
    println!("{}", serde_json::to_string_pretty(&folders).expect("draws are plain data"));
}
