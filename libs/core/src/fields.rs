//! Names of fields as people write them: `jpg|jpeg|png` is the first of these that a sample has.

/// Fields in which images are looked for, if nobody says otherwise: the endings of what is decoded, and names in tables.
pub const IMAGE_FIELD: &str = "jpg|jpeg|png|webp|image|img|gif|bmp|tif|tiff|ppm|pgm|pbm";

/// Names that a sentence lists; the others are counted.
const LISTED_MAX: usize = 8;

/// Whether one of the alternatives `wanted` is among the fields found. Case does not count.
#[must_use]
pub fn has_field<S: AsRef<str>>(found: &[S], wanted: &str) -> bool {
    wanted.split('|').any(|name| found.iter().any(|f| f.as_ref().eq_ignore_ascii_case(name)))
}

/// Checks that a field is named, and so is each alternative.
///
/// # Errors
/// What must be done.
pub fn check_selector(field: &str) -> Result<(), &'static str> {
    if field.split('|').any(|name| name.trim().is_empty()) {
        return Err("must name a field of the samples, or several with `|` between them");
    }
    Ok(())
}

/// The fields found, for a sentence that says that none of `wanted` is among them.
#[must_use]
pub fn found_instead<S: AsRef<str>>(found: &[S], wanted: &str) -> String {
    let quoted = |name: &S| format!("`{}`", name.as_ref());
    let mut text = match found.len() {
        0 => "none".to_owned(),
        _ => found.iter().take(LISTED_MAX).map(quoted).collect::<Vec<_>>().join(", "),
    };
    if let more @ 1.. = found.len().saturating_sub(LISTED_MAX) {
        text.push_str(&format!(" and {more} more"));
    }
    let ends_like = |field: &S| {
        let last = field.as_ref().rsplit_once('.').map(|(_, last)| last);
        last.is_some_and(|last| wanted.split('|').any(|name| name.eq_ignore_ascii_case(last)))
    };
    if found.iter().any(ends_like) {
        text.push_str(" (a field is all that follows the first dot of a file's name)");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_any_of_its_names() {
        assert!(has_field(&["cls", "PNG"], "jpg|png"));
        assert!(!has_field(&["cls", "a.png"], "jpg|png"));
        assert!(!has_field::<&str>(&[], "jpg"));
    }

    #[test]
    fn what_is_there_instead_is_listed_and_dots_are_explained() {
        assert_eq!(found_instead(&["cls", "json"], "jpg|png"), "`cls`, `json`");
        assert_eq!(
            found_instead(&["b.cls", "b.JPG"], "jpg|png"),
            "`b.cls`, `b.JPG` (a field is all that follows the first dot of a file's name)"
        );
        let many: Vec<String> = (0..11).map(|number| format!("f{number}")).collect();
        assert!(found_instead(&many, "jpg").ends_with("`f7` and 3 more"));
        assert_eq!(found_instead::<&str>(&[], "jpg"), "none");
    }
}
