//! Generates the wire types from `proto/`, without a `protoc` on the machine.

#[path = "build/shapes.rs"]
mod shapes;

use std::error::Error;
use std::path::{Path, PathBuf};
use std::{env, fs};

use protox::prost::Message as _;

/// What clients may see, and what reflection serves.
const PUBLIC: [&str; 5] = [
    "firstclaim/v1/types.proto",
    "firstclaim/v1/claim_service.proto",
    "firstclaim/v1/record_service.proto",
    "firstclaim/v1/tenant_service.proto",
    "firstclaim/v1/cluster_service.proto",
];

/// What replicas say to each other.
const PEER: &str = "firstclaim/peer/v1/peer.proto";

fn main() -> Result<(), Box<dyn Error>> {
    // Asked for when it runs: a target folder may be shared by trees that lie elsewhere.
    let here = env::var_os("CARGO_MANIFEST_DIR").ok_or("CARGO_MANIFEST_DIR is not set by cargo")?;
    let root = Path::new(&here).join("../../proto");
    println!("cargo::rerun-if-changed=../../proto");
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set by cargo")?);

    let mut public = protox::Compiler::new([&root])?;
    public.include_imports(true).include_source_info(true).open_files(PUBLIC)?;
    let served = public.file_descriptor_set().encode_to_vec();
    fs::write(out.join("firstclaim.v1.bin"), served)?;

    let mut all = protox::Compiler::new([&root])?;
    all.include_imports(true).include_source_info(true).open_files(PUBLIC)?.open_file(PEER)?;
    fs::write(out.join("shapes.rs"), shapes::source(&all.file_descriptor_set())?)?;
    tonic_prost_build::configure()
        .codec_path("crate::codec::WeighingCodec")
        .btree_map(".")
        .bytes(".firstclaim.peer.v1")
        .out_dir(out)
        .compile_fds(all.file_descriptor_set())?;
    Ok(())
}
