use super::*;
use crate::text::parse;
use crate::verify::verify;

const DECLS: &str = r#"program p ports 2
struct mac { b: u8[6] }
struct eth packed { dst: mac, src: mac, type: u16 be }
struct bits { a: u8 : 3, s: i32 : 5, f: u1, w: u64 }
struct conn { count: u32, low: i8, wide: u64[2] }
table conns: hash[u32 -> conn] capacity 2 buf 8
table recent: lru[u32 -> u32] capacity 2
table slots: array[u32 -> u32] capacity 4
table routes: lpm[u32 -> u16] capacity 4
table rules: ternary[u16 -> u16] capacity 4
const weights: i16 = [1, -2, 3]
event net_recv(pkt: packet) in
event host_send(message: bits) in
event net_send(pkt: packet, port: u32) out
event stack_recv(pkt: packet) out
event host_recv(pkt: packet) out
event host_msg(message: bits) out
event dma_write(pkt: packet borrowed, addr: u64, len: u32) out
event again(pkt: packet, n: u32) internal
reason "no"
reason "end"
"#;

fn program(handler: &str) -> Verified<Program> {
    let text = format!("{DECLS}handler net_recv on net_recv(%pkt: packet) {{ {handler} }}");
    verify(parse(&text).unwrap()).unwrap_or_else(|e| panic!("{e:?}\n{text}"))
}

fn net(frame: &[u8]) -> InputEvent {
    InputEvent { time_ns: 1000, seed: 7, input: Input::Net { port: 1, frame: frame.to_vec() } }
}

fn run_on(handler: &str, frame: &[u8]) -> Vec<Output> {
    let program = program(handler);
    Interp::new(&program).run(&net(frame)).unwrap()
}

/// Logs of the handler; its body drops the packet behind `body`.
fn logs(body: &str, frame: &[u8]) -> Vec<String> {
    let found = run_on(&format!("{body} drop %pkt, \"no\" return"), frame);
    let texts = found.into_iter().filter_map(|output| match output {
        Output::Log { text } => Some(text),
        _ => None,
    });
    texts.collect()
}

/// Frames that leave by `net_send`; the body sends the packet by its last line.
fn sent(body: &str, frame: &[u8]) -> Vec<u8> {
    match run_on(
        &format!("{body} %port: u32 = in_port %pkt generate net_send(%pkt, %port) return"),
        frame,
    )
    .pop()
    {
        Some(Output::Send { port: 1, frame }) => frame,
        other => panic!("{other:?}"),
    }
}

#[test]
fn arithmetic_follows_the_types() {
    let body = "%a: i8 = -7 %b: i8 = 2 %c: i8 = div %a, %b %d: i8 = rem %a, %b %e: u1 = lt %a, %b
        %u: u8 = cast %a %w: i16 = cast %a %x: u8 = shr %u, %u %n: i8 = neg %a %s: i8 = select %e, %n, %a
        %h: u16 = 4660 %k: u16 = bswap %h
        log \"{} {} {} {} {} {} {} {}\"(%c, %d, %e, %u, %w, %x, %s, %k)";
    assert_eq!(logs(body, &[]), ["-3 -1 1 249 -7 0 7 13330"]);
}

#[test]
fn aggregates_are_values() {
    let body = "%z: bits = zero %five: i32 = -5 %b: bits = set %z.s, %five %s: i32 = get %b.s %a: u8 = get %b.a
        %fifteen: u8 = 15 %c: bits = set %b.a, %fifteen %d: u8 = get %c.a %old: u8 = get %b.a %t: i32 = get %c.s
        log \"{} {} {} {} {}\"(%s, %a, %d, %old, %t)";
    assert_eq!(
        logs(body, &[]),
        ["-5 0 7 0 -5"],
        "a bit-field takes what it has room for and spares its neighbours"
    );
    let body = "%m: mac = zero %i: u8 = 5 %v: u8 = 9 %n: mac = set %m.b[%i], %v %x: u8 = get %n.b[%i]
        %far: u8 = 6 %o: mac = set %n.b[%far], %v %y: u8 = get %o.b[%far] %same: u8 = get %o.b[%i]
        %neg: i8 = -1 %w: i16 = const_elem weights[%neg] %one: i8 = 1 %q: i16 = const_elem weights[%one]
        log \"{} {} {} {} {}\"(%x, %y, %same, %w, %q)";
    assert_eq!(logs(body, &[]), ["9 0 9 0 -2"], "beyond the end reads zero and writes nothing");
    let body =
        "%m: mac = zero %v: u8 = 9 %x: mac = set %m, %m %b: u8[6] = get %x.b %i: u8 = 2 %d: u8 = get %b[%i]
        log \"{}\"(%d)";
    assert_eq!(logs(body, &[]), ["0"]);
}

