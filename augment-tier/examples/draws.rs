//! Prints the draws of the fixtures' views as JSON, for `tests/fixtures/make.py`, which replays
//! them with torchvision.

#[path = "../tests/golden/draws.rs"]
mod draws;

fn main() {
    println!("{}", serde_json::to_string_pretty(&draws::all()).expect("draws are plain data"));
}
