//! Who waits in the gate of a pipe: readers of byte strings for those that append, and packets
//! whose keys other tables say; what the interpreter does, and in how many cycles.

use nicforge_ir::io::random;
use nicforge_tests::designs::{Piped, each};

/// Packets of `looked_into`: few keys and many, one at a time and any.
fn appending_or_reading(n: u64) -> Vec<u8> {
    let random = |at| random(n, at);
    let length = 14 + random(0) as usize % 150;
    let mut frame: Vec<u8> = (0..length as u64).map(|at| random(at) as u8).collect();
    frame[1] = match n / 300 % 3 {
        0 => (random(1) % 4) as u8,
        1 => (random(1) % 40) as u8,
        _ => (n / 50 % 20) as u8,
    };
    let place = random(2) as u16 % if random(3) % 8 == 0 { u16::MAX } else { 300 };
    frame[2..4].copy_from_slice(&place.to_be_bytes());
    frame[4] = (random(4) % 90) as u8;
    frame
}

/// Bytes are read at constant places, at any place and in a loop, by packets behind those that
/// append them, of the same entries and of others; what was read decides about entries.
#[test]
fn bytes_are_read_out_of_strings() {
    let Some(piped) = Piped::of("tests/programs/looked_into") else { return };
    assert_eq!(piped.cycles().0, 1);
    piped.does_the_same(appending_or_reading);
}

/// Bytes are read behind others that the same packet has appended under another key, which is the
/// same one or is not.
#[test]
fn bytes_are_read_under_another_key() {
    let Some(piped) = Piped::of("tests/programs/two_keys") else { return };
    // The LRU table's entries are asked for in turn.
    assert!(piped.cycles().0 <= 4, "{:?}", piped.cycles());
    let [free, _] = piped.does_the_same(|n| {
        let random = |at| random(n, at);
        let length = 14 + random(0) as usize % 100;
        let mut frame: Vec<u8> = (0..length as u64).map(|at| random(at) as u8).collect();
        // Few keys and many, often the same one twice.
        let keys = [3, 12, 30][n as usize / 100 % 3];
        (frame[0], frame[1]) = (random(1) as u8, (random(2) % keys) as u8);
        frame[2] = if random(3) % 2 == 0 { frame[1] } else { (random(4) % keys) as u8 };
        (frame[3], frame[4]) = ((random(5) % 120) as u8, (random(6) % 50) as u8);
        frame
    });
    println!("{:.3} cycles a packet", each(&free));
}

/// A packet of 60 bytes of this flow that does this (`remembered`).
fn of_flow(flow: u32, how: u32) -> Vec<u8> {
    let mut frame = vec![0; 60];
    frame[0] = how as u8;
    frame[28..30].copy_from_slice(&(flow as u16).to_be_bytes());
    frame
}

/// Only who reads waits, and only for those that append to the same string; two commands of one
/// packet take the deparser two cycles.
#[test]
fn only_readers_of_the_same_string_wait() {
    let Some(piped) = Piped::of("tests/programs/remembered") else { return };
    let (interval, meeting) = piped.cycles();
    assert_eq!(interval, 1);
    let [any, _] = piped.does_the_same(|n| of_flow(random(n, 0) % 900, random(n, 1)));
    let [few, _] = piped.does_the_same(|n| of_flow(random(n, 0) % 8, random(n, 1)));
    // Reads only, and appends only, of one string.
    let [read, _] =
        piped.does_the_same(|n| of_flow(7, if n == 0 { 0 } else { 4 * (random(n, 1) % 16) + 1 }));
    let [appended, _] = piped.does_the_same(|_| of_flow(7, 0));
    let [in_turn, _] = piped.does_the_same(|n| of_flow(7, n as u32 % 2));
    let [any, few, read, appended, in_turn] =
        [any, few, read, appended, in_turn].map(|stats| each(&stats));
    println!(
        "{any:.3} cycles a packet of any flow, {few:.3} of few, {read:.3} if one is only read, {appended:.3} if only appended to, \
         {in_turn:.3} in turn, {meeting} predicted"
    );
    assert!(any < 1.3, "{any:.3} cycles a packet that hardly ever meets another one");
    assert!((any..2.5).contains(&few), "{few:.3}");
    assert!(
        read < 2.1 && appended < 2.1,
        "{read:.3} and {appended:.3} cycles where nothing is waited for"
    );
    // The reader leaves the gate as many cycles behind, the next one that appends two behind the
    // reader.
    let pair = f64::from(meeting) + 2.0;
    assert!(
        (pair - 0.1..pair + 0.1).contains(&(2.0 * in_turn)),
        "{in_turn:.3} for {pair} cycles of two"
    );
}

