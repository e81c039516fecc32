//! Several entries of one table that a packet changes, in designs: what the interpreter does, and
//! in how many cycles.

use nicforge_ir::Output;
use nicforge_ir::io::random;
use nicforge_tests::designs::{Piped, each};

/// A frame that begins with these, and leaves in one line with what is put in front of it.
fn frame(mut bytes: Vec<u8>) -> Vec<u8> {
    bytes.resize(48, 0);
    bytes
}

/// Three entries of one array at once, often the same one twice, also beyond the array. Packets
/// wait for those of the same entries only: workloads in which they often meet, never do, and all
/// are of one entry.
#[test]
fn entries_are_changed_at_once() {
    let Some(piped) = Piped::of("tests/programs/transfers") else { return };
    let (interval, meeting) = piped.cycles();
    assert!(interval == 1 && (2..=4).contains(&meeting), "{interval} and {meeting} cycles");
    let of = |numbers: [u32; 3], n| {
        let numbers = numbers.iter().flat_map(|number| (*number as u16).to_le_bytes());
        frame(numbers.chain([random(n, 8) as u8, random(n, 9) as u8]).collect())
    };
    let [often, _] = piped.does_the_same(|n| {
        let few = [3, 40, 1024][n as usize / 200 % 3];
        of([0, 1, 2].map(|at| random(n, at) % few), n)
    });
    let [never, _] = piped.does_the_same(|n| of([0, 1, 2].map(|at| (3 * n as u32 + at) % 1000), n));
    let [always, _] = piped.does_the_same(|n| of([7; 3], n));
    let [often, never, always] = [often, never, always].map(|stats| each(&stats));
    println!("{never:.3} cycles a packet of other entries, {often:.3} of few, {always:.3} of one");
    assert!(never < 1.05, "{never:.3} cycles a packet that meets none");
    assert!(
        (f64::from(meeting) - 0.05..f64::from(meeting) + 0.05).contains(&always),
        "{always:.3}"
    );
    assert!((1.1..always).contains(&often), "{often:.3}");
}

/// Two entries of one hash table at once, which come and go, also the same one and from rows that
/// both have; the table fills up. Packets wait for those of the same rows only.
#[test]
fn entries_come_and_go_at_once() {
    let Some(piped) = Piped::of("tests/programs/pairs") else { return };
    let (interval, meeting) = piped.cycles();
    assert!(interval == 1 && meeting == 2, "{interval} and {meeting} cycles");
    let of = |numbers: [u32; 2], what: u32, n| {
        let numbers = numbers.iter().flat_map(|number| (*number as u16).to_le_bytes());
        frame(numbers.chain([what as u8, random(n, 9) as u8]).collect())
    };
    let [often, _] = piped.does_the_same(|n| {
        let few = [3, 40, 800][n as usize / 200 % 3];
        of([0, 1].map(|at| random(n, at) % few), random(n, 8), n)
    });
    // New ones all the time, of which hardly any go.
    let [seldom, _] =
        piped.does_the_same(|n| of([0, 1].map(|at| random(n, at)), 10 + random(n, 8) % 6, n));
    let [always, _] = piped.does_the_same(|n| of([7; 2], random(n, 8), n));
    // All of them make or change both; the answer says of each whether it did.
    let [made, _] = piped.runs(|n| of([0, 1].map(|at| random(n, at)), 10, n));
    let answers = made.run.outputs.iter().flatten().filter_map(|output| match output {
        Output::Send { frame, .. } => Some(&frame[6..8]),
        _ => None,
    });
    let none = answers.flatten().filter(|made| **made == 0).count() as u64;
    assert_eq!(made.stats.counters["refused_pairs"], none, "insertions that were refused");
    let refused = seldom.counters["refused_pairs"];
    let [often, seldom, always] = [often, seldom, always].map(|stats| each(&stats));
    println!(
        "{seldom:.3} cycles a packet of any entries, {often:.3} of few, {always:.3} of one, {refused} refused"
    );
    assert!(refused > 500, "{refused} refused");
    assert!(seldom < 1.1, "{seldom:.3} cycles a packet that meets few");
    assert!(
        (f64::from(meeting) - 0.05..f64::from(meeting) + 0.05).contains(&always),
        "{always:.3}"
    );
    assert!((seldom..always).contains(&often), "{often:.3}");
}

/// Entries of one array, and of a table that is often full, that a packet changes one behind the
/// other, often the same one twice.
#[test]
fn entries_are_changed_in_turn() {
    let Some(piped) = Piped::of("tests/programs/in_turn") else { return };
    assert!(piped.cycles().0 <= 8, "{:?}", piped.cycles());
    let [_, stats] = piped.does_the_same(|n| {
        let few = if n / 200 % 2 == 0 { 3 } else { 40 };
        let mut bytes: Vec<u8> = (0..4).map(|at| random(n, at) as u8).collect();
        bytes[1..].iter_mut().for_each(|number| *number %= few);
        frame(bytes)
    });
    let refused = stats.counters.get("refused_pairs");
    assert!(refused.is_some_and(|count| *count > 100), "{refused:?} refused");
}

