//! The numbers of the run-time contract are the same in Rust, C and SystemVerilog.

use nicforge_codegen::abi;
use nicforge_filetest::{expect, root};

#[test]
fn the_header_has_these_numbers() {
    let path = root().join("runtime/common/nf_abi.h");
    expect(&path, &abi::header()).unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn the_deparser_has_these_numbers() {
    let text = std::fs::read_to_string(root().join("rtl/nf_egress.sv")).unwrap();
    let wanted = format!("localparam logic [7:0] HOST_PACKET = 8'd{};", abi::left::HOST_PACKET);
    assert!(text.contains(&wanted), "rtl/nf_egress.sv has no `{wanted}`");
}
