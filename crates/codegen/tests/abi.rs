//! The numbers of the run-time contract are the same in Rust, C and SystemVerilog.

use std::path::Path;

use nicforge_codegen::abi;

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

#[test]
fn the_header_has_these_numbers() {
    let path = root().join("runtime/common/nf_abi.h");
    if std::env::var_os("NICFORGE_BLESS").is_some() {
        std::fs::write(&path, abi::header()).unwrap();
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), abi::header());
}

#[test]
fn the_deparser_has_these_numbers() {
    let text = std::fs::read_to_string(root().join("rtl/nf_egress.sv")).unwrap();
    let wanted = format!("localparam logic [7:0] HOST_PACKET = 8'd{};", abi::left::HOST_PACKET);
    assert!(text.contains(&wanted), "rtl/nf_egress.sv has no `{wanted}`");
}
