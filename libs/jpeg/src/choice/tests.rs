use super::*;

fn measured(way: Way, segments: usize, ns_per_symbol: f64) -> Measured {
    Measured { way, segments, ns_per_symbol }
}

#[test]
fn the_sample_has_all_segments_and_every_way_decodes_it() {
    for &simd in Simd::available() {
        let mut bench = Bench::new(simd).unwrap();
        assert!(bench.symbols > 32 * 200, "{} symbols", bench.symbols);
        let counts: Vec<_> = bench.segments.iter().map(Vec::len).collect();
        assert_eq!(counts, LANES);
        let bits_per_symbol = f64::from(bench.stream.bits()) / f64::from(bench.symbols);
        assert!((5.0..7.0).contains(&bits_per_symbol), "{bits_per_symbol}: photographs have 5.8");
        let ways = bench.run().unwrap();
        assert!(ways.iter().all(|of| of.ns_per_symbol < f64::MAX), "{ways:?}");
    }
}

#[test]
fn the_fastest_way_is_chosen() {
    let scalar = [
        measured(Way::One, 1, 4.0),
        measured(Way::Interleaved, 2, 3.5),
        measured(Way::Interleaved, 3, 3.0),
    ];
    let lanes = |eight, all| [measured(Way::Lanes, 8, eight), measured(Way::Lanes, 32, all)];
    let none = Choice::ONE_AFTER_THE_OTHER;
    let streams = Choice { streams: 3, windows_from: Some(256), ..none };
    let chosen = |lanes: &[Measured]| Choice::among(&[&scalar, lanes].concat());
    assert_eq!(chosen(&[]), streams);
    assert_eq!(
        chosen(&lanes(2.0, 1.0)),
        Choice { lanes_from: Some(8), speculates_from: Some(256), ..streams }
    );
    assert_eq!(
        chosen(&lanes(3.0, 1.0)),
        Choice { lanes_from: Some(32), speculates_from: Some(256), ..streams }
    );
    assert_eq!(chosen(&lanes(9.0, 5.0)).lanes_from, None);
    let in_step = |all| chosen(&lanes(9.0, all)).speculates_from;
    assert_eq!([2.3, 2.5].map(in_step), [Some(256), None], "lanes run on into each other's parts");
    let streams = |one| {
        let turns = measured(Way::Interleaved, 2, 2.0);
        let Choice { streams, windows_from, .. } =
            Choice::among(&[measured(Way::One, 1, one), turns]);
        (streams, windows_from)
    };
    let expected = [(1, None), (2, Some(256))];
    assert_eq!([1.5, 1.9].map(streams), expected, "a little faster is not enough");
    assert_eq!(Choice::among(&[]), Choice::ONE_AFTER_THE_OTHER);
}

#[test]
fn speeds_are_measured_once() {
    let simd = Simd::best();
    assert!(std::ptr::eq(Speeds::of(simd), Speeds::of(simd)));
    assert_eq!(Speeds::of(Simd::Plain).choice, Choice::ONE_AFTER_THE_OTHER);
    let said = Speeds::of(simd).to_string();
    assert!(simd == Simd::Plain || said.starts_with("one by 1: "), "{said}");
}
