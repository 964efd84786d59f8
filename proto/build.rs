//! Compiles the .proto files with protox, so that no protoc has to be installed.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let names = ["storage", "augment", "identity"];
    let files = names.map(|name| format!("proto/headwater/v1/{name}.proto"));
    for file in &files {
        println!("cargo::rerun-if-changed={file}");
    }
    let descriptors = protox::compile(files, ["proto"])?;
    tonic_prost_build::configure().bytes(".").compile_fds(descriptors)?;
    Ok(())
}
