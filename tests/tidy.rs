//! What the tree promises about itself: who may depend on whom, where tonic and unsafe code live,
//! how long files are. Each rule says what to do when it is broken.

#[path = "tidy/edges.rs"]
mod edges;
#[path = "tidy/text.rs"]
mod text;
#[path = "tidy/tree.rs"]
mod tree;
#[path = "tidy/unsafety.rs"]
mod unsafety;

/// Fails with every breach, one a line.
fn none(breaches: Vec<String>) {
    assert!(breaches.is_empty(), "\n{}\n", breaches.join("\n"));
}

#[test]
fn crates_depend_downwards_and_tiers_never_on_each_other() {
    none(edges::breaches());
}

#[test]
fn grpc_and_python_stay_in_their_rooms() {
    none(edges::rooms());
}

#[test]
fn every_crate_says_what_is_deliberately_absent() {
    none(text::lib_heads());
}

#[test]
fn files_fit_in_the_head() {
    none(text::long_files());
}

#[test]
fn names_say_what_a_module_is_about() {
    none(text::vague_names());
}

#[test]
fn nothing_is_left_to_be_done_in_comments() {
    none(text::left_over_notes());
}

#[test]
fn unsafe_code_lives_in_named_files_with_safety_notes() {
    none(unsafety::breaches());
}
