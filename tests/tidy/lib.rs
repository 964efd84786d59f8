//! What the tree promises about itself: who may depend on whom, where tonic and unsafe code live,
//! how long files are. Each rule says what to do when it is broken.
//!
//! Deliberately absent: the crates themselves. It reads them, so an answer takes seconds.
#![cfg(test)]
#![forbid(unsafe_code)]

mod dependencies;
mod edges;
mod extending;
mod locks;
mod made_files;
mod programs;
mod text;
mod tree;
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
fn no_core_crate_imports_a_leaf() {
    none(edges::leaves());
}

#[test]
fn every_crate_says_what_is_deliberately_absent() {
    none(text::lib_heads());
}

#[test]
fn tiers_have_the_same_skeleton() {
    none(text::skeletons());
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
fn a_crate_has_one_test_program_and_others_only_for_a_reason() {
    none(programs::breaches());
}

#[test]
fn unsafe_code_lives_in_named_files_with_safety_notes() {
    none(unsafety::breaches());
}

#[test]
fn nobody_waits_for_a_lock_with_pythons_own() {
    none(locks::breaches());
}

#[test]
fn the_guide_to_extending_names_the_files_of_its_examples() {
    none(extending::breaches());
}

#[test]
fn every_file_that_is_made_follows_a_rule_of_the_list() {
    none(made_files::breaches());
}
