//! Listings from text to exact bounds, checked by the interpreter.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nicforge_bound::analysis::{Options, Report, analyse};
use nicforge_bound::method::Method;
use nicforge_bound::search::{By, Machine};
use nicforge_bound::{nfp, replay};
use nicforge_isa::nfp::{self as isa, Listing};

fn machine() -> Machine {
    Machine { base_cycles: 224.0, cores: 50.0, hz: 800e6, port_pps: None, port_bps: None }
}

fn options() -> Options {
    Options {
        machine: machine(),
        sizes: (60, 1500),
        by: vec![By::BitRate, By::PacketRate],
        required: None,
        top: 0,
        all: true,
        unroll: None,
        timeout: None,
        given: Vec::new(),
        method: Method::Default,
        path: None,
    }
}

/// Numbers lines as listings do; labels are `@name` at the start of a line.
fn listing(text: &str) -> Listing {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let mut labels = Vec::new();
    let mut insns = Vec::new();
    for line in lines {
        match line.strip_prefix('@') {
            Some(label) => labels.push((label, insns.len())),
            None => insns.push(line.to_string()),
        }
    }
    let mut out = String::new();
    for (index, insn) in insns.iter().enumerate() {
        let mut insn = insn.clone();
        for (label, at) in &labels {
            insn = insn.replace(&format!("[{label}]"), &format!("[.{at}]"));
        }
        out.push_str(&format!("{:x}:\t .{index}  {insn}\n", index * 8));
    }
    isa::parse(&out).unwrap_or_else(|error| panic!("{error}\n{out}"))
}

fn check(listing: &Listing) -> Report {
    let graph = nfp::graph(&listing.insns, false).unwrap();
    let report =
        analyse(graph, &options(), Arc::new(AtomicBool::new(false)), &mut |_, _| {}).unwrap();
    let (all, whole) = report.all.clone().unwrap();
    assert!(whole);
    for record in &report.records {
        assert!(record.exact);
        let slowest = record.slowest.as_ref().unwrap();
        let of = |path: &nicforge_bound::analysis::PathReport| match record.by {
            By::BitRate => path.seconds / path.size as f64,
            By::PacketRate => path.seconds,
        };
        let brute = all.iter().map(of).fold(0.0, f64::max);
        let ours = of(slowest);
        assert!(
            (ours / brute - 1.0).abs() < 1e-9,
            "{:?}: search {ours}, enumeration {brute}",
            record.by
        );
    }
    for path in all.iter().chain(report.records.iter().filter_map(|record| record.slowest.as_ref()))
    {
        replay::nfp(&listing.insns, &path.witness).unwrap();
    }
    report
}

#[test]
fn contradicting_branches_are_not_a_path() {
    // Long if bit 0 of byte 12 is set, and long again if it is not; plus a DRAM read that decides.
    let listing = listing(
        "immed[gprB_22, 0x3fff]
         alu[gprB_22, gprB_22, AND, *l$index1]
         alu[gprA_4, --, B, *l$index1[2]], gpr_wrboth
         mem[read32_swap, $xfer_0, gprA_4, 0xc, 2], ctx_swap[sig1]
         alu[gprA_6, --, B, $xfer_0], gpr_wrboth
         alu[--, gprA_6, AND, 0x1]
         beq[even]
         nop
         nop
         nop
         nop
         nop
         nop
         nop
         nop
         @even
         alu[--, gprA_6, AND, 0x1]
         bne[odd]
         nop
         nop
         nop
         nop
         nop
         nop
         nop
         nop
         nop
         @odd
         immed[gprA_8, 0x20]
         alu[gprA_8, gprB_6, AND, 0xf]
         mem[read32_swap, $xfer_0, gprB_23, <<8, gprA_8, 1], ctx_swap[sig1]
         alu[gprA_0, --, B, $xfer_0], gpr_wrboth
         alu[--, gprA_0, -, 0x7]
         bcc[small]
         nop
         nop
         @small
         alu[--, gprB_22, -, 0x50]
         bcc[.15000]
         br[.15000]",
    );
    check(&listing);
}

#[test]
fn offsets_that_depend_on_the_packet() {
    // The second read is where a nibble of the first says; the third through memory that was
    // written.
    let listing = listing(
        "alu[gprA_4, --, B, *l$index1[2]], gpr_wrboth
         mem[read32_swap, $xfer_0, gprA_4, 0xc, 1], ctx_swap[sig1]
         alu[gprA_6, --, B, $xfer_0], gpr_wrboth
         alu_shf[gprA_8, --, B, gprB_6, <<2], gpr_wrboth
         alu[gprA_8, gprA_8, AND, 0x3c], gpr_wrboth
         alu[gprA_8, gprA_8, +, gprB_4], gpr_wrboth
         alu[$xfer_0, --, B, gprA_6]
         mem[write8_swap, $xfer_0, gprA_8, 0x0, 2], ctx_swap[sig1]
         mem[read32_swap, $xfer_0, gprA_4, 0x14, 1], ctx_swap[sig1]
         alu[gprA_10, --, B, $xfer_0], gpr_wrboth
         alu[--, gprA_10, XOR, gprB_6]
         bne[differs]
         nop
         nop
         nop
         @differs
         alu[--, gprA_6, AND, 0xf]
         beq[zero]
         nop
         nop
         nop
         nop
         @zero
         br[.15000]",
    );
    check(&listing);
}

