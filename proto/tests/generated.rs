//! The generated types and services are those of the .proto files. They are kept in the tree, so that a build
//! neither compiles a compiler of .proto files nor waits for it. protox needs no protoc.

use std::error::Error;
use std::fs;
use std::path::Path;

const WRITES: &str = "HEADWATER_WRITE_PROTO";

#[test]
fn the_generated_code_is_that_of_the_proto_files() -> Result<(), Box<dyn Error>> {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    for name in ["augment", "identity", "storage"] {
        let file = format!("headwater/v1/{name}.proto");
        let descriptors = protox::compile([file], [here.join("proto")])?;
        let folder = tempfile::tempdir()?;
        tonic_prost_build::configure()
            .bytes(".")
            .out_dir(folder.path())
            .compile_fds(descriptors)?;
        // Named after the package; each file has a part of it.
        let made = fs::read_to_string(folder.path().join("headwater.v1.rs"))?;
        let kept = here.join("generated").join(name).with_extension("rs");
        if std::env::var_os(WRITES).is_some() {
            fs::write(&kept, &made)?;
        }
        assert!(
            fs::read_to_string(&kept)? == made,
            "{} is not what {name}.proto says: run this test with {WRITES}=1",
            kept.display()
        );
    }
    Ok(())
}
