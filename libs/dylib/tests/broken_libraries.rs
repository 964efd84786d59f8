//! A library that cannot be used counts as absent, and the error says what is wrong with it.
//!
//! Each test makes the library it talks about. Names with a path are opened as they are.

use std::path::Path;
use std::process::{Command, Stdio};

use headwater_dylib::{Dylib, DylibError, UCX};

/// A library of these files.
fn library(files: &[&Path]) -> Dylib {
    // Names of libraries are constants; a test has a few.
    let name = |file: &&Path| -> &'static str {
        Box::leak(file.to_str().expect("text").to_owned().into_boxed_str())
    };
    let sonames: Vec<&'static str> = files.iter().map(name).collect();
    Dylib { what: "a test's library", sonames: sonames.leak(), remedy: "build it" }
}

/// Compiles a library of this C text.
fn compile(file: &Path, text: &str, arguments: &[&str]) {
    let source = file.with_extension("c");
    std::fs::write(&source, text).expect("a source");
    let status = Command::new(std::env::var("CC").unwrap_or_else(|_| "cc".into()))
        .args(["-shared", "-fPIC", "-o"])
        .arg(file)
        .arg(&source)
        .args(arguments)
        .stderr(Stdio::inherit())
        .status()
        .expect("a C compiler");
    assert!(status.success());
}

headwater_dylib::functions! {
    /// What the tests look for.
    #[derive(Debug)]
    pub(crate) struct Functions;
    // SAFETY: the types are those of the sources below.
    unsafe extern "C" {
        /// Gives a number.
        number: fn() -> i32 = "the_number";
    }
}

#[test]
fn a_library_without_files_is_absent() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("libnone.so");
    let error = library(&[&file]).open().expect_err("not there");
    assert!(error.is_absent(), "{error}");
    let sentence = error.to_string();
    for word in ["a test's library is not found", file.to_str().unwrap(), ": build it"] {
        assert!(sentence.contains(word), "{sentence}");
    }
}

#[test]
fn an_empty_library_is_named_with_the_function_that_it_lacks() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("libempty.so");
    compile(&file, "", &[]);
    let dylib = library(&[&file]);
    assert!(dylib.open().is_ok(), "the loader takes it");
    let error = dylib.load::<Functions>().map(drop).expect_err("it has nothing");
    assert_eq!(error, dylib.open_with(&["the_number"]).map(drop).expect_err("nor here"));
    let sentence = error.to_string();
    assert!(!error.is_absent(), "{error}");
    for word in ["cannot be used", "libempty.so: it has no the_number", ": build it"] {
        assert!(sentence.contains(word), "{sentence}");
    }
}

#[test]
fn a_file_that_is_no_library_is_unusable() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("libtext.so");
    for text in ["no library", ""] {
        std::fs::write(&file, text).expect("a file");
        let error = library(&[&file]).open().expect_err("no library");
        assert!(
            matches!(&error, DylibError::Unusable { reason, .. } if reason.contains("libtext"))
        );
    }
}

#[test]
fn a_library_that_needs_an_absent_one_is_unusable() {
    let folder = tempfile::tempdir().expect("a folder");
    let (needed, file) = (folder.path().join("libneeded.so"), folder.path().join("libneedy.so"));
    compile(&needed, "int of_needed(void) { return 1; }", &[]);
    let text = "int of_needed(void); int the_number(void) { return of_needed(); }";
    let folder = folder.path().to_str().expect("text");
    compile(&file, text, &["-Wl,--no-as-needed", "-L", folder, "-lneeded"]);
    std::fs::remove_file(&needed).expect("it was there");
    let error = library(&[&file]).open().expect_err("it cannot be linked");
    assert!(!error.is_absent() && error.reason().contains("libneeded.so"), "{error}");
}

#[test]
fn the_first_file_that_can_be_used_is_taken() {
    let folder = tempfile::tempdir().expect("a folder");
    let at = |name: &str| folder.path().join(name);
    let (none, empty, whole) = (at("libnone.so"), at("libempty.so.2"), at("libwhole.so.1"));
    compile(&empty, "", &[]);
    compile(&whole, "int the_number(void) { return 42; }", &[]);
    let dylib = library(&[&none, &empty, &whole]);
    let (functions, opened) = dylib.load::<Functions>().expect("the last one");
    assert_eq!(opened.soname(), whole.to_str().unwrap());
    // SAFETY: the function takes nothing.
    assert_eq!(unsafe { (functions.number)() }, 42);
}

/// UCX does so: its handlers would print a trace where the process has its own.
#[test]
fn signals_that_a_library_takes_are_given_back() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("libgrabs.so");
    let text = "#include <signal.h>
        static void mine(int n) { (void)n; }
        __attribute__((constructor)) static void grab(void) { signal(SIGFPE, mine); }
        void (*handler(void))(int) { return signal(SIGFPE, SIG_DFL); }
        int is_default(void) { return handler() == SIG_DFL; }";
    compile(&file, text, &[]);
    let opened = library(&[&file]).open().expect("a library");
    // SAFETY: it takes nothing and gives an int, see the text above.
    let is_default = unsafe { opened.function::<unsafe extern "C" fn() -> i32>("is_default") };
    // SAFETY: as above.
    assert_eq!(unsafe { is_default.expect("it is there")() }, 1);
    assert_eq!(UCX.sonames, ["libucp.so.0"]);
}
