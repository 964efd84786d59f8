//! Lists as files and arrays, good ones and others.

use std::path::PathBuf;

use headwater_core::sampler::{Order, OrderList, Rows};
use headwater_inventory::MemoryRoom;
use tempfile::TempDir;

use super::{OrderArrays, RawArray, number};
use crate::config::{OrderConfig, ReceiverConfig};
use crate::error::ReceiverError;

/// A `.npy` file of a header that says anything.
fn npy(dictionary: &str, elements: &[u8]) -> Vec<u8> {
    let length = (dictionary.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\0", &length[..], dictionary.as_bytes(), elements].concat()
}

fn header(descr: &str, shape: &str) -> String {
    format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}\n")
}

fn file(folder: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, bytes).expect("a file");
    path
}

fn config() -> OrderConfig {
    OrderConfig { order: Order::List, ..OrderConfig::default() }
}

fn read(order: &OrderConfig, arrays: OrderArrays) -> Result<Option<OrderList>, ReceiverError> {
    let order = order.clone();
    super::order_list(&ReceiverConfig { order, ..ReceiverConfig::default() }, arrays)
}

/// What `order_list` of these bytes gives.
fn listed(bytes: &[u8]) -> Result<OrderList, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let order_list = file(&folder, "list", bytes);
    let config = OrderConfig { order_list, ..config() };
    read(&config, OrderArrays::default())
        .map(|list| list.expect("a list"))
        .map_err(|error| error.to_string())
}

fn numbers(columns: usize, numbers: &[u64]) -> OrderList {
    OrderList::numbers(Rows::of_columns(columns, numbers.to_vec()).unwrap(), None).unwrap()
}

#[test]
fn every_type_and_text_are_the_same_list() {
    let values = [7_u64, 0, 3, 100, 2, 2];
    let expected = numbers(6, &values).digest();
    let little = |bytes: usize| {
        let one = |value: &u64| value.to_le_bytes()[..bytes].to_vec();
        values.iter().flat_map(one).collect::<Vec<u8>>()
    };
    let big: Vec<u8> = values.iter().flat_map(|&value| (value as i32).to_be_bytes()).collect();
    for (descr, bytes) in [
        ("<i4", little(4)),
        ("<i8", little(8)),
        ("<u4", little(4)),
        ("<u8", little(8)),
        ("<u2", little(2)),
        ("|u1", little(1)),
        (">i4", big),
    ] {
        assert_eq!(
            listed(&npy(&header(descr, "(6,)"), &bytes)).unwrap().digest(),
            expected,
            "{descr}"
        );
        let array = RawArray { descr, shape: &[6], bytes: &bytes };
        let mut arrays = OrderArrays::default();
        arrays.set("order_list", array).unwrap();
        let list = read(&config(), arrays).unwrap().unwrap();
        assert_eq!(list.digest(), expected, "{descr}");
    }
    assert_eq!(listed(b"7\n0\r\n 3\n\n100\n2\n2").unwrap().digest(), expected);
    let rows = numbers(3, &values).digest();
    assert_eq!(listed(&npy(&header("<i8", "(2, 3)"), &little(8))).unwrap().digest(), rows);
}

#[test]
fn what_is_no_list_is_refused_with_its_place() {
    let eight = |numbers: &[i64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    let array = |descr: &str, shape: &str, bytes: &[u8]| npy(&header(descr, shape), bytes);
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (array("<i8", "(1099511627776,)", b"12345678"), "is over the limit of 2147483648 entries"),
        (array("<i8", "(99999999999, 99999999999)", b""), "is over the limit"),
        (
            array("<i8", "(1000000000,)", b"12345678"),
            "1000000000 elements of 8 bytes, and 8 bytes follow",
        ),
        (array("<i8", "(1,)", b"123456789"), "and 9 bytes follow"),
        (array("<i8", "(1, 1, 1)", b"12345678"), "it has 3 axes"),
        (array("<i8", "()", b"12345678"), "it has 0 axes"),
        (array("<i8", "(0,)", b""), "the list is empty"),
        (array("<i8", "(3, 0)", b""), "the list is empty"),
        (array("<i8", "(2, 2)", &eight(&[0, 1, 2, -3])), "row 1, place 1: -3 is negative"),
        (array("<i8", "(2,)", &eight(&[0, -1])), "entry 1: -1 is negative"),
        (array("<f8", "(1,)", &1.5f64.to_le_bytes()), "entry 0: 1.5 is not a whole number"),
        (array("|b1", "(1,)", b"1"), "its type `|b1` is not one of whole numbers"),
        // Headers of version 1 are Latin-1.
        (array("é", "(1,)", b"1"), "its type `Ã©` is not known"),
        (npy("{'descr': '|O'", b""), "dictionary"),
        (b"\x93NUMPY\x02\0\xff\xff\xff\xff".to_vec(), "the header has 4294967295 bytes"),
        (b"\x93NUMPY\x01\0\xff\x00".to_vec(), "the header is cut off"),
        (b"\x93NUMPY".to_vec(), "does not begin as a `.npy` file does"),
        (Vec::new(), "the list is empty"),
        (b"1\n-2\n".to_vec(), "line 2: -2 is negative"),
        (b"1\n2 3\n".to_vec(), "line 2: `2 3` is not a number"),
        (b"1.000000000000000000e+00\n".to_vec(), "numpy.savetxt(path, array, fmt=\"%d\")"),
        (b"{\"sample\": 1}\n".to_vec(), "line 1: `{\\\"sample\\\": 1}` is not a number"),
        (b"\xff\xd8\xff\xe0\n".to_vec(), "line 1: it is not text"),
        (vec![b'1'; 1000], "line 1: it has 256 bytes or more"),
        (b"99999999999999999999\n".to_vec(), "is not a whole number"),
    ];
    for (bytes, expected) in cases {
        let text = listed(&bytes).unwrap_err();
        assert!(text.contains(expected), "{text} lacks {expected}");
    }
}

