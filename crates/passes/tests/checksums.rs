//! `merge-checksums` on chains of checksum updates: every bit of the result stays, also for the two
//! representations of zero and for sums that need more than 32 bits.

use std::fmt::Write;

use nicforge_ir::text::parse;
use nicforge_ir::{Input, InputEvent, Interp, Output, Program, Verified, verify};
use nicforge_passes::PassManager;

/// A handler that reads a checksum and the words of these widths, and emits the checksum after
/// `replace` by each word, as nicforge.h computes it.
fn program(widths: &[u8]) -> Verified<Program> {
    let mut text = String::from(
        "program sums ports 1 event net_recv(pkt: packet) in event net_send(pkt: packet, port: u32) out
         handler net_recv on net_recv(%pkt: packet) { %low: u64 = 65535 %half: u64 = 16 %ok: u1, %c0: u16 = extract %pkt ",
    );
    for (i, width) in widths.iter().enumerate() {
        let _ = write!(
            text,
            "%ok{i}: u1, %w{i}: u{width} = extract %pkt %n{i}: u16 = not %c{i} %a{i}: u64 = cast %n{i}
             %b{i}: u64 = cast %w{i} %s{i}: u64 = add %a{i}, %b{i} "
        );
        let mut sum = format!("%s{i}");
        for step in 0..3 {
            let _ = write!(
                text,
                "%l{i}_{step}: u64 = and {sum}, %low %u{i}_{step}: u64 = shr {sum}, %half
                 %f{i}_{step}: u64 = add %l{i}_{step}, %u{i}_{step} "
            );
            sum = format!("%f{i}_{step}");
        }
        let next = i + 1;
        let _ = write!(text, "%i{i}: u64 = not {sum} %c{next}: u16 = cast %i{i} ");
    }
    let _ = write!(
        text,
        "emit %pkt, %c{} %port: u32 = 0 generate net_send(%pkt, %port) return }}",
        widths.len()
    );
    verify(parse(&text).unwrap()).unwrap()
}

fn run(interp: &mut Interp, frame: &[u8]) -> Vec<Output> {
    let input = Input::Net { port: 0, frame: frame.to_vec() };
    interp.run(&InputEvent { time_ns: 0, seed: 0, input }).unwrap()
}

#[test]
fn merged_updates_give_the_same_bits() {
    for widths in [&[16u8, 16][..], &[32, 16], &[16, 32, 32], &[32, 32, 32, 32, 16]] {
        let before = program(widths);
        let merge = ["merge-checksums", "dce"].repeat(widths.len());
        let after = PassManager::new().run(before.clone(), &merge).unwrap();
        let shifts = |program: &Program| {
            let body = &program.handlers.values().next().unwrap().body;
            let mut count = 0;
            body.for_each_inst(body.entry(), &mut |inst| {
                count += usize::from(matches!(
                    body.insts[inst].op,
                    nicforge_ir::Op::Bin(nicforge_ir::BinOp::Shr, ..)
                ));
            });
            count
        };
        assert!(
            shifts(&after) <= 3,
            "{widths:?}: {} steps are left of {}",
            shifts(&after),
            shifts(&before)
        );
        let (mut old, mut new) = (Interp::new(&before), Interp::new(&after));
        let bytes = 2 + widths.iter().map(|width| *width as usize / 8).sum::<usize>();
        // Words of all zeroes, all ones and anything.
        let mut numbers = nicforge_util::Random::new(1);
        for round in 0..4000u32 {
            let frame: Vec<u8> = (0..bytes / 2)
                .flat_map(|_| {
                    let random = numbers.next();
                    let word = match (random ^ u64::from(round)) % 4 {
                        0 => 0,
                        1 => 0xffff,
                        _ => (random >> 48) as u16,
                    };
                    word.to_le_bytes()
                })
                .collect();
            assert_eq!(run(&mut old, &frame), run(&mut new, &frame), "{widths:?} {frame:02x?}");
        }
    }
}