/// Who waits where a table that nothing changes, and bytes from anywhere, say what the keys of
/// others are: only packets of the same entries.
#[test]
fn packets_are_told_apart_by_what_tables_say() {
    let Some(piped) = Piped::of("tests/programs/metered") else { return };
    let (interval, meeting) = piped.cycles();
    assert!(interval == 1 && meeting == 3, "{interval} and {meeting} cycles");
    let of = |n: u64, flow: u32, place: u32| {
        let mut frame = of_flow(0, 0);
        frame[..2].copy_from_slice(&(flow as u16).to_be_bytes());
        frame[2..4].copy_from_slice(&(place as u16).to_be_bytes());
        frame[4..8].copy_from_slice(&(7 * n as u32 + random(n, 5) % 8).to_le_bytes());
        let most = [255, 8][n as usize % 2];
        (32..60).for_each(|at| frame[at] = random(n / 3 * 3, at as u64) as u8 % most);
        frame.resize(60 + random(n, 6) as usize % 3 * 100, 9);
        frame
    };
    piped.does_the_same(|n| of(n, random(n, 0) % 50, random(n, 1) % 70));
    let line = |n, flow, place| {
        let mut frame = of(n, flow, place);
        frame.truncate(60);
        (32..60).for_each(|at| frame[at] = 9 * (at as u8 - 32));
        frame
    };
    let [any, _] = piped.does_the_same(|n| line(n, n as u32 * 5 % 48, 2 + n as u32 % 28));
    let [one, _] = piped.does_the_same(|n| line(n, 7, 100));
    let [any, one] = [any, one].map(|stats| each(&stats));
    println!("{any:.3} cycles a packet of any class, {one:.3} of one");
    // Rows of a small hash table meet now and then.
    assert!(any < 1.3, "{any:.3} cycles a packet of any class");
    assert!((2.9..3.1).contains(&one), "{one:.3}");
}

/// And where a table that packets change says it, as soon as it shows its entry.
#[test]
fn packets_are_told_apart_by_what_is_known_of_flows() {
    let Some(piped) = Piped::of("tests/programs/assigned") else { return };
    let (interval, meeting) = piped.cycles();
    assert!(interval == 1 && (2..=4).contains(&meeting), "{interval} and {meeting} cycles");
    let of = |n: u64, flow: u32, how: u32, bucket: u32| {
        let mut frame = vec![0; 60];
        frame[..2].copy_from_slice(&(flow as u16).to_le_bytes());
        (frame[2], frame[3]) = (how as u8, bucket as u8);
        frame[4..8].copy_from_slice(&(7 * n as u32 + random(n, 5) % 8).to_le_bytes());
        frame
    };
    let few = |n| [3, 40, 800][n as usize / 200 % 3];
    let [mixed, _] = piped
        .does_the_same(|n| of(n, random(n, 0) % few(n), random(n, 1) % 12, random(n, 2) % few(n)));
    let [any, _] = piped.does_the_same(|n| of(n, n as u32 % 100, 0, n as u32 % 100));
    let [one, _] = piped.does_the_same(|n| of(n, n as u32 % 100, 0, 7));
    let [mixed, any, one] = [mixed, any, one].map(|stats| each(&stats));
    println!(
        "{any:.3} cycles a packet of any bucket, {mixed:.3} of often the same, {one:.3} of one"
    );
    assert!(any < 1.1 && (any..one).contains(&mixed), "{any:.3} and {mixed:.3}");
    assert!((f64::from(meeting) - 0.1..f64::from(meeting) + 0.1).contains(&one), "{one:.3}");
}

/// Byte strings whose keys a table of the host says, of which every packet reads what it and others
/// have appended.
#[test]
fn strings_are_told_apart_by_what_tables_say() {
    let Some(piped) = Piped::of("tests/programs/every_table") else { return };
    let (interval, meeting) = piped.cycles();
    assert_eq!(interval, 1);
    let stats = piped.does_the_same(|n| {
        let length = 38 + random(n, 0) as usize % 60;
        let mut frame: Vec<u8> = (0..length as u64).map(|at| random(n, at) as u8).collect();
        frame[12..14].copy_from_slice(&[8, 0]);
        // Three keys.
        let addresses = [10, random(n, 1) as u8 % 2, random(n, 2) as u8 % 4, 1, 192, 0, 2, 1];
        frame[26..34].copy_from_slice(&addresses);
        frame
    });
    let each = each(&stats[0]);
    println!("{each:.3} cycles a packet, {meeting} of one string");
    assert!(
        each < 0.9 * f64::from(meeting),
        "{each:.3} cycles a packet, {meeting} if all wait for all"
    );
}

