//! Entries of a list become addresses.

use headwater_discovery::Places;

fn look(list: &[&str]) -> Vec<String> {
    let sight = Places::parse(list).unwrap().look();
    assert_eq!(sight.troubles, []);
    sight.addresses
}

#[test]
fn a_host_without_a_port_takes_the_next_ones() {
    let wanted = ["n0:7402", "n3:7402", "g01:7402", "g02:7402", "far:9"];
    assert_eq!(look(&["n[0,3],g[01-02]:7402", "far:9"]), wanted);
    // As a flag's list arrives, cut at commas.
    assert_eq!(look(&["n[0,3]", "g[01-02]:7402", "far:9"]), wanted);
}

#[test]
fn an_address_is_found_once_however_often_it_is_named() {
    assert_eq!(look(&["b:1", "[::1]:7401", "n[1-2]:1,n2:1", "b:1"]).len(), 4);
    assert_eq!(Places::parse(&["a:1", "b:1,a:1"]).unwrap().written_twice(), Some("a:1"));
    assert_eq!(Places::parse(&["a:1", "a:2"]).unwrap().written_twice(), None);
}

#[test]
fn an_entry_that_is_wrong_is_named_with_the_remedy() {
    let odd = [
        ("store", "write `host:port`"),
        ("store:", "write `host:port`"),
        ("store:0", "write `host:port`"),
        ("store:70000", "write `host:port`"),
        (":7401", "write `host:port`"),
        ("", "write `host:port`"),
        ("http://store:7401", "write `host:port`"),
        ("n[5-3]:1", "lower to its higher"),
        ("[::g]:1", "write `host:port`"),
        ("dns:store", "write `dns:name:port`"),
        ("dns::1", "write `dns:name:port`"),
        ("dns:store:0", "write `dns:name:port`"),
        ("slices:augment:7402", "write `slices:namespace/service:port`"),
        ("slices:ml/augment", "write `slices:namespace/service:port`"),
        ("slices:ml/a/b:7402", "write `slices:namespace/service:port`"),
        ("file:", "write `file:/path`"),
    ];
    for (entry, remedy) in odd {
        let error = Places::parse(&["fine:1", entry]).expect_err(entry);
        assert!(!error.is_retryable());
        let error = error.to_string();
        assert!(error.contains(&format!("`{entry}`")) && error.contains(remedy), "{error}");
    }
    // There is no port after it to take.
    assert!(Places::parse(&["store", "dns:other:1"]).is_err());
}

#[test]
fn a_name_gives_all_its_records_and_an_unknown_one_is_told() {
    let found = look(&["dns:localhost:7402"]);
    assert!(found.contains(&"127.0.0.1:7402".to_owned()), "{found:?}");
    let mut unknown = Places::parse(&["dns:headwater.invalid:1"]).unwrap();
    assert!(unknown.change());
    let sight = unknown.look();
    assert!(sight.addresses.is_empty());
    assert!(sight.troubles[0].is_retryable());
    assert!(sight.troubles[0].to_string().contains("`dns:headwater.invalid:1`"));
}

#[test]
fn a_file_is_read_again_and_what_it_gave_is_kept_while_it_gives_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("workers");
    let entry = format!("file:{}", path.display());
    let mut places = Places::parse(&["fixed:1", &entry]).unwrap();
    assert_eq!(places.look().addresses, ["fixed:1"], "a file may come later");

    std::fs::write(&path, "# rack 1\na:1\n\n n[1-2]:2 # two\n").unwrap();
    assert_eq!(places.look().addresses, ["fixed:1", "a:1", "n1:2", "n2:2"]);
    std::fs::write(&path, "a:1\nb:3\n").unwrap();
    assert_eq!(places.look().addresses, ["fixed:1", "a:1", "b:3"]);

    for (text, trouble) in
        [("", "no address yet"), ("a:1\nb\n", "line 2 has `b`"), ("file:/x", "`")]
    {
        std::fs::write(&path, text).unwrap();
        let sight = places.look();
        assert_eq!(sight.addresses, ["fixed:1", "a:1", "b:3"], "{text:?} sends nobody away");
        assert!(sight.troubles[0].to_string().contains(trouble), "{:?}", sight.troubles);
    }
    std::fs::write(&path, "#".repeat((4 << 20) + 1)).unwrap();
    let sight = places.look();
    assert!(sight.troubles[0].to_string().contains("longer than 4194304 bytes"));
    assert_eq!(sight.addresses, ["fixed:1", "a:1", "b:3"]);
    std::fs::remove_file(&path).unwrap();
    assert_eq!(places.look().addresses, ["fixed:1", "a:1", "b:3"]);
}

#[test]
fn outside_of_a_cluster_slices_give_nothing_and_say_why() {
    let mut places = Places::parse(&["slices:ml/hw-augment:grpc"]).unwrap();
    assert!(places.change());
    let sight = places.look();
    assert_eq!(sight.addresses, [""; 0]);
    let said = sight.troubles[0].to_string();
    assert!(said.contains("`slices:ml/hw-augment:grpc`") && said.contains("pod"), "{said}");
}
