//! `buckets`: a list in the built-in order, and for each of its samples the size of the nearest aspect ratio.

use std::fs::{self, File};
use std::io::Read as _;

use super::program::{Place, data};

const SIZES: [[u32; 2]; 3] = [[64, 64], [48, 80], [80, 48]];

/// Elements of a `.npy` file of `bytes` bytes each, and its shape as the header has it.
fn npy(place: &Place, name: &str, bytes: usize) -> (String, Vec<u64>) {
    let file = fs::read(place.path(name)).expect("a file");
    let end = file.iter().position(|&byte| byte == b'\n').expect("a header") + 1;
    let header = String::from_utf8_lossy(&file[10..end]).into_owned();
    let shape = header.split("'shape': ").nth(1).expect("a shape");
    let shape = shape.split(')').next().expect("a shape").to_owned() + ")";
    let elements = file[end..].chunks_exact(bytes).map(|element| {
        let wide: Vec<u8> = element.iter().copied().chain([0; 8]).take(8).collect();
        u64::from_le_bytes(wide.try_into().expect("eight bytes"))
    });
    (shape, elements.collect())
}

/// Groups of all photographs by their numbers, by libjpeg-turbo's headers and logarithms.
fn expected() -> Vec<u64> {
    let mut groups = Vec::new();
    for shard in 0..4 {
        let path = data(&format!("photos/photos-{shard:06}.tar"));
        let mut archive = tar::Archive::new(File::open(path).expect("a shard"));
        for entry in archive.entries().expect("entries") {
            let mut entry = entry.expect("an entry");
            let is_image =
                entry.path().expect("a path").extension().is_some_and(|end| end == "jpg");
            if !is_image {
                continue;
            }
            let mut bytes = Vec::new();
            entry.read_to_end(&mut bytes).expect("bytes");
            let header = turbojpeg::read_header(&bytes).expect("a JPEG");
            let log = |width: f64, height: f64| (width / height).ln();
            let image = log(header.width as f64, header.height as f64);
            let apart = SIZES.map(|[h, w]| (image - log(w.into(), h.into())).abs());
            let least = (0..3).min_by(|&a, &b| apart[a].total_cmp(&apart[b])).expect("three");
            groups.push(least as u64);
        }
    }
    groups
}

/// A member of a shard of tests/data.
fn member(shard: &str, name: &str) -> Vec<u8> {
    let mut archive = tar::Archive::new(File::open(data(shard)).expect("a shard"));
    let mut entries = archive.entries().expect("entries").map(|entry| entry.expect("an entry"));
    let is = |entry: &tar::Entry<'_, File>| entry.path().expect("a path").as_os_str() == name;
    let mut found = entries.find(is).expect("a member of this name");
    let mut bytes = Vec::new();
    found.read_to_end(&mut bytes).expect("bytes");
    bytes
}

#[test]
fn each_image_has_the_group_of_the_nearest_aspect_ratio_in_the_built_in_order() {
    let place = Place::new();
    let dataset = format!("photos={}", data("photos/photos-*.tar").display());
    let sizes = ["--sizes", "64x64,48x80,80x48", "-o", "list.npy", "--seed", "3"];
    let args = [&["datasets", "buckets", &dataset][..], &sizes, &["--epochs", "2"]].concat();
    let said = place.printed(&args);
    let expected = expected();
    assert_eq!(expected.len(), 256);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines[0], "list.npy: 256 samples in 3 groups, 2 rows; groups in list.groups.npy");
    for (group, size) in ["64x64", "48x80", "80x48"].into_iter().enumerate() {
        let count = expected.iter().filter(|&&of| of == group as u64).count();
        assert!(count > 20, "too few to see anything: {count}");
        assert_eq!(lines[1 + group], format!("  group {group}  {size:>9}  {count} samples"));
    }
    let set = "--set receiver.order=list --set receiver.order_list=list.npy \
               --set receiver.order_groups=list.groups.npy";
    assert_eq!(lines[4], format!("use it with: {set}"));
    assert_eq!(lines.len(), 5);

    let (shape, numbers) = npy(&place, "list.npy", 8);
    let (of_groups, groups) = npy(&place, "list.groups.npy", 4);
    assert_eq!((shape.as_str(), of_groups.as_str()), ("(2, 256)", "(2, 256)"));
    for (number, group) in numbers.iter().zip(&groups) {
        assert_eq!(*group, expected[*number as usize], "sample {number}");
    }
    // Each row has each sample once, in the order that a plan of the built-in order shows.
    for (epoch, row) in numbers.chunks(256).enumerate() {
        let mut sorted = row.to_vec();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..256).collect::<Vec<u64>>());
        let epoch = epoch.to_string();
        let plan = ["plan", "--json", "--batch", "16", "--seed", "3", "--recipe", "raw"];
        let plan = [&plan[..], &["--epoch", &epoch, "--dataset", &dataset]].concat();
        let plan = place.printed(&plan);
        let firsts = [0, 80, 144, 215];
        for (line, number) in plan.lines().zip(row) {
            let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
            let shard = line["shard"].as_str().expect("a name");
            let shard: usize = shard[shard.len() - 10..][..6].parse().expect("a number");
            assert_eq!(firsts[shard] + line["index"].as_u64().expect("a number"), *number);
        }
    }
    // The same again is the same list, with another seed another one.
    let before = fs::read(place.path("list.npy")).expect("a file");
    place.printed(&args);
    assert_eq!(fs::read(place.path("list.npy")).expect("a file"), before);
    place.printed(&[&args[..], &["--set", "receiver.shuffle_block=0"]].concat());
    assert_eq!(npy(&place, "list.npy", 8).1[..256], (0..256).collect::<Vec<u64>>());
}