#[test]
fn extract_and_emit_move_bytes() {
    let frame: Vec<u8> = (0..20).collect();
    let body = "%ok: u1, %e: eth = extract %pkt %n: u32 = len %pkt log \"{} {}\"(%ok, %n)
        %ok2: u1, %f: eth = extract %pkt %t: u16 = get %f.type %m: u32 = len %pkt log \"{} {} {}\"(%ok2, %t, %m)
        emit %pkt, %e %src: mac = get %e.src emit %pkt, %src";
    assert_eq!(logs(body, &frame), ["1 6", "0 0 6"], "a short packet fails the extract and stays");
    let mut expected: Vec<u8> = (0..14).collect();
    expected.extend(6..12);
    expected.extend(14..20);
    assert_eq!(sent(body, &frame), expected);
}

#[test]
fn reset_forgets_emits_but_not_stores_and_trims() {
    let frame: Vec<u8> = (0..10).collect();
    let body =
        "%two: u32 = 2 %v: u16 = 65535 %a: u1 = skip %pkt, %two %b: u1 = store %pkt, %two, %v emit %pkt, %v
        %c: u1 = trim %pkt, %five %d: u1 = trim %pkt, %six reset %pkt log \"{}{}{}{}\"(%a, %b, %c, %d)";
    let body = format!("%five: u32 = 5 %six: u32 = 6 {body}");
    assert_eq!(sent(&body, &frame), [0, 1, 2, 3, 255, 255, 6]);
    assert_eq!(logs(&body, &frame), ["1110"]);
}

#[test]
fn extend_appends_zeros_up_to_the_longest_frame() {
    let body =
        "%two: u32 = 2 %most: u32 = 65535 %v: u16 = 65535 %four: u32 = 4 %a: u1 = skip %pkt, %two
        emit %pkt, %v %b: u1 = extend %pkt, %two %c: u1 = extend %pkt, %most
        %d: u1 = store %pkt, %two, %v %n: u32 = len %pkt log \"{}{}{}{} {}\"(%a, %b, %c, %d, %n)";
    assert_eq!(logs(body, &[1, 2, 3, 4]), ["1101 4"]);
    assert_eq!(sent(body, &[1, 2, 3, 4]), [255, 255, 3, 4, 255, 255]);
    let again = format!("{body} %e: u1 = trim %pkt, %two %f: u1 = extend %pkt, %four");
    assert_eq!(sent(&again, &[1, 2, 3, 4]), [255, 255, 3, 4, 0, 0, 0, 0]);
}

#[test]
fn loads_stores_and_skips_check_the_end() {
    let body = "%three: u32 = 3 %big: u32 = 4294967295 %a: u1, %x: u16 = load %pkt, %three %four: u32 = 4
        %b: u1, %y: u16 = load %pkt, %four %c: u1, %z: u16 = load %pkt, %big %d: u1 = store %pkt, %four, %x
        %e: u1 = skip %pkt, %big %f: u1 = skip %pkt, %four log \"{} {} {} {} {} {} {} {}\"(%a, %x, %b, %y, %c, %d, %e, %f)";
    assert_eq!(logs(body, &[1, 2, 3, 4, 5]), ["1 1284 0 0 0 0 0 1"]);
}