/// A frame of these 16-bit words, then an amount, of 60 bytes.
fn of_words(words: &[u32], amount: u32) -> Vec<u8> {
    let mut frame: Vec<u8> = words.iter().flat_map(|word| (*word as u16).to_le_bytes()).collect();
    frame.extend(amount.to_le_bytes());
    frame.resize(60, 0);
    frame
}

/// An amount that grows.
fn amount(n: u64) -> u32 {
    7 * n as u32 + random(n, 5) % 8
}

/// Three gates, one behind the other: each table says the key of the next one, some cycles before
/// it is changed itself.
#[test]
fn packets_are_told_apart_by_tables_that_change_later() {
    let Some(piped) = Piped::of("tests/programs/chained") else { return };
    let (interval, meeting) = piped.cycles();
    assert!(interval == 1 && meeting == 3, "{interval} and {meeting} cycles");
    let few = |n| [2, 30, 5000][n as usize / 200 % 3];
    // Entries come and go, and tables are full at times.
    let [mixed, _] = piped.does_the_same(|n| {
        of_words(&[random(n, 0) % few(n), random(n, 1) % few(n + 400).min(12)], amount(n))
    });
    let [any, _] = piped.does_the_same(|n| of_words(&[n as u32 % 500, random(n, 1)], amount(n)));
    let [one, _] = piped.does_the_same(|n| of_words(&[7, random(n, 1)], amount(n)));
    let [mixed, any, one] = [mixed, any, one].map(|stats| each(&stats));
    println!("{any:.3} cycles a packet of any flow, {mixed:.3} of often the same, {one:.3} of one");
    assert!(any < 1.1 && (any..one).contains(&mixed), "{any:.3} and {mixed:.3}");
    assert!((2.9..3.1).contains(&one), "{one:.3}");
}

/// Behind an LRU table: which entry it has evicted is told by whose packet it was.
#[test]
fn packets_are_told_apart_by_what_lru_tables_say() {
    let Some(piped) = Piped::of("tests/programs/leased") else { return };
    let (interval, meeting) = piped.cycles();
    assert!(interval == 1 && meeting == 3, "{interval} and {meeting} cycles");
    let few = |n| [3, 90, 800][n as usize / 200 % 3];
    let [mixed, _] = piped
        .does_the_same(|n| of_words(&[random(n, 0) % few(n), random(n, 1) % few(n)], amount(n)));
    let [any, _] = piped.does_the_same(|n| of_words(&[random(n, 0), random(n, 1)], amount(n)));
    let [one, _] = piped.does_the_same(|n| of_words(&[random(n, 0), 7], amount(n)));
    let [mixed, any, one] = [mixed, any, one].map(|stats| each(&stats));
    println!(
        "{any:.3} cycles a packet of any bucket, {mixed:.3} of often the same, {one:.3} of one"
    );
    assert!(any < 1.1 && (any..one).contains(&mixed), "{any:.3} and {mixed:.3}");
    assert!((2.9..3.1).contains(&one), "{one:.3}");
}

/// And behind entries that are asked for in turn: no packet waits longer for that than the turns
/// take.
#[test]
fn packets_are_told_apart_by_entries_in_turn() {
    let Some(piped) = Piped::of("tests/programs/partners") else { return };
    let (interval, meeting) = piped.cycles();
    assert!(interval == 2 && meeting == 4, "{interval} and {meeting} cycles");
    let few = |n| [3, 90, 800][n as usize / 200 % 3];
    let [mixed, _] = piped
        .does_the_same(|n| of_words(&[random(n, 0) % few(n), random(n, 1) % few(n)], amount(n)));
    // Known ones of different amounts.
    let [any, _] =
        piped.does_the_same(|n| of_words(&[random(n, 0) % 20, random(n, 1) % 20], random(n, 2)));
    // New ones are in none.
    let [one, _] = piped.does_the_same(|n| of_words(&[2 * n as u32, 2 * n as u32 + 1], amount(n)));
    let [mixed, any, one] = [mixed, any, one].map(|stats| each(&stats));
    println!("{any:.3} cycles a packet of any bucket, {mixed:.3} of others, {one:.3} of one");
    assert!(any < 2.1 && (any..one).contains(&mixed), "{any:.3} and {mixed:.3}");
    assert!((3.9..4.1).contains(&one), "{one:.3}");
}

