use std::path::PathBuf;

use super::*;
use crate::format::arrays::trial::{self, Held};
use crate::format::conformance;

fn tokens(dataset: &DatasetConfig) -> Box<dyn Format> {
    Box::new(Tokens::new(dataset))
}

fn in_lengths_of(length: u32) -> Tokens {
    let dataset = DatasetConfig { sequence_length: Some(length), ..DatasetConfig::default() };
    Tokens::new(&dataset)
}

fn whole(place: &Place) -> Vec<u8> {
    let object = place.open().unwrap();
    object.read(0..object.bytes()).unwrap().to_vec()
}

#[test]
fn sequences_are_those_that_megatron_cuts() {
    trial::fixtures("tokens/", 6, tokens);
}

#[test]
fn any_index_gives_samples_or_an_error() {
    let good = trial::read_place("tokens/short.bin");
    let (bin, idx) = (whole(&good), whole(&good.beside("short.idx")));
    let read = |bytes| {
        let files: Vec<(PathBuf, Vec<u8>)> =
            vec![("a.bin".into(), bin.clone()), ("a.idx".into(), bytes)];
        trial::samples(&in_lengths_of(7), &Held::place_among("a.bin", files))
    };
    trial::mutate_with(&idx, 1, &read);
}

#[test]
fn tokens_that_are_cut_off_are_named() {
    let good = trial::read_place("tokens/short.bin");
    let (mut bin, idx) = (whole(&good), whole(&good.beside("short.idx")));
    bin.truncate(bin.len() - 2);
    let files = vec![("a.bin".into(), bin), ("a.idx".into(), idx)];
    let place = Held::place_among("a.bin", files);
    let error = in_lengths_of(7).outlines(&place).unwrap_err().to_string();
    assert!(error.contains("a.idx") && error.contains("its sequences end at byte"), "{error}");
}

#[test]
fn it_keeps_the_contract_of_formats() {
    let make = || -> Arc<dyn Format> { Arc::new(in_lengths_of(7)) };
    conformance::check(&make, &Place::of_file(&trial::path("tokens/short.bin")));
}

#[test]
fn files_that_the_package_writes_now_give_their_samples() {
    trial::written_now("tokens", 6, tokens);
}