#[test]
fn padding_and_surplus_bits_read_as_zero() {
    // `bits`: a and s in the first byte, f in the second, padding, w from byte 8.
    let body = "%ok: u1, %b: bits = extract %pkt %f: u1 = get %b.f log \"{}\"(%f) emit %pkt, %b";
    assert_eq!(logs(body, &[0xff; 16]), ["1"]);
    let mut clean = vec![0xff, 0x01, 0, 0, 0, 0, 0, 0];
    clean.extend([0xff; 8]);
    assert_eq!(sent(body, &[0xff; 16]), clean);
    assert_eq!(sent("%ok: u1, %b: u12 = extract %pkt emit %pkt, %b", &[0xff, 0xff]), [0xff, 0x0f]);
    // The same inside an array, which is copied element by element.
    assert_eq!(
        sent("%ok: u1, %b: u12[2] = extract %pkt emit %pkt, %b", &[0xff; 4]),
        [0xff, 0x0f, 0xff, 0x0f]
    );
}

#[test]
fn checksums_and_hashes_are_those_of_io() {
    let body = "%s: u32 = 1 %v: u32 = 305419896 %h: u32 = hash %s, %v %c: u32 = csum_add %s, %v
        %big: u32 = 1000 %p: u32 = pkt_csum %pkt, %s, %big %two: u32 = 2 %q: u32 = pkt_csum %pkt, %s, %two
        log \"{} {} {} {}\"(%h, %c, %p, %q)";
    let bytes = 305419896u32.to_le_bytes();
    let expected = format!(
        "{} {} {} {}",
        io::hash(1, &bytes),
        io::checksum_add(1, &bytes),
        0x0102 + 0x0300 + 1,
        0x0103
    );
    assert_eq!(logs(body, &[1, 2, 3]), [expected]);
}

use crate::io;

#[test]
fn time_and_randomness_come_with_the_event() {
    let body = "%a: u32 = random %b: u32 = random %t: u64 = now %p: u32 = in_port %pkt log \"{} {} {} {}\"(%a, %b, %t, %p)";
    assert_eq!(logs(body, &[]), [format!("{} {} 1000 1", io::random(7, 0), io::random(7, 1))]);
}

#[test]
fn loops_carry_break_and_continue() {
    let body = "%zero: u32 = 0 %one: u32 = 1 %three: u32 = 3
        loop 10 (%i: u32 = %zero, %j: u32 = %one) -> (%x: u32, %y: u32) {
          %k: u32 = add %i, %one %c: u1 = eq %i, %three if %c { break 0 (%j, %i) } continue 0 (%k, %i) }
        loop 2 (%i2: u32 = %zero, %j2: u32 = %one) -> (%s: u32, %t: u32) { continue 0 (%j2, %i2) }
        loop 0 (%i3: u32 = %three) -> (%n: u32) { continue 0 (%zero) }
        loop 5 (%i4: u32 = %zero) -> (%o: u32) {
          %k4: u32 = add %i4, %one loop 5 { %c4: u1 = eq %k4, %three if %c4 { break 1 (%k4) } continue 1 (%k4) } break 0 (%zero) }
        log \"{} {} {} {} {} {}\"(%x, %y, %s, %t, %n, %o)";
    assert_eq!(logs(body, &[]), ["2 3 0 1 3 3"], "two trips of a swap change nothing");
}

#[test]
fn functions_return_early() {
    let decls = "func max(%a: u32, %b: u32) -> (u32, u1) {
        %c: u1 = gt %a, %b if %c { return %a, %c } return %b, %c }";
    let body = "%one: u32 = 1 %two: u32 = 2 %x: u32, %f: u1 = call max(%one, %two) %y: u32, %g: u1 = call max(%two, %one)
        log \"{} {} {} {}\"(%x, %f, %y, %g) drop %pkt, \"no\" return";
    let text = format!("{DECLS}{decls} handler h on net_recv(%pkt: packet) {{ {body} }}");
    let program = verify(parse(&text).unwrap()).unwrap();
    let found = Interp::new(&program).run(&net(&[])).unwrap();
    assert_eq!(found[0], Output::Log { text: "2 0 2 1".to_string() });
}

