//! What the tree promises about itself: who may depend on whom, where tonic and unsafe code live,
//! how long files are. Each rule says what to do when it is broken.

#[path = "tidy/edges.rs"]
mod edges;
#[path = "tidy/extending.rs"]
mod extending;
#[path = "tidy/keys.rs"]
mod keys;
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
fn unsafe_code_lives_in_named_files_with_safety_notes() {
    none(unsafety::breaches());
}

#[test]
fn the_guide_to_extending_names_the_files_of_its_examples() {
    none(extending::breaches());
}

#[test]
fn every_key_that_is_named_exists() {
    none(keys::unknown());
}

#[test]
fn a_key_that_does_not_exist_is_found() {
    let found = |path: &str, text: &str| keys::unknown_in(path, text);
    let in_code = "let a = receiver.open(\n    \"see receiver.{key}, or \\\n     raise receiver.tcp_bind\");\n";
    assert_eq!(found("src/x.rs", in_code), ["src/x.rs:3: there is no key `receiver.tcp_bind`"]);
    assert_eq!(found("src/x.rs", "/// Read from `storage.caches`.\n").len(), 1);
    assert_eq!(found("docs/x.md", "set `HEADWATER_RECEIVER__RANKS`, storage.md\n").len(), 1);
    assert_eq!(found("docs/x.md", "`config.augment.storages` or receiver.masks.patch\n").len(), 1);
    assert!(found("docs/x.md", "`HEADWATER_SECTION__KEY`, `storage.replicas`\n").is_empty());
}
