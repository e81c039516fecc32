//! Several contexts: images at the same addresses, shares by weight, one image twice.

use super::*;

/// Counts in its own data and prints nothing.
const COUNT: &str = "
        .global ph
    ph: la t0, count
        li t1, STEP
        amoadd.w t2, t1, (t0)
        li t0, 200
    1:  addi t0, t0, -1
        bnez t0, 1b
        ret
        .data
        .global count
    count: .word BASE
        .text
";

fn word(nic: &Nic, context: usize, image: &Image) -> u32 {
    let at = image.symbol("count").unwrap().address;
    u32::from_le_bytes(nic.read(context, at, 4).unwrap().try_into().unwrap())
}

fn of(context: usize, time: u64, message: u32) -> Arrival {
    let arrival = packet(time, 64, message, true);
    Arrival { matched: Some(Matched { context, message, last: true }), ..arrival }
}

#[test]
fn images_at_the_same_addresses_do_not_see_each_other() {
    let built = |step: &str, base: &str| image(&COUNT.replace("STEP", step).replace("BASE", base));
    let (Some(first), Some(second)) = (built("1", "100"), built("5", "1000")) else { return };
    let mut nic =
        Nic::new(&machine("pspin"), Options::default(), Box::new(SparseMemory::default()));
    nic.add_context(context(&first)).unwrap();
    nic.add_context(context(&second)).unwrap();
    let third = Context { shares: Some(1), ..context(&second) };
    nic.add_context(third).unwrap();
    for number in 0..30 {
        nic.arrive(of(number % 3, number as u64 * 3, number as u32));
    }
    nic.run_until(Until::Idle);
    assert_eq!(faults(&nic.take_out()), []);
    let counts = [word(&nic, 0, &first), word(&nic, 1, &second), word(&nic, 2, &second)];
    assert_eq!(counts, [110, 1100, 1100]);
    assert_clean(&mut nic);
}

#[test]
fn initialised_data_is_loaded_unless_the_fault_is_asked_for() {
    let Some(image) = image(&COUNT.replace("STEP", "1").replace("BASE", "100")) else { return };
    for (name, bugs, count) in [("fpspin", false, 101), ("fpspin", true, 1), ("pspin", true, 101)] {
        let mut nic = nic(name, &image, Options { compat: Compat { bugs }, ..Options::default() });
        nic.arrive(of(0, 0, 0));
        nic.run_until(Until::Idle);
        assert_eq!(word(&nic, 0, &image), count, "{name}, {bugs}");
    }
}

#[test]
fn units_are_shared_by_weight() {
    let Some(image) = image(&COUNT.replace("STEP", "1").replace("BASE", "0")) else { return };
    let mut machine = machine("pspin");
    machine.cells = 100_000;
    machine.queues = 4096;
    let mut nic = Nic::new(&machine, Options::default(), Box::new(SparseMemory::default()));
    for weight in [3, 1] {
        nic.add_context(Context { weight: NonZeroU32::new(weight).unwrap(), ..context(&image) })
            .unwrap();
    }
    for number in 0..4000 {
        nic.arrive(of(number % 2, number as u64, number as u32));
    }
    // While both have packets waiting.
    nic.run_until(Until::Cycle(20_000));
    let out = nic.take_out();
    let of = |context: usize| {
        records(&out).iter().filter(|record| record.context == context).count() as f64
    };
    assert!((2.7..3.3).contains(&(of(0) / of(1))), "{} to {}", of(0), of(1));
}

#[test]
fn contexts_that_cannot_be_are_refused_with_the_reason() {
    let Some(image) = image(".global ph\nph: ret\n") else { return };
    let mut nic =
        Nic::new(&machine("fpspin"), Options::default(), Box::new(SparseMemory::default()));
    let said = |nic: &mut Nic, context: Context| nic.add_context(context).unwrap_err().to_string();
    let missing = Handlers { payload: Some("other".into()), ..Handlers::default() };
    assert_eq!(
        said(&mut nic, Context::new(&image, missing)),
        "the image has no symbol `other`; name handlers as they are defined"
    );
    assert!(
        said(&mut nic, Context { scratchpad: 1 << 20, ..context(&image) })
            .contains("a cluster has room for")
    );
    assert_eq!(
        said(&mut nic, Context { shares: Some(3), ..context(&image) }),
        "there is no context 3"
    );
    let unlinked = Image::default();
    let none = Context::new(&unlinked, Handlers::default());
    assert!(said(&mut nic, none).contains("no segments to load"));
    let loops = self::image("").map(|mut image| {
        image.entry += 2;
        image
    });
    if let Some(crooked) = loops {
        let said = said(&mut nic, Context::new(&crooked, Handlers::default()));
        assert!(said.starts_with("the image does not start: HPU"), "{said}");
    }
    nic.add_context(context(&image)).unwrap();
    nic.arrive(packet(0, 64, 0, true));
    assert!(
        said(&mut nic, context(&image))
            .starts_with("contexts are set up while nothing is under way")
    );
    nic.run_until(Until::Idle);
    assert_eq!(nic.add_context(context(&image)), Ok(1), "later, too");
    let now = nic.now();
    nic.arrive(of(1, now, 3));
    nic.run_until(Until::Idle);
    let record = records(&nic.take_out())[1];
    assert!(record.context == 1 && record.times.started > now);
    assert_eq!(nic.set_ruleset(2, None), Err(NicError::NoContext(2)));
    nic.set_ruleset(
        1,
        Some(Ruleset { select: [crate::matching::Test::ALWAYS; 3], ..Ruleset::UDP }),
    )
    .unwrap();
    nic.arrive(Arrival { time: now, frame: vec![0; 60], ..Arrival::default() });
    nic.run_until(Until::Idle);
    assert_eq!((nic.stats().matched, nic.message_counts().packets), (3, 3));
}