#[test]
fn a_hash_table_refuses_when_full() {
    let body = "%ok: u1, %k: u32 = extract %pkt %z: conn = zero %h: u1, %old: conn = lookup conns[%k]
        %n: u32 = get %old.count %one: u32 = 1 %m: u32 = add %n, %one %new: conn = set %old.count, %m
        %u: u1 = update conns[%k], %new %c: u1 = contains conns[%k] log \"{} {} {} {}\"(%h, %n, %u, %c)
        drop %pkt, \"no\" return";
    let program = program(body);
    let mut interp = Interp::new(&program);
    let mut seen = |key: u8| match &interp.run(&net(&[key, 0, 0, 0])).unwrap()[0] {
        Output::Log { text } => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!([seen(1), seen(2), seen(1), seen(3)], ["0 0 1 1", "0 0 1 1", "1 1 1 1", "0 0 0 0"]);
    let conns = program.table_named("conns").unwrap();
    assert_eq!(interp.counters().refused[conns], 1);
    assert_eq!(interp.counters().packets, 4);
    let no = program.reasons.keys().next().unwrap();
    assert_eq!(interp.counters().drops[no], 4);
    let dump = interp.dump(conns).unwrap();
    assert_eq!(dump.iter().map(|e| e.key[0]).collect::<Vec<_>>(), [1, 2]);
    assert_eq!((dump[0].value[0], dump[0].buf.as_deref()), (2, Some(&[][..])));
}

#[test]
fn refused_keys_are_those_that_are_named() {
    let body = "%ok: u1, %k: u32 = extract %pkt %ok2: u1, %l: u32 = extract %pkt %z: conn = zero
        %u: u1 = update conns[%k], %z %v: u1 = update conns[%l], %z log \"{} {}\"(%u, %v)
        drop %pkt, \"no\" return";
    let program = program(body);
    let mut interp = Interp::new(&program);
    let conns = program.table_named("conns").unwrap();
    let mut seen = |refused: Vec<u32>, keys: [u8; 2]| {
        interp.refuse_next(&[]);
        interp.refuse_keys(conns, refused);
        match &interp.run(&net(&[keys[0], 0, 0, 0, keys[1], 0, 0, 0])).unwrap()[0] {
            Output::Log { text } => text.clone(),
            other => panic!("{other:?}"),
        }
    };
    // FNV-1a of 32 bits of [2, 0, 0, 0].
    let two = 0xebee_7337;
    assert_eq!(seen(vec![two], [1, 2]), "1 0");
    assert_eq!(seen(vec![two], [2, 2]), "0 1", "each once");
    assert_eq!(seen(Vec::new(), [3, 4]), "1 1", "whatever the capacity");
}

#[test]
fn lru_evicts_what_was_not_used_for_longest() {
    let body =
        "%ok: u1, %k: u32 = extract %pkt %h: u1, %v: u32 = lookup recent[%k] %u: u1 = update recent[%k], %k
        log \"{}\"(%h) drop %pkt, \"no\" return";
    let program = program(body);
    let mut interp = Interp::new(&program);
    let recent = program.table_named("recent").unwrap();
    for key in [1u8, 2, 1, 3] {
        interp.run(&net(&[key, 0, 0, 0])).unwrap();
    }
    let gone = Eviction { table: recent, key: vec![2, 0, 0, 0], by: vec![3, 0, 0, 0] };
    assert_eq!(interp.evictions(), [gone], "1 was used after 2");
    assert_eq!(interp.counters().evicted[recent], 1);
    let keys: Vec<u8> = interp.dump(recent).unwrap().iter().map(|e| e.key[0]).collect();
    assert_eq!(keys, [1, 3]);
    interp.run(&net(&[1, 0, 0, 0])).unwrap();
    assert!(interp.evictions().is_empty(), "evictions are those of the last event");
    assert!(interp.delete(recent, &[1, 0, 0, 0], &Match::Exact).unwrap());
    interp.run(&net(&[4, 0, 0, 0])).unwrap();
    assert!(interp.evictions().is_empty(), "a deleted entry leaves room");
}

#[test]
fn array_entries_always_exist() {
    let body =
        "%ok: u1, %k: u32 = extract %pkt %h: u1, %v: u32 = lookup slots[%k] %u: u1 = update slots[%k], %k
        log \"{} {} {}\"(%h, %v, %u)";
    assert_eq!(logs(body, &[3, 0, 0, 0]), ["1 0 1"]);
    assert_eq!(logs(body, &[4, 0, 0, 0]), ["0 0 0"], "beyond the capacity");
}

#[test]
fn commutative_updates_start_from_zero() {
    let body = "%k: u32 = 1 %a: u32 = 5 commute add conns[%k].count, %a commute add conns[%k].count, %a
        %m: i8 = -3 commute min conns[%k].low, %m %i: u32 = 1 %w: u64 = 9 commute max conns[%k].wide[%i], %w
        commute or conns[%k].count, %a %h: u1, %v: conn = lookup conns[%k]
        %c: u32 = get %v.count %l: i8 = get %v.low %x: u64 = get %v.wide[%i] log \"{} {} {} {}\"(%h, %c, %l, %x)";
    assert_eq!(logs(body, &[]), ["1 15 -3 9"]);
    let body = "%k: u32 = 9 %m: u32 = 1 commute min slots[%k], %m commute max recent[%k], %m
        %h: u1, %v: u32 = lookup recent[%k] log \"{}\"(%v)";
    assert_eq!(logs(body, &[]), ["1"]);
}

#[test]
fn deletes_say_whether_there_was_something() {
    let body =
        "%k: u32 = 1 %a: u1 = delete recent[%k] %u: u1 = update recent[%k], %k %b: u1 = delete recent[%k]
        %c: u1 = contains recent[%k] log \"{}{}{}{}\"(%a, %u, %b, %c)";
    assert_eq!(logs(body, &[]), ["0110"]);
}

#[test]
fn byte_strings() {
    let body = "%k: u32 = 1 %z: conn = zero %three: u32 = 3 %a: u1 = buf_append conns[%k], packet %pkt, %three
        %u: u1 = update conns[%k], %z %b: u1 = buf_append conns[%k], packet %pkt, %three %w: u32 = 255
        %c: u1 = buf_append conns[%k], %w %d: u1 = buf_append conns[%k], %w %n: u32 = buf_len conns[%k]
        %u2: u1 = update conns[%k], %z %two: u32 = 2 %e: u1, %x: u16 = buf_read conns[%k], %two
        %six: u32 = 6 %f: u1, %y: u16 = buf_read conns[%k], %six log \"{}{}{} {} {} {} {}\"(%a, %b, %c, %d, %n, %x, %f)
        %port: u32 = 1 %g: u1 = buf_generate net_send conns[%k], port %port %m: u32 = buf_len conns[%k]
        %h: u1 = buf_generate host_recv conns[%three] %b2: u1 = buf_append conns[%k], %port buf_clear conns[%k]
        %i: u1 = buf_generate host_recv conns[%k] log \"{} {} {} {}\"(%g, %m, %h, %i)
        drop %pkt, \"no\" return";
    let outputs = run_on(body, &[1, 2, 3, 4]);
    assert_eq!(outputs[0], Output::Log { text: "011 0 7 65283 0".to_string() });
    assert_eq!(outputs[1], Output::Send { port: 1, frame: vec![1, 2, 3, 255, 0, 0, 0] });
    assert_eq!(outputs[2], Output::HostPacket { frame: vec![] });
    assert_eq!(outputs[3], Output::Log { text: "1 0 0 1".to_string() });
}

#[test]
fn outputs_come_in_order() {
    let body =
        "%a: u64 = 4096 %n: u32 = 2 generate dma_write(%pkt, %a, %n) %z: bits = zero %w: u64 = 1
        %m: bits = set %z.w, %w generate host_msg(%m) generate stack_recv(%pkt) return";
    let mut message = vec![0; 16];
    message[8] = 1;
    assert_eq!(
        run_on(body, &[5, 6, 7]),
        [
            Output::DmaWrite { addr: 4096, data: vec![5, 6] },
            Output::HostMessage { bytes: message },
            Output::Stack { frame: vec![5, 6, 7] },
        ]
    );
    assert_eq!(
        run_on("generate host_recv(%pkt) return", &[1]),
        [Output::HostPacket { frame: vec![1] }]
    );
    let end = crate::program::ReasonId::from_u32(1);
    assert_eq!(run_on("drop %pkt, \"end\" return", &[1]), [Output::Drop { reason: end }]);
}

#[test]
fn internal_events_run_after_the_handler_in_order() {
    let text = format!(
        "{DECLS}handler h on net_recv(%pkt: packet) {{ %ok: u1, %x: u8 = extract %pkt emit %pkt, %x emit %pkt, %x
           %three: u32 = 3 generate again(%pkt, %three) log \"first\"() return }}
         handler again on again(%p: packet, %n: u32) {{ log \"{{}}\"(%n) %zero: u32 = 0 %c: u1 = eq %n, %zero
           if %c {{ generate stack_recv(%p) return }} %one: u32 = 1 %m: u32 = sub %n, %one generate again(%p, %m) return }}"
    );
    let program = verify(parse(&text).unwrap()).unwrap();
    let mut interp = Interp::new(&program);
    let found = interp.run(&net(&[8, 9])).unwrap();
    let log = |text: &str| Output::Log { text: text.to_string() };
    let expected = [
        log("first"),
        log("3"),
        log("2"),
        log("1"),
        log("0"),
        Output::Stack { frame: vec![8, 8, 9] },
    ];
    assert_eq!(found, expected);
    interp.max_steps = 10;
    assert_eq!(interp.run(&net(&[8, 9])), Err(InterpError::TooManySteps(10)));
}

#[test]
fn messages_from_the_host() {
    let text = format!(
        "{DECLS}handler h on host_send(%m: bits) {{ %w: u64 = get %m.w log \"{{}}\"(%w) generate host_msg(%m) return }}"
    );
    let program = verify(parse(&text).unwrap()).unwrap();
    let mut interp = Interp::new(&program);
    let host =
        |message: Vec<u8>| InputEvent { time_ns: 0, seed: 0, input: Input::Host { message } };
    let found = interp.run(&host(vec![0xff; 16])).unwrap();
    assert_eq!(found[0], Output::Log { text: u64::MAX.to_string() });
    assert!(
        matches!(&found[1], Output::HostMessage { bytes } if bytes[1] == 1),
        "padding is cleared"
    );
    assert_eq!(
        interp.run(&host(vec![0; 3])),
        Err(InterpError::MessageSize { length: 3, expected: 16 })
    );
    assert_eq!(
        interp.run(&net(&[])),
        Err(InterpError::NoHandler { event: "net_recv".to_string() })
    );
}

#[test]
fn growth_counts_what_a_trim_hides() {
    let body = "%none: u32 = 0 %ok: u1, %v: u64 = extract %pkt emit %pkt, %v emit %pkt, %v
        emit %pkt, %v %cut: u1 = trim %pkt, %none generate stack_recv(%pkt) return";
    let program = program(body);
    let mut interp = Interp::new(&program);
    let found = interp.run(&net(&[0; 64])).unwrap();
    assert_eq!((&found[0], interp.growth()), (&Output::Stack { frame: vec![0; 24] }, 16));
    interp.run(&net(&[])).unwrap();
    assert_eq!(
        interp.growth(),
        24,
        "an extract that failed read nothing; growth is the last event's"
    );
}

#[test]
fn frames_and_emits_are_limited() {
    let program = program(
        "%ok: u1, %v: u64 = extract %pkt emit %pkt, %v emit %pkt, %v generate stack_recv(%pkt) return",
    );
    let mut interp = Interp::new(&program);
    match &interp.run(&net(&vec![0; 65535])).unwrap()[0] {
        Output::Stack { frame } => assert_eq!(frame.len(), 65535, "the second emit does not fit"),
        other => panic!("{other:?}"),
    }
    assert_eq!(interp.run(&net(&vec![0; 65536])), Err(InterpError::FrameTooLong { length: 65536 }));
}

#[test]
fn lpm_takes_the_longest_prefix() {
    let body =
        "%ok: u1, %k: u32 = extract %pkt %h: u1, %v: u16 = lookup routes[%k] log \"{} {}\"(%h, %v)
        drop %pkt, \"no\" return";
    let program = program(body);
    let mut interp = Interp::new(&program);
    let routes = program.table_named("routes").unwrap();
    let entry = |key: [u8; 4], bits, value: u16| Entry {
        key: key.to_vec(),
        matching: Match::Prefix(bits),
        value: value.to_le_bytes().to_vec(),
        buf: None,
    };
    for (key, bits, value) in
        [([10, 0, 0, 0], 8, 1), ([10, 1, 2, 3], 15, 2), ([10, 1, 2, 4], 32, 3), ([0; 4], 0, 4)]
    {
        interp.set(routes, &entry(key, bits, value)).unwrap();
    }
    let mut seen = |key: [u8; 4]| match &interp.run(&net(&key)).unwrap()[0] {
        Output::Log { text } => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(seen([10, 9, 9, 9]), "1 1");
    assert_eq!(seen([10, 0, 9, 9]), "1 2", "10.0.0.0/15 covers 10.0 and 10.1");
    assert_eq!(seen([10, 1, 2, 4]), "1 3");
    assert_eq!(seen([9, 1, 2, 4]), "1 4");
    let full = interp.set(routes, &entry([11, 0, 0, 0], 8, 9)).unwrap_err();
    assert_eq!(full, TableError::Full { table: "routes".to_string(), capacity: 4 });
    interp.set(routes, &entry([10, 77, 0, 0], 8, 7)).expect("overwriting needs no room");
    assert_eq!(
        interp.get(routes, &[10, 5, 5, 5], &Match::Prefix(8)).unwrap().unwrap().value,
        [7, 0]
    );
    assert!(interp.delete(routes, &[0; 4], &Match::Prefix(0)).unwrap());
    assert!(!interp.delete(routes, &[0; 4], &Match::Prefix(0)).unwrap());
    assert_eq!(interp.dump(routes).unwrap().len(), 3);
}

#[test]
fn handlers_change_what_they_find_in_an_lpm_table() {
    let body = "%ok: u1, %k: u32 = extract %pkt %n: u16 = 5 %bits: u32 = 20
        %u: u1 = update routes[%k], %n commute add routes[%k], %n
        %h: u1, %v: u16 = lookup_bits routes[%k], %bits log \"{} {} {}\"(%u, %h, %v)
        drop %pkt, \"no\" return";
    let program = program(body);
    let mut interp = Interp::new(&program);
    let routes = program.table_named("routes").unwrap();
    for (key, bits, value) in [([10, 0, 0, 0], 8, 1u16), ([10, 1, 2, 0], 24, 2)] {
        let (key, value) = (key.to_vec(), value.to_le_bytes().to_vec());
        let entry = Entry { key, matching: Match::Prefix(bits), value, buf: None };
        interp.set(routes, &entry).unwrap();
    }
    let mut seen = |key: [u8; 4]| match &interp.run(&net(&key)).unwrap()[0] {
        Output::Log { text } => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(seen([10, 1, 2, 3]), "1 1 1", "the longest was changed, of 20 bits is another");
    assert_eq!(seen([10, 9, 9, 9]), "1 1 10");
    assert_eq!(seen([11, 0, 0, 0]), "0 0 0", "nothing comes into being");
    let values = interp.dump(routes).unwrap().into_iter().map(|entry| entry.value);
    assert_eq!(values.collect::<Vec<_>>(), [[10, 0], [10, 0]]);
    assert_eq!(interp.counters().refused[routes], 0);
}

#[test]
fn ternary_takes_the_highest_priority_then_the_first() {
    let body =
        "%ok: u1, %k: u16 = extract %pkt %h: u1, %v: u16 = lookup rules[%k] log \"{} {}\"(%h, %v)
        drop %pkt, \"no\" return";
    let program = program(body);
    let mut interp = Interp::new(&program);
    let rules = program.table_named("rules").unwrap();
    for (key, mask, priority, value) in
        [([1, 0], [255, 0], 5, 1u16), ([0, 2], [0, 255], 5, 2), ([0, 3], [0, 255], 9, 3)]
    {
        let matching = Match::Mask { mask: mask.to_vec(), priority };
        let entry =
            Entry { key: key.to_vec(), matching, value: value.to_le_bytes().to_vec(), buf: None };
        interp.set(rules, &entry).unwrap();
    }
    let mut seen = |key: [u8; 2]| match &interp.run(&net(&key)).unwrap()[0] {
        Output::Log { text } => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(
        [seen([1, 2]), seen([1, 3]), seen([7, 2]), seen([7, 7])],
        ["1 1", "1 3", "1 2", "0 0"]
    );
}

#[test]
fn outside_writes_are_checked() {
    let program = program("drop %pkt, \"no\" return");
    let mut interp = Interp::new(&program);
    let (conns, slots) =
        (program.table_named("conns").unwrap(), program.table_named("slots").unwrap());
    let entry = |key: &[u8], value: &[u8], buf: Option<&[u8]>| Entry {
        key: key.to_vec(),
        matching: Match::Exact,
        value: value.to_vec(),
        buf: buf.map(<[u8]>::to_vec),
    };
    let mut message = |table, entry: Entry| interp.set(table, &entry).unwrap_err().to_string();
    assert_eq!(
        message(conns, entry(&[1], &[0; 24], None)),
        "table `conns`: a key has 4 bytes, not 1"
    );
    assert_eq!(
        message(conns, entry(&[1; 4], &[0; 2], None)),
        "table `conns`: a value has 24 bytes, not 2"
    );
    assert!(message(conns, entry(&[1; 4], &[255; 24], None)).contains("padding"));
    assert!(message(conns, entry(&[1; 4], &[0; 24], Some(&[0; 9]))).contains("does not fit 8"));
    assert_eq!(
        message(slots, entry(&[4, 0, 0, 0], &[0; 4], None)),
        "index 4 is beyond the capacity 4 of array table `slots`"
    );
    let prefix = Entry { matching: Match::Prefix(3), ..entry(&[1; 4], &[0; 4], None) };
    assert!(message(slots, prefix).contains("array tables do not match prefixes"));
    interp.set(slots, &entry(&[3, 0, 0, 0], &[1, 0, 0, 0], None)).unwrap();
    assert_eq!(interp.dump(slots).unwrap().len(), 1);
    assert!(interp.delete(slots, &[3, 0, 0, 0], &Match::Exact).unwrap());
    assert_eq!(interp.dump(slots).unwrap().len(), 0, "entries that are all zero are not shown");
    interp.set(conns, &entry(&[1, 0, 0, 0], &[0; 24], Some(b"abc"))).unwrap();
    interp.set(conns, &entry(&[1, 0, 0, 0], &[0; 24], None)).unwrap();
    assert_eq!(
        interp.get(conns, &[1, 0, 0, 0], &Match::Exact).unwrap().unwrap().buf.unwrap(),
        b"abc"
    );
}

#[test]
fn a_tracer_sees_what_happens() {
    #[derive(Default)]
    struct Record(Vec<String>);
    impl Tracer for Record {
        fn handler(&mut self, handler: crate::program::HandlerId, args: &[Val]) {
            self.0.push(format!("{handler} {args:?}"));
        }
        fn op(&mut self, step: &Step) {
            self.0.push(format!("{:?} -> {:?}", step.operands, step.results));
        }
        fn branch(&mut self, _: BodyOf, _: crate::program::InstId, taken: bool) {
            self.0.push(format!("taken {taken}"));
        }
        fn trip(&mut self, _: BodyOf, _: crate::program::InstId, trip: u32) {
            self.0.push(format!("trip {trip}"));
        }
        fn table(&mut self, access: &Access) {
            self.0.push(format!(
                "{} {:?} {} {}",
                access.table, access.key, access.hit, access.writes
            ));
        }
        fn output(&mut self, output: &Output) {
            self.0.push(format!("{output:?}"));
        }
    }
    let program = program(
        "%k: u32 = 1 %u: u1 = update slots[%k], %k if %u { loop 1 { continue 0 } } drop %pkt, \"no\" return",
    );
    let mut record = Record::default();
    Interp::new(&program).run_traced(&net(&[]), &mut record as &mut dyn Tracer).unwrap();
    let expected = [
        "handler0 [Packet(0)]",
        "[] -> [Int(1)]",
        "table2 [1, 0, 0, 0] true true",
        "[Int(1), Int(1)] -> [Int(1)]",
        "[Int(1)] -> []",
        "taken true",
        "[] -> []",
        "trip 0",
        "[] -> []",
        "[] -> []",
        "Drop { reason: reason0 }",
        "[Packet(0)] -> []",
        "[] -> []",
    ];
    assert_eq!(record.0, expected);
}

#[test]
fn the_deepest_nesting_runs() {
    let depth = crate::text::MAX_NESTING;
    let nested =
        format!("%c: u1 = 1 {} log \"deep\"() {}", "if %c { ".repeat(depth), "} ".repeat(depth));
    assert_eq!(logs(&nested, &[]), ["deep"]);
}
