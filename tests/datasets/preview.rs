//! `preview`: the tree, its sums, and where the hub was looked for.

use std::fs;

use super::program::{Place, TRAIN, VAL, refused};
use super::tar_walk;

/// Samples, shards and bytes of the line whose label ends like this.
#[track_caller]
fn line<'a>(tree: &'a str, label: &str) -> Vec<&'a str> {
    let found = tree.lines().find(|line| line.contains(label));
    let words = found.unwrap_or_else(|| panic!("no {label} in\n{tree}")).split_whitespace();
    let words: Vec<&str> = words.collect();
    words[words.len() - 4..].to_vec()
}

#[test]
fn every_level_has_the_sums_of_what_is_below() {
    let place = Place::with_photos();
    place.put(VAL, "photos/photos-000003.tar");
    place.put("secret/ir/night/train", "bad/no-image.tar");
    let tree = place.printed(&["datasets", "preview"]);

    let shards = (0..4).map(|at| place.in_hub(TRAIN, &format!("photos-{at:06}.tar")));
    let (mut samples, mut bytes) = (0, 0);
    for shard in shards {
        samples += tar_walk::samples(&shard);
        bytes += fs::metadata(&shard).unwrap().len();
    }
    let val = tar_walk::samples(&place.in_hub(VAL, "photos-000003.tar"));
    let megabytes = format!("{:.1}", bytes as f64 / 1e6);
    assert_eq!(line(&tree, "── train"), [&samples.to_string(), "4", &megabytes, "MB"]);
    assert_eq!(line(&tree, "── val")[..2], [&val.to_string(), "1"]);
    for level in ["── photos", "── rgb", "── public"] {
        assert_eq!(line(&tree, level)[..2], [&(samples + val).to_string(), "5"], "{level}");
    }
    for level in ["── night", "── ir", "── secret"] {
        assert_eq!(line(&tree, level), ["4", "1", "10.2", "kB"], "{level}");
    }
    let all = (samples + val + 4).to_string();
    assert_eq!(line(&tree, "(HEADWATER_DATASETS_ROOT)")[..2], [&all, "6"]);
    assert!(tree.contains("scanned: 4 shards; `headwater datasets index`"), "{tree}");
}

#[test]
fn what_lies_outside_the_layout_and_what_is_broken_is_told() {
    let place = Place::with_photos();
    place.put("public/rgb", "bad/empty.tar");
    place.put("public/rgb/odd name/train", "bad/empty.tar");
    place.put(VAL, "bad/truncated.tar");
    let tree = place.printed(&["datasets", "preview"]);
    let told = |parts: [&str; 2]| {
        let found = tree.lines().any(|line| parts.iter().all(|part| line.contains(part)));
        assert!(found, "{parts:?}\n{tree}");
    };
    told(["left out: ", "odd name"]);
    told(["public/rgb/empty.tar: ", "four folders deep"]);
    told(["not counted: ", "truncated.tar"]);
    assert_eq!(line(&tree, "── train")[..2], ["256", "4"]);
}

#[test]
fn the_hub_is_looked_for_in_the_documented_order() {
    let place = Place::new();
    let names = ["flag", "file", "project", "ours", "seeds", "home/.headwater"];
    names.iter().for_each(|name| fs::create_dir_all(place.path(name)).unwrap());
    let path = |name: &str| place.path(name).display().to_string();
    let (ours, seeds) = (path("ours"), path("seeds"));
    let env = [("HEADWATER_DATASETS_ROOT", ours.as_str()), ("DINO_DATASETS_ROOT", &seeds)];
    let found = |env: &[(&str, &str)], args: &[&str]| {
        let ended = place.run_with(env, &[&["datasets", "preview"], args].concat());
        let line = ended.stdout.lines().nth(1).unwrap_or(&ended.stderr).to_owned();
        line.split(')').next().unwrap_or_default().to_owned() + ")"
    };
    assert_eq!(found(&[], &[]), format!("{} (default)", path("home/.headwater")));
    assert_eq!(found(&env[1..], &[]), format!("{seeds} (DINO_DATASETS_ROOT)"));
    assert_eq!(found(&env, &[]), format!("{ours} (HEADWATER_DATASETS_ROOT)"));
    let pyproject = path("pyproject.toml");
    fs::write(&pyproject, "[tool.headwater.datasets]\nroot = \"project\"\n").unwrap();
    assert_eq!(found(&env, &[]), format!("{} ({pyproject})", path("project")));
    fs::write(path("headwater.toml"), "[hub]\nroot = \"file\"\n").unwrap();
    assert_eq!(found(&env, &[]), format!("{} (headwater.toml)", path("file")));
    assert_eq!(found(&env, &["--root", "flag"]), format!("{} (--root)", path("flag")));
}

#[test]
fn no_hub_is_told_with_where_it_should_be() {
    let place = Place::new();
    let ended = place.run_with(&[], &["datasets", "preview", "--root", "nowhere"]);
    refused(&ended, &["nowhere", "--root", "datasets add"]);
}

#[test]
fn samples_of_files_that_are_in_no_hub_are_shown() {
    let place = Place::new();
    let folder = place.path("photos/dogs");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("1.jpg"), [0xff, 0xd8, 0, 1]).unwrap();
    let shown = place.printed(&["datasets", "preview", "photos"]);
    assert!(shown.starts_with("1 sample in 1 shard"), "{shown}");
    assert!(shown.contains("photos#0 0: dogs/1.jpg\n"), "{shown}");
    assert!(shown.contains("  cls: `0`\n  class: `dogs`\n"), "{shown}");
    let shown = place.printed(&["datasets", "preview", "--format", "folder", "photos"]);
    assert!(shown.contains("dogs/1.jpg"), "{shown}");
    let refused = place.run(&["datasets", "preview", "--format", "zip", "photos"]);
    assert_eq!(refused.code, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("`zip`") && refused.stderr.contains("`folder`"));
}
