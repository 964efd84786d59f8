//! Fields that the shards do not have: said when a stream is opened, before a batch is made.

use super::program::Place;

/// A shard of two photographs, whose members have these endings.
fn shard(place: &Place, image: &str, label: &str) -> String {
    let photo = std::fs::read(super::program::data("photos/photos-000003.tar")).unwrap();
    let mut archive = tar::Archive::new(&photo[..]);
    let mut builder = tar::Builder::new(Vec::new());
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().display().to_string();
        let (key, field) = name.split_once('.').unwrap();
        let field = if field == "jpg" { image } else { label };
        let mut data = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut data).unwrap();
        let mut header = tar::Header::new_ustar();
        header.set_size(data.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, format!("{key}.{field}"), &data[..]).unwrap();
    }
    let path = place.path("shard.tar");
    std::fs::write(&path, builder.into_inner().unwrap()).unwrap();
    format!("photos={}", path.display())
}

/// The sentence with which `run` refuses these fields.
#[track_caller]
fn refused(image: &str, label: &str, sentence: &str) {
    let place = Place::new();
    let dataset = shard(&place, image, label);
    place.refused(&["run", "--recipe", "imagenet-eval", "--dataset", &dataset], &[sentence]);
}

#[test]
fn a_label_field_that_no_sample_has() {
    refused(
        "jpg",
        "class.txt",
        "headwater: receiver: no sample of dataset `photos` has a label `cls|label` (receiver.label_field), only \
         `class.txt`, `jpg`: name one of these, or set receiver.label_field to \"\" to do without \
         labels",
    );
    let place = Place::new();
    let dataset = shard(&place, "jpg", "class.txt");
    let run = ["run", "--batch", "8", "--recipe", "imagenet-eval", "--dataset", &dataset];
    for field in ["", "class.txt"] {
        let field = format!("receiver.label_field={field}");
        place.printed(&[&["--set", &field], &run[..]].concat());
    }
}

#[test]
fn an_image_field_that_no_sample_has_and_dotted_names() {
    refused(
        "crop.jpg",
        "cls",
        "headwater: receiver: no sample of dataset `photos` has an image `jpg|jpeg|png|webp|image|img|gif|bmp|tif|tiff|ppm|pgm|pbm` \
         (receiver.image_field), only `cls`, `crop.jpg` (a field is all that follows the first dot \
         of a file's name): name one of these, or rename the files",
    );
}
