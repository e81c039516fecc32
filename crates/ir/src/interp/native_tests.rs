//! Calls of C functions, by stand-ins for them.

use std::sync::Arc;

use crate::native::{Arg, provide};
use crate::text::parse;
use crate::{Input, InputEvent, Interp, InterpError, Output, verify};

const PROGRAM: &str = "program calls ports 1
struct pair { a: u16, b: u8, c: u8 }
event net_recv(pkt: packet) in
event net_send(pkt: packet, port: u32) out

handler net_recv on net_recv(%pkt: packet) {
  %ok: u1, %p: pair = extract %pkt
  %seven: i8 = -7
  %sum: u16, %q: pair = extern \"test_sum\"(%seven, write %p)
  emit %pkt, %sum
  emit %pkt, %q
  %port: u32 = 0
  generate net_send(%pkt, %port)
  return
}
";

#[test]
fn a_function_gets_words_and_bytes_and_leaves_bytes() {
    let program = verify(parse(PROGRAM).unwrap()).unwrap();
    let event = InputEvent {
        time_ns: 0,
        seed: 0,
        input: Input::Net { port: 0, frame: vec![1, 2, 3, 4, 5] },
    };
    let missing = Interp::new(&program).run(&event).unwrap_err();
    assert_eq!(missing, InterpError::NoFunction { name: "test_sum".to_string() });
    let function = |args: &mut [Arg]| {
        assert_eq!(args[0], Arg::Word(0xf9), "bits above its width are zero");
        let Arg::Bytes(bytes) = &mut args[1] else { panic!("{args:?}") };
        bytes.reverse();
        0x1_2345
    };
    provide("test_sum", Arc::new(function));
    let sent = Interp::new(&program).run(&event).unwrap();
    // The result is cut to its width.
    assert_eq!(sent, [Output::Send { port: 0, frame: vec![0x45, 0x23, 4, 3, 2, 1, 5] }]);
}

#[test]
fn what_does_not_fit_is_refused() {
    for (from, to, why) in [
        ("(%seven, write %p)", "(%p, write %p)", "an argument must be an integer"),
        ("(%seven, write %p)", "(%seven, write %pkt)", "the address of a packet cannot be passed"),
        (
            "%q: pair = extern",
            "%q: u16 = extern",
            "the results are (u16, u16) but must be (u16, pair)",
        ),
        ("\"test_sum\"", "\"no name\"", "is no name of a C function"),
    ] {
        let text = PROGRAM.replace(from, to).replace("  emit %pkt, %q\n", "");
        let errors = verify(parse(&text).unwrap()).err().unwrap_or_else(|| panic!("{to}"));
        assert!(errors.iter().any(|error| error.to_string().contains(why)), "{why}: {errors:?}");
    }
}