/// And behind bytes of strings, for which a gate of their own waits.
#[test]
fn packets_are_told_apart_by_bytes_of_strings() {
    let Some(piped) = Piped::of("tests/programs/spelled") else { return };
    assert_eq!(piped.cycles().0, 1);
    let of = |n, flow, how: u32, word| of_words(&[how, 0, flow, word], amount(n));
    let few = |n| [2, 30, 900][n as usize / 200 % 3];
    let [mixed, _] = piped.does_the_same(|n| {
        of(n, random(n, 0) % few(n), random(n, 1) % 256, random(n, 2) % few(n + 400))
    });
    let [any, _] = piped.does_the_same(|n| of(n, n as u32 % 900, 2, random(n, 2)));
    let [one, _] = piped.does_the_same(|n| of(n, n as u32 % 900, 2, 7));
    let [mixed, any, one] = [mixed, any, one].map(|stats| each(&stats));
    println!(
        "{any:.3} cycles a packet of any bucket, {mixed:.3} of often the same, {one:.3} of one"
    );
    assert!(any < 1.1 && any < mixed, "{any:.3} and {mixed:.3}");
    assert!((2.9..3.1).contains(&one), "{one:.3}");
}

/// A table whose entry says the key of another one, and is changed by what that one says: packets
/// of other flows do not wait.
#[test]
fn tables_decide_about_those_that_say_their_keys() {
    let Some(piped) = Piped::of("tests/programs/limited") else { return };
    let (interval, meeting) = piped.cycles();
    assert!(interval == 1 && meeting == 4, "{interval} and {meeting} cycles");
    let few = |n| [2, 30, 5000][n as usize / 200 % 3];
    let [mixed, _] =
        piped.does_the_same(|n| of_words(&[random(n, 0) % few(n), random(n, 1) % few(n + 400)], 0));
    let [any, _] = piped.does_the_same(|n| of_words(&[n as u32 % 500, 7], 0));
    let [one, _] = piped.does_the_same(|n| of_words(&[7, random(n, 1)], 0));
    let [mixed, any, one] = [mixed, any, one].map(|stats| each(&stats));
    println!("{any:.3} cycles a packet of any flow, {mixed:.3} of often the same, {one:.3} of one");
    assert!(any < 1.1 && (any..one).contains(&mixed), "{any:.3} and {mixed:.3}");
    assert!((3.9..4.1).contains(&one), "{one:.3}");
}

/// Who asks for no entry waits for nobody, and nobody for him, also where a key is always the same;
/// nor do those that only read.
#[test]
fn only_who_changes_entries_is_waited_for() {
    let Some(piped) = Piped::of("tests/programs/rationed") else { return };
    let (interval, meeting) = piped.cycles();
    assert!(interval == 1 && meeting == 3, "{interval} and {meeting} cycles");
    let cycles = |how: &dyn Fn(u64) -> (u32, u32)| {
        let [stats, _] = piped.does_the_same(|n| {
            let (how, flow) = how(n);
            of_words(&[how, flow], amount(n))
        });
        each(&stats)
    };
    let mixed = cycles(&|n| (random(n, 0) % 6, random(n, 1) % 3));
    let free = [
        cycles(&|_| (4, 7)),
        cycles(&|n| (if n % 4 == 0 { 1 } else { 4 }, 7)),
        cycles(&|n| (if n == 0 { 2 } else { 3 }, 7)),
    ];
    let bound = [cycles(&|n| (1, n as u32)), cycles(&|_| (2, 7))];
    // The reader three cycles behind the one that changes, who need not wait for a reader.
    let in_turn = cycles(&|n| (2 + n as u32 % 2, 7));
    println!(
        "{free:.3?} cycles a packet that waits for nobody, {mixed:.3} of all kinds, {in_turn:.3} in turn, {bound:.3?} of one entry"
    );
    assert!(
        free.iter().all(|each| *each < 1.1) && (1.1..2.5).contains(&mixed),
        "{free:.3?}, {mixed:.3}"
    );
    assert!(bound.iter().all(|each| (2.9..3.1).contains(each)), "{bound:.3?}");
    assert!((1.9..2.1).contains(&in_turn), "{in_turn:.3}");
}

/// Byte strings of arrays, which the host may have filled: of one entry a packet, and of two that
/// may be the same, which the table shows at once.
#[test]
fn strings_of_arrays_lie_where_their_numbers_say() {
    let Some(piped) = Piped::of("tests/programs/boxes") else { return };
    assert_eq!(piped.cycles().0, 1);
    piped.does_the_same(|n| {
        let random = |at| random(n, at);
        let length = 14 + random(0) as usize % 100;
        let mut frame: Vec<u8> = (0..length as u64).map(|at| random(at) as u8).collect();
        // Also behind the end of `boxes`.
        let few = [4, 14, 200][n as usize / 100 % 3];
        (frame[0], frame[1]) = (random(1) as u8, (random(2) % few) as u8);
        frame[2] = if random(3) % 2 == 0 { frame[1] } else { (random(4) % few) as u8 };
        (frame[3], frame[4]) = ((random(5) % 120) as u8, (random(6) % 50) as u8);
        frame
    });
}
