//! Crates that could do a part of what renders samples, beside its own code:
//! `cargo run --release -- FOLDER_OF_TARS [ROUNDS]`.

mod decode;
mod resize;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = arguments.next().expect("FOLDER_OF_TARS [ROUNDS]");
    let rounds = arguments.next().map_or(15, |rounds| rounds.parse().expect("ROUNDS: a number"));
    resize::run(rounds);
    decode::run(&folder, rounds);
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
