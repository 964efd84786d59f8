//! Plots are read by a parser of XML.

use quick_xml::Reader;
use quick_xml::events::Event;

use super::*;

/// An element: its name and its attributes.
type Element = (String, Vec<(String, String)>);

/// Elements and texts of a document; fails where it is not well-formed.
fn read(svg: &str) -> (Vec<Element>, Vec<String>) {
    let mut reader = Reader::from_str(svg);
    reader.config_mut().check_end_names = true;
    let (mut elements, mut texts, mut open) = (Vec::new(), Vec::new(), 0);
    let mut text = String::new();
    loop {
        let event = reader.read_event().expect("well-formed");
        open += i32::from(matches!(event, Event::Start(_)));
        open -= i32::from(matches!(event, Event::End(_)));
        match event {
            Event::Start(element) | Event::Empty(element) => {
                let attributes = element.attributes().map(|attribute| {
                    let attribute = attribute.expect("well-formed");
                    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
                    (text(attribute.key.as_ref()), text(&attribute.value))
                });
                let name = String::from_utf8(element.name().as_ref().to_vec()).expect("UTF-8");
                let attributes = attributes.collect();
                elements.push((name, attributes));
                text.clear();
            }
            Event::Text(part) => text.push_str(&part.decode().expect("UTF-8")),
            Event::GeneralRef(entity) => {
                let name = entity.decode().expect("UTF-8").into_owned();
                text.push_str(quick_xml::escape::resolve_predefined_entity(&name).expect("known"));
            }
            Event::End(_) => texts.push(std::mem::take(&mut text)),
            Event::Eof => break,
            _ => {}
        }
    }
    assert_eq!(open, 0, "an element is not closed");
    (elements, texts)
}

fn bars(bars: &[(&str, f64, Side)]) -> Option<String> {
    let bars = bars.iter().map(|(name, value, side)| Bar {
        name: (*name).to_owned(),
        value: *value,
        side: *side,
    });
    let sides = ["links", "yardsticks"];
    BarChart { title: "Links <&>", unit: "GB/s", sides, bars: bars.collect() }.svg()
}

fn numbers(attributes: &[(String, String)], name: &str) -> f64 {
    let value = attributes.iter().find(|(key, _)| key == name).expect("the attribute");
    value.1.parse().expect("a number")
}

#[test]
fn bars_are_as_long_as_their_figures_and_have_names_for_screen_readers() {
    let svg = bars(&[
        ("tcp", 2.0, Side::Ours),
        ("raw \"socket\" & <loop>\u{7}", 1.0, Side::Theirs),
        ("lost", f64::NAN, Side::Ours),
        ("endless", f64::INFINITY, Side::Ours),
    ])
    .expect("a plot");
    assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    let (elements, texts) = read(&svg);
    assert_eq!(texts[0], "Links <&>");
    assert!(texts[1].contains("tcp 2.00; raw \"socket\" & <loop>  1.00."), "{}", texts[1]);
    let lengths: Vec<f64> = elements
        .iter()
        .filter(|(name, attributes)| name == "rect" && numbers(attributes, "height") == 20.0)
        .map(|(_, attributes)| numbers(attributes, "width"))
        .collect();
    assert_eq!(lengths.len(), 2);
    assert!((lengths[0] - 2.0 * lengths[1]).abs() < 0.2, "{lengths:?}");
}

#[test]
fn lines_go_through_their_figures_in_the_room_of_the_plot() {
    let line = |name, side, points: &[(usize, f64)]| Line { name, side, points: points.to_vec() };
    let chart = LineChart {
        title: "dinov2",
        counts: "threads",
        unit: "images/s",
        lines: vec![
            line("three tiers", Side::Ours, &[(1, 500.0), (2, 1000.0), (64, f64::NAN)]),
            line("plain loop", Side::Theirs, &[(1, 510.0), (2, 990.0)]),
        ],
    };
    let svg = chart.svg().expect("a plot");
    let (elements, texts) = read(&svg);
    assert!(!svg.contains("NaN") && !texts.contains(&"64".to_owned()), "{svg}");
    let circles: Vec<_> = elements.iter().filter(|(name, _)| name == "circle").collect();
    assert_eq!(circles.len(), 4);
    let [first, second] = [0, 1].map(|at| numbers(&circles[at].1, "cy"));
    assert!(second < first && second > HEAD, "{first} {second}");
    for (_, attributes) in &circles {
        assert!((0.0..WIDTH).contains(&numbers(attributes, "cx")));
    }
}

#[test]
fn nothing_is_drawn_without_a_figure() {
    assert_eq!(bars(&[("lost", f64::NAN, Side::Ours)]), None);
    let lines = vec![Line { name: "lost", side: Side::Ours, points: Vec::new() }];
    assert_eq!(LineChart { title: "", counts: "", unit: "", lines }.svg(), None);
}

#[test]
fn both_colour_schemes_set_every_colour() {
    let svg = bars(&[("tcp", 2.0, Side::Ours)]).expect("a plot");
    let used = svg.split("var(").skip(1).filter_map(|rest| rest.split_once(')'));
    for (colour, _) in used {
        assert_eq!(svg.matches(&format!("{colour}:")).count(), 2, "{colour}");
    }
    assert!(!svg.contains("<script") && !svg.contains("href"), "{svg}");
}