#[test]
fn an_image_that_cannot_be_read_has_the_group_of_the_one_that_stands_in_for_it() {
    let place = Place::new();
    let wide = member("bad/broken-jpeg.tar", "000000.jpg");
    let square = member("fields/fields.tar", "0000.jpg");
    let shard = File::create(place.path("mixed.tar")).expect("a shard");
    let mut shard = tar::Builder::new(shard);
    // The last one's stand-in is the first one.
    for (name, bytes) in [("a", &wide[..]), ("b", b"none"), ("c", &square), ("d", b"none")] {
        let mut header = tar::Header::new_gnu();
        header.set_size(bytes.len() as u64);
        shard.append_data(&mut header, format!("{name}.jpg"), bytes).expect("a member");
    }
    shard.finish().expect("a shard");
    let args = ["datasets", "buckets", "mixed=mixed.tar", "--sizes", "9x9,9x12", "-o", "list.npy"];
    let said = place.printed(&[&args[..], &["--set", "receiver.shuffle_block=0"]].concat());
    let unread = "2 images cannot be read: such a sample has the group of the next one\n";
    assert!(said.contains(unread), "{said}");
    assert_eq!(npy(&place, "list.groups.npy", 4).1, [1, 0, 0, 1]);

    // What is wrong is written down in tests/data/README.md: 5 is no image, 7 is too large. 6 is a PNG.
    let dataset = format!("bad={}", data("bad/broken-jpeg.tar").display());
    let args = ["datasets", "buckets", &dataset, "--sizes", "9x9,9x12", "-o", "list.npy"];
    assert!(place.printed(&args).contains(unread));
    assert_eq!(npy(&place, "list.groups.npy", 4).1, [1; 8]);

    let none = format!("bad={}", data("bad/no-image.tar").display());
    let args = ["datasets", "buckets", &none, "--sizes", "1x1", "-o", "none.npy"];
    place.refused(&args, &["no-image.tar", "sample 0", "have an image"]);
    assert!(!place.path("none.npy").exists() && !place.path("none.groups.npy").exists());
}

#[test]
fn sizes_are_those_of_the_flag_or_of_the_recipe() {
    let place = Place::new();
    let shard = data("photos/photos-000003.tar").display().to_string();
    let config = format!(
        "[[dataset]]\nname = \"photos\"\nshards = [\"{shard}\"]\n[recipe]\npreset = \"custom\"\n\
         [[recipe.tensors]]\nname = \"images\"\ndtype = \"u8\"\naspect_buckets = [[8, 8], [4, 16]]\n\
         views = [{{ crop = {{ kind = \"resize\" }} }}]\n"
    );
    fs::write(place.path("headwater.toml"), config).expect("a file");
    let said = place.printed(&["datasets", "buckets", "-o", "list.npy"]);
    assert!(said.starts_with("list.npy: 41 samples in 2 groups, 1 row;"), "{said}");
    assert!(said.contains("\n  group 1       4x16  "), "{said}");
    let dataset = format!("photos={shard}");
    let folder = place.path("elsewhere");
    fs::create_dir(&folder).expect("a folder");
    let mut command = place.command(&["datasets", "buckets", &dataset, "-o", "list.npy"]);
    let ended = super::program::ended(command.current_dir(&folder).output().expect("it starts"));
    super::program::refused(&ended, &["no sizes: give --sizes", "aspect_buckets"]);
    let args = ["datasets", "buckets", &dataset, "-o", "nowhere/list.npy", "--sizes", "8x8,4x16"];
    place.refused(&args, &["cannot write `nowhere/list.groups.npy`"]);
    let args = ["datasets", "buckets", &dataset, "-o", "list.npy", "--sizes", "4x16,8x8"];
    place.refused(&args, &["--sizes is [[4, 16], [8, 8]]", "[[8, 8], [4, 16]]: leave --sizes out"]);
    let wrong = place.run(&["datasets", "buckets", &dataset, "-o", "l.npy", "--sizes", "4"]);
    assert!(wrong.stderr.contains("write height and width, as in `384x640`"), "{}", wrong.stderr);
    assert_eq!(wrong.code, Some(2));
}