#[test]
fn shifts_by_what_the_instruction_before_had() {
    let listing = listing(
        "alu[gprA_4, --, B, *l$index1[2]], gpr_wrboth
         mem[read32_swap, $xfer_0, gprA_4, 0xc, 2], ctx_swap[sig1]
         alu[gprA_6, --, B, $xfer_0], gpr_wrboth
         alu[gprA_8, --, B, $xfer_1], gpr_wrboth
         alu[--, gprA_8, OR, gprB_6]
         alu_shf[gprA_2, gprA_6, XOR, gprB_6, <<indirect], gpr_wrboth
         alu[--, gprA_8, OR, gprB_2]
         asr[gprA_2, gprB_2, >>indirect], gpr_wrboth
         alu[--, gprA_8, AND, 0x1f]
         dbl_shf[gprA_10, gprA_2, gprB_6, >>indirect], gpr_wrboth
         alu[gprA_2, gprA_10, -, gprB_2], gpr_wrboth
         bmi[minus]
         nop
         nop
         @minus
         alu[--, gprA_2, -, 0x55]
         bge[more]
         nop
         nop
         nop
         @more
         immed[gprA_3, 0xffff1234, <<8], gpr_wrboth
         alu[--, gprA_2, +, gprB_3]
         bvs[over]
         nop
         @over
         br[.15000]",
    );
    check(&listing);
}

/// The sign stays until the next logical instruction: through other shifts, immediates, additions,
/// memory and jumps.
#[test]
fn asr_takes_its_sign_from_the_latest_logical_instruction() {
    let listing = listing(
        "alu[gprA_4, --, B, *l$index1[2]], gpr_wrboth
         mem[read32_swap, $xfer_0, gprA_4, 0xc, 2], ctx_swap[sig1]
         immed[gprA_6, 0x0], gpr_wrboth
         ld_field[gprA_6, 1000, $xfer_0, <<24], gpr_wrboth
         alu[--, gprA_6, OR, 0x0]
         asr[gprA_2, gprB_6, >>24], gpr_wrboth
         asr[gprA_3, gprB_6, >>31], gpr_wrboth
         immed[gprA_8, 0x7f], gpr_wrboth
         alu[gprA_8, gprA_8, +, 0x1], gpr_wrboth
         mem[read32_swap, $xfer_1, gprA_4, 0x10, 1], ctx_swap[sig1]
         alu[--, gprA_2, -, 0x5]
         blt[below]
         nop
         @below
         asr[gprA_10, gprB_8, >>4], gpr_wrboth
         alu[--, gprB_3, -, gprA_10]
         bmi[less]
         nop
         nop
         nop
         @less
         alu[--, gprB_2, XOR, gprA_3]
         bmi[never]
         br[.15000]
         @never
         nop
         br[.15000]",
    );
    let report = check(&listing);
    let (all, _) = report.all.unwrap();
    // Blocks: the start, two behind each of the first two branches, the end, and `never`.
    let visited =
        |block| all.iter().any(|path| path.witness.visits.iter().any(|visit| visit.block == block));
    assert!(visited(5) && !visited(6), "both words of a number have its sign");
    assert!(all.len() > 2, "{} paths", all.len());
}

#[test]
fn asr_without_a_sign_is_refused() {
    let text = "alu[gprA_4, gprB_4, +, *l$index1[2]], gpr_wrboth
         beq[sign]
         asr[gprA_2, gprB_4, >>3], gpr_wrboth
         @sign
         br[.15000]";
    let refused = |text: &str| nfp::graph(&listing(text).insns, false).map(|_| ()).unwrap_err();
    assert_eq!(
        refused(text).to_string(),
        "instruction .2: asr takes its sign from a logical instruction, and none comes before it"
    );
    nfp::graph(&listing(&text.replace(", +,", ", AND,")).insns, false).unwrap();
}

#[test]
fn counted_loops_end_by_themselves() {
    let listing = listing(
        "alu[gprA_4, --, B, *l$index1[2]], gpr_wrboth
         immed[gprA_2, 0x0], gpr_wrboth
         @again
         mem[read32_swap, $xfer_0, gprA_4, 0x0, 1], ctx_swap[sig1]
         alu[gprA_6, --, B, $xfer_0], gpr_wrboth
         alu[--, gprA_6, OR, 0x0]
         beq[skip]
         nop
         nop
         @skip
         alu[gprA_4, gprA_4, +, 0x4], gpr_wrboth
         alu[gprA_2, gprA_2, +, 0x1], gpr_wrboth
         alu[--, gprA_2, XOR, 0x6]
         bne[again]
         br[.15000]",
    );
    let report = check(&listing);
    assert_eq!(report.all.map(|(all, _)| all.len()), Some(64));
}