#[test]
fn a_list_that_memory_does_not_hold_is_refused_before_it_is_read() {
    let room = |free_bytes| Some(MemoryRoom { free_bytes, from: "memory.max".into() });
    let mut values: Vec<u64> = Vec::new();
    let text = number::reserve(&mut values, 200_000_000, room(600 << 20)).unwrap_err();
    let told = ["200000000 entries", "1600000000 bytes", "629145600 are free (memory.max)"];
    assert!(told.iter().all(|part| text.contains(part)) && values.capacity() == 0, "{text}");
    // What the system does not give is no abort.
    let text = number::reserve(&mut values, 1 << 59, None).unwrap_err();
    assert!(text.contains("which the system does not give"), "{text}");
    number::reserve(&mut values, 1000, room(16_000)).unwrap();
}

#[test]
fn groups_and_weights_are_read_beside_the_list() {
    let folder = tempfile::tempdir().expect("a folder");
    let list = file(&folder, "list", b"4\n5\n6\n7\n");
    let groups = file(&folder, "groups", b"0\n1\n1\n0\n");
    let weights = file(&folder, "weights", b"0.5\n1\n2e0\n0");
    let of = |config: &OrderConfig| read(config, OrderArrays::default());
    let grouped =
        OrderConfig { order_list: list.clone(), order_groups: groups.clone(), ..config() };
    let expected =
        OrderList::numbers(Rows::one(vec![4, 5, 6, 7]), Some(Rows::one(vec![0, 1, 1, 0])));
    assert_eq!(of(&grouped).unwrap().unwrap().digest(), expected.unwrap().digest());
    let weighted = OrderConfig { order_weights: weights.clone(), ..config() };
    let expected = OrderList::weights(vec![0.5, 1.0, 2.0, 0.0]).unwrap();
    assert_eq!(of(&weighted).unwrap().unwrap().digest(), expected.digest());

    let refused = |config: OrderConfig| of(&config).unwrap_err().to_string();
    assert!(refused(config()).contains("needs receiver.order_list or receiver.order_weights"));
    let both = OrderConfig { order_list: list.clone(), ..weighted.clone() };
    assert!(refused(both).contains("does not go with receiver.order_list"));
    let alone = OrderConfig { order_groups: groups.clone(), ..config() };
    assert!(refused(alone).contains("needs receiver.order_list beside its groups"));
    let global = OrderConfig { order: Order::Global, ..grouped.clone() };
    let text = refused(global);
    assert!(text.contains("receiver.order_list is") && text.contains("order = \"list\""), "{text}");
    let missing = OrderConfig { order_list: folder.path().join("nowhere"), ..config() };
    let text = refused(missing);
    assert!(text.contains("receiver.order_list") && text.contains("nowhere"), "{text}");
    assert!(text.contains("No such file"), "{text}");
    let a_folder = OrderConfig { order_list: folder.path().to_owned(), ..config() };
    assert!(refused(a_folder).contains("it is not a file"));
    let mut arrays = OrderArrays::default();
    let array = RawArray { descr: "|u1", shape: &[1], bytes: &[0] };
    arrays.set("order_list", array).unwrap();
    let text = read(&grouped, arrays.clone()).unwrap_err().to_string();
    assert!(text.contains("an array is given, too"), "{text}");
    let text = read(&OrderConfig::default(), arrays).unwrap_err().to_string();
    assert!(text.contains("with a list of samples it must be \"list\""), "{text}");
    let too_large = RawArray { descr: "<u8", shape: &[1], bytes: &[0xff; 8] };
    let text = OrderArrays::default().set("order_groups", too_large).unwrap_err().to_string();
    assert!(text.contains("receiver.order_groups (array): entry 0"), "{text}");
}

#[test]
fn a_file_that_is_cut_or_changed_anywhere_is_a_list_or_refused() {
    let values: Vec<u8> = [1_i64, 2, 3].iter().flat_map(|n| n.to_le_bytes()).collect();
    let good = npy(&header("<i8", "(3,)"), &values);
    for cut in 0..good.len() {
        assert!(listed(&good[..cut]).is_err(), "cut at {cut}");
    }
    for place in 0..good.len() {
        for bit in 0..8 {
            let mut bytes = good.clone();
            bytes[place] ^= 1 << bit;
            let _ = listed(&bytes);
        }
    }
}
