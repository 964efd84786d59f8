//! `stubs`: Python that compiles, and whose names are the datasets.

use std::fs;
use std::process::Command;

use super::program::{Place, TRAIN};

const USE: &str = "
import hub, json, pickle
train = hub.public.rgb.photos.train
assert train == 'public/rgb/photos/train' and json.dumps([train]) == json.dumps([str(train)])
assert (train.samples, train.shards) == (256, 4), train.samples
assert train.total_bytes == sum(path.stat().st_size for path in train.paths())
assert hub.secret.ir._22k_odd.class_ == 'secret/ir/22k-odd/class'
assert hub.get('public/rgb/photos/train') is train
assert pickle.loads(pickle.dumps(train)).samples == 256
assert sorted(hub.DATASETS) == ['public/rgb/photos/train', 'secret/ir/22k-odd/class']
";

#[test]
fn the_file_compiles_and_names_every_split() {
    let place = Place::with_photos();
    place.put("secret/ir/22k-odd/class", "photos/photos-000003.tar");
    let said = place.printed(&["datasets", "stubs"]);
    assert_eq!(said, "hub.py: 2 datasets; in Python, `import hub`\n");
    let file = place.path("hub.py");
    assert!(fs::read_to_string(&file).unwrap().contains(TRAIN));
    for args in [["-m", "py_compile", "hub.py"].as_slice(), &["-c", USE]] {
        match Command::new("python3").args(args).current_dir(place.path("")).output() {
            Ok(output) => {
                let told = String::from_utf8_lossy(&output.stderr);
                assert!(output.status.success(), "{args:?}: {told}");
            }
            Err(_) => eprintln!("python3 is not installed: skipped"),
        }
    }
    let printed = place.printed(&["datasets", "stubs", "--out", "-"]);
    assert_eq!(printed, fs::read_to_string(&file).unwrap());
}

#[test]
fn a_file_of_another_name_is_imported_by_that() {
    let place = Place::with_photos();
    let said = place.printed(&["datasets", "stubs", "--out", "hub2.py"]);
    assert_eq!(said, "hub2.py: 1 dataset; in Python, `import hub2`\n");
    let text = fs::read_to_string(place.path("hub2.py")).unwrap();
    assert!(text.contains("    import hub2\n"), "{text}");
    assert!(text.contains("datasets=[hub2.public.rgb.photos.train]"), "{text}");
    let said = place.printed(&["datasets", "stubs", "--out", "my-hub.py"]);
    assert_eq!(
        said,
        "my-hub.py: 1 dataset; Python cannot import a file of that name: write one such as hub.py\n"
    );
}

#[test]
fn a_broken_shard_takes_no_name_away() {
    let place = Place::with_photos();
    place.put("public/rgb/photos/val", "bad/truncated.tar");
    let ended = place.run(&["datasets", "stubs", "--out", "-"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(ended.stderr.contains("not counted: ") && ended.stderr.contains("truncated.tar"));
    assert!(ended.stdout.contains("\"public/rgb/photos/val\""), "{}", ended.stdout);
}

#[test]
fn file_names_cannot_act_on_the_terminal() {
    let place = Place::with_photos();
    let shard = place.put("public/rgb/photos/val", "bad/truncated.tar");
    fs::rename(&shard, shard.with_file_name("\u{1b}[31mred\nnext.tar")).unwrap();
    let ended = place.run(&["datasets", "stubs", "--out", "\u{1b}[31mhub\n.py"]);
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(
        ended.stdout.starts_with("\\u{1b}[31mhub\\u{a}.py: 2 datasets; "),
        "{:?}",
        ended.stdout
    );
    let lines: Vec<&str> = ended.stderr.lines().filter(|line| line.contains("red")).collect();
    let [line] = lines[..] else { panic!("{:?}", ended.stderr) };
    assert!(line.starts_with("not counted: ") && line.contains("\\u{1b}[31mred next.tar"));
    let acts = |text: &str| text.chars().any(|c| c.is_control() && c != '\n');
    assert!(!acts(&ended.stdout) && !acts(&ended.stderr), "{:?}{:?}", ended.stdout, ended.stderr);
}

#[test]
fn a_hub_without_datasets_has_no_names() {
    let place = Place::new();
    fs::create_dir(place.path("hub")).unwrap();
    place.refused(&["datasets", "stubs"], &["no datasets", "datasets add"]);
}