/// Two byte strings of one table that a packet appends to and gives out, often the same one;
/// entries come and go, and the table is often full.
#[test]
fn strings_are_changed_at_once() {
    let Some(piped) = Piped::of("tests/programs/copied") else { return };
    let (interval, meeting) = piped.cycles();
    assert!(interval == 1 && meeting <= 4, "{interval} and {meeting} cycles");
    let [free, stats] = piped.does_the_same(|n| {
        let random = |at| random(n, at);
        let length = 22 + random(0) as usize % if n % 4 == 0 { 700 } else { 150 };
        let mut bytes: Vec<u8> = (0..length as u64).map(|at| random(at) as u8).collect();
        let few = if n / 300 % 2 == 0 { 3 } else { 60 };
        (bytes[1], bytes[2]) = ((random(1) % few) as u8, (random(2) % few) as u8);
        for at in [4, 6] {
            let count = random(at) as usize % if random(at + 1) % 8 == 0 { 2000 } else { length };
            bytes[at as usize..][..2].copy_from_slice(&(count as u16).to_be_bytes());
        }
        bytes
    });
    println!("{:.3} cycles a packet", each(&free));
    let refused = stats.counters.get("refused_kept");
    assert!(refused.is_some_and(|count| *count > 100), "{refused:?} refused");
}

/// Two entries with byte strings, which hardly anybody moves bytes of: packets of other rows do not
/// wait, nor do readers for other strings.
#[test]
fn entries_with_strings_come_and_go_at_once() {
    let Some(piped) = Piped::of("tests/programs/both_ends") else { return };
    let (interval, meeting) = piped.cycles();
    assert!(interval == 1, "{interval} and {meeting} cycles");
    let of = |numbers: [u32; 2], how: u32, n| {
        let numbers = numbers.iter().flat_map(|number| (*number as u16).to_le_bytes());
        frame([how as u8, random(n, 9) as u8 % 64].into_iter().chain(numbers).collect())
    };
    let [often, _] = piped.does_the_same(|n| {
        let few = [3, 40, 60000][n as usize / 200 % 3];
        of([0, 1].map(|at| random(n, at) % few), random(n, 8), n)
    });
    // No bytes move, and entries are made until there is no more room.
    let [seldom, _] = piped.does_the_same(|n| of([0, 1].map(|at| random(n, at)), 0, n));
    let [never, _] = piped.does_the_same(|n| of([0, 1].map(|at| (2 * n as u32 + at) % 600), 0, n));
    let [always, _] = piped.does_the_same(|n| of([7; 2], 0, n));
    let refused = seldom.counters["refused_words"];
    let [often, seldom, never, always] = [often, seldom, never, always].map(|stats| each(&stats));
    println!(
        "{never:.3} cycles a packet of other entries, {seldom:.3} of any, {often:.3} of few that move bytes, {always:.3} of one; {meeting} predicted, \
         {refused} refused"
    );
    assert!(refused > 500, "{refused} refused");
    assert!(
        seldom < 1.2 && never < 1.2,
        "{seldom:.3} and {never:.3} cycles a packet that meets few"
    );
    assert!((1.9..4.1).contains(&always), "{always:.3}");
}

/// Several entries of an LRU table, used and made one behind the other, often the same one: what
/// each new one evicts is what the rows say.
#[test]
fn entries_are_evicted_in_turn() {
    let Some(piped) = Piped::of("tests/programs/recents") else { return };
    assert!(piped.cycles().0 <= 6, "{:?}", piped.cycles());
    let [_, stats] = piped.does_the_same(|n| {
        let few = [4, 40, 60000][n as usize / 200 % 3];
        let numbers = [0, 1, 2].map(|at| (random(n, at) % few) as u16);
        let numbers = numbers.iter().flat_map(|number| number.to_le_bytes());
        frame(numbers.chain([random(n, 8) as u8, random(n, 9) as u8]).collect())
    });
    let evicted = stats.counters.get("evicted_recent");
    assert!(evicted.is_some_and(|count| *count > 200), "{evicted:?} evicted");
}

/// Commutative updates of members whose types have fewer bits than the bytes in which they lie,
/// which no C has.
#[test]
fn short_members_are_updated() {
    let Some(piped) = Piped::of("tests/programs/short_members") else { return };
    assert_eq!(piped.cycles().0, 1);
    piped.does_the_same(|n| {
        frame((0..4).map(|at| random(n, at) as u8 % [40, 255, 255, 255][at as usize]).collect())
    });
}
