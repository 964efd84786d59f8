//! Whether the job's datasets have the fields that are to be read.

use std::borrow::Borrow;

use headwater_core::fields::{found_instead, has_field};
use headwater_core::recipe::FieldSpec;
use headwater_core::{Manifest, Recipe};

use crate::error::ReceiverError;

/// Checks the fields that the storage tier has seen: `image` and `label` are names with `|` between
/// alternatives, an empty `label` wants none. The log names a dataset without labels if others have
/// some.
///
/// # Errors
/// A dataset has no image at all, or no dataset has a label.
pub(crate) fn check_fields<M: Borrow<Manifest>>(
    manifests: &[M],
    image: &str,
    label: &str,
) -> Result<(), ReceiverError> {
    let without = |wanted: &str| -> Vec<&Manifest> {
        let all = manifests.iter().map(Borrow::borrow);
        all.filter(|manifest: &&Manifest| !has_field(manifest.fields(), wanted)).collect()
    };
    if let Some(manifest) = without(image).first() {
        let found = found_instead(manifest.fields(), image);
        let dataset = manifest.dataset().to_owned();
        return Err(ReceiverError::NoImages { dataset, wanted: image.to_owned(), found });
    }
    let unlabelled = if label.is_empty() { Vec::new() } else { without(label) };
    match unlabelled.first() {
        Some(manifest) if unlabelled.len() == manifests.len() => {
            let found = found_instead(manifest.fields(), label);
            let dataset = manifest.dataset().to_owned();
            Err(ReceiverError::NoLabels { dataset, wanted: label.to_owned(), found })
        }
        _ => {
            for manifest in unlabelled {
                let dataset = manifest.dataset();
                tracing::warn!(dataset, label, "no sample of the dataset has a label: all are -1");
            }
            Ok(())
        }
    }
}

/// Checks the recipe's fields against those that the storage tier has seen. The log names a dataset without a
/// field, where that field has a default.
///
/// # Errors
/// No sample of a dataset has a field that every sample must have.
pub(crate) fn check_siblings<M: Borrow<Manifest>>(
    manifests: &[M],
    specs: &[FieldSpec],
) -> Result<(), ReceiverError> {
    for spec in specs {
        let (name, wanted) = (&spec.name, &spec.field);
        for manifest in manifests.iter().map(Borrow::borrow) {
            let dataset = manifest.dataset();
            if has_field(manifest.fields(), wanted) {
                continue;
            }
            if spec.is_required() {
                return Err(no_field(manifest, name, wanted));
            }
            tracing::warn!(
                dataset,
                field = wanted,
                name,
                "no sample has the field: all are the default"
            );
        }
    }
    Ok(())
}

/// Checks that the datasets have what follows the views of images: masks, depth and boxes.
///
/// # Errors
/// No sample of a dataset has the field of one of them.
pub(crate) fn check_followers<M: Borrow<Manifest>>(
    manifests: &[M],
    recipe: &Recipe,
) -> Result<(), ReceiverError> {
    for (name, wanted) in recipe.aligned_targets() {
        let mut all = manifests.iter().map(Borrow::borrow);
        if let Some(lacking) = all.find(|manifest| !has_field(manifest.fields(), wanted)) {
            return Err(no_field(lacking, name, wanted));
        }
    }
    Ok(())
}

fn no_field(manifest: &Manifest, name: &str, wanted: &str) -> ReceiverError {
    ReceiverError::NoField {
        dataset: manifest.dataset().to_owned(),
        name: name.to_owned(),
        wanted: wanted.to_owned(),
        found: found_instead(manifest.fields(), wanted),
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::{Digest, ShardEntry};

    use super::*;

    fn manifest(dataset: &str, fields: &[&str]) -> Manifest {
        let shard = ShardEntry { name: "a.tar".into(), samples: 1, bytes: 1024, digest: Digest(1) };
        let fields = fields.iter().map(|&field| field.to_owned()).collect();
        Manifest::new(dataset.into(), fields, vec![shard]).expect("a manifest")
    }

    fn refused(manifests: &[Manifest], label: &str) -> String {
        check_fields(manifests, "jpg|png", label).unwrap_err().to_string()
    }

    #[test]
    fn a_label_that_no_sample_has_is_refused_with_the_fields_there_are() {
        let photos = [manifest("photos", &["jpg", "json"])];
        assert_eq!(
            refused(&photos, "cls"),
            "no sample of dataset `photos` has a label `cls` (receiver.label_field), only `jpg`, \
             `json`: name one of these, or set receiver.label_field to \"\" to do without labels"
        );
        assert!(check_fields(&photos, "jpg|png", "").is_ok());
        assert!(check_fields(&photos, "jpg|png", "cls|JSON").is_ok());
        let labelled = manifest("labelled", &["jpg", "cls"]);
        let [photos] = photos;
        assert!(check_fields(&[photos, labelled], "jpg|png", "cls").is_ok());
    }

    #[test]
    fn a_field_that_no_sample_has_is_refused_unless_it_has_a_default() {
        let photos = [manifest("captioned", &["jpg", "txt"]), manifest("photos", &["jpg", "cls"])];
        let spec = |keys: serde_json::Value| serde_json::from_value::<FieldSpec>(keys).unwrap();
        let caption =
            spec(serde_json::json!({"name": "caption", "field": "txt|TEXT", "kind": "text"}));
        let said = check_siblings(&photos, &[caption]).unwrap_err().to_string();
        assert_eq!(
            said,
            "no sample of dataset `photos` has a field `txt|TEXT` (`caption` of the recipe), only \
             `cls`, `jpg`: name one of these as its `field`, or leave the field out"
        );
        let text = serde_json::json!({"name": "txt", "kind": "text", "default": ""});
        assert!(check_siblings(&photos, &[spec(text)]).is_ok());
        let label = serde_json::json!({"name": "class", "field": "cls|txt", "kind": "int"});
        assert!(check_siblings(&photos, &[spec(label)]).is_ok());
    }

    #[test]
    fn a_dataset_without_masks_is_refused_if_the_recipe_has_them() {
        let mut recipe = Recipe::preset("imagenet-train", headwater_core::Dtype::U8).unwrap();
        let masks = serde_json::json!({"name": "masks", "field": "png|mask.png", "like": "images",
            "dtype": "u8", "height": 224, "width": 224});
        recipe.aligned.push(serde_json::from_value(masks).unwrap());
        let [with, without] = [&["jpg", "mask.png"][..], &["jpg"]].map(|f| manifest("photos", f));
        assert!(check_followers(std::slice::from_ref(&with), &recipe).is_ok());
        let said = check_followers(&[with, without], &recipe).unwrap_err().to_string();
        assert!(
            said.contains("has a field `png|mask.png` (`masks` of the recipe), only `jpg`"),
            "{said}"
        );
    }

    #[test]
    fn a_dataset_without_images_is_refused_and_dotted_names_are_explained() {
        let good = manifest("good", &["jpg", "cls"]);
        assert_eq!(
            refused(&[good, manifest("dotted", &["b.cls", "b.jpg"])], "cls"),
            "no sample of dataset `dotted` has an image `jpg|png` (receiver.image_field), only \
             `b.cls`, `b.jpg` (a field is all that follows the first dot of a file's name): name \
             one of these, or rename the files"
        );
    }
}
