//! The generated types and services are those of the .proto files. They are kept in the tree, so that a build
//! neither compiles a compiler of .proto files nor waits for it. protox needs no protoc.

use std::error::Error;
use std::fs;
use std::path::Path;

const WRITES: &str = "HEADWATER_WRITE_PROTO";
const NAME: &str = "headwater.v1.rs";

#[test]
fn the_generated_code_is_that_of_the_proto_files() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = ["storage", "augment", "identity"];
    let files = names.map(|name| format!("headwater/v1/{name}.proto"));
    let descriptors = protox::compile(files, [here.join("proto")])?;
    let folder = tempfile::tempdir()?;
    tonic_prost_build::configure().bytes(".").out_dir(folder.path()).compile_fds(descriptors)?;
    let made = fs::read_to_string(folder.path().join(NAME))?;
    let kept = here.join("generated").join(NAME);
    if std::env::var_os(WRITES).is_some() {
        fs::write(&kept, &made)?;
    }
    assert!(
        fs::read_to_string(&kept)? == made,
        "{} is not what the .proto files say: run this test with {WRITES}=1",
        kept.display()
    );
    Ok(())
}
