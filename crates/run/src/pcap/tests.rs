use std::path::Path;

use nicforge_ir::Input;

use super::*;

/// A classic file of one packet, in any byte order and resolution.
fn classic_file(order: Order, nanoseconds: bool, data: &[u8], original: u32) -> Vec<u8> {
    let put =
        |value: u32| if order == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() };
    let put16 =
        |value: u16| if order == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut file = Vec::new();
    file.extend(put(if nanoseconds { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }));
    file.extend(put16(2));
    file.extend(put16(4));
    file.extend([0; 8]);
    file.extend(put(65535));
    file.extend(put(1));
    for word in [7, 42, data.len() as u32, original] {
        file.extend(put(word));
    }
    file.extend(data);
    file
}

fn block(order: Order, kind: u32, body: &[u8]) -> Vec<u8> {
    let put =
        |value: u32| if order == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() };
    let length = body.len().next_multiple_of(4) as u32 + 12;
    let mut out = put(kind).to_vec();
    out.extend(put(length));
    out.extend(body);
    out.resize(length as usize - 4, 0);
    out.extend(put(length));
    out
}

/// A pcapng file of one interface (with a resolution option) and one packet with time stamp `time`.
fn pcapng_file(order: Order, resolution: Option<u8>, time: u64, data: &[u8]) -> Vec<u8> {
    let put =
        |value: u32| if order == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() };
    let put16 =
        |value: u16| if order == Order::Big { value.to_be_bytes() } else { value.to_le_bytes() };
    let mut section = put(0x1a2b_3c4d).to_vec();
    section.extend([put16(1), put16(0)].concat());
    section.extend([0xff; 8]);
    let mut interface = [put16(1), put16(0)].concat();
    interface.extend(put(0));
    if let Some(resolution) = resolution {
        interface.extend([put16(9), put16(1)].concat());
        interface.extend([resolution, 0, 0, 0]);
        interface.extend([0; 4]);
    }
    let mut packet = Vec::new();
    for word in [0, (time >> 32) as u32, time as u32, data.len() as u32, data.len() as u32] {
        packet.extend(put(word));
    }
    packet.extend(data);
    [
        block(order, 0x0a0d_0d0a, &section),
        block(order, 1, &interface),
        block(order, 5, &[0; 8]),
        block(order, 6, &packet),
    ]
    .concat()
}

fn read_bytes(bytes: &[u8]) -> Result<Vec<Frame>, PcapError> {
    parse(Path::new("x.pcap"), bytes)
}

#[test]
fn classic_in_both_orders_and_resolutions() {
    for order in [Order::Big, Order::Little] {
        for (nanoseconds, expected) in [(true, 7_000_000_042), (false, 7_000_042_000)] {
            let frames = read_bytes(&classic_file(order, nanoseconds, b"frame", 5)).unwrap();
            assert_eq!(
                frames,
                [Frame { time_ns: expected, data: b"frame".to_vec(), original_length: 5 }]
            );
        }
    }
}

#[test]
fn pcapng_time_resolutions() {
    for order in [Order::Big, Order::Little] {
        let time = |resolution, stamp| {
            read_bytes(&pcapng_file(order, resolution, stamp, b"abcde")).unwrap()[0].time_ns
        };
        assert_eq!(
            time(None, 5_000_000_000_000_000),
            5_000_000_000_000_000_000,
            "microseconds by default"
        );
        assert_eq!(time(Some(9), 5_000_000_000_000_000_001), 5_000_000_000_000_000_001);
        assert_eq!(time(Some(3), 12_345), 12_345_000_000);
        assert_eq!(time(Some(0x80 | 10), 1536), 1_500_000_000, "powers of two");
    }
}

#[test]
fn errors_name_place_and_reason() {
    let whole = classic_file(Order::Little, false, b"0123456789", 10);
    let message = |bytes: &[u8]| read_bytes(bytes).unwrap_err().to_string();
    assert_eq!(
        message(&whole[..whole.len() - 3]),
        "x.pcap: damaged at byte 24, in packet 1 (counted from 1): the packet has 10 bytes, the file has only 7 more"
    );
    assert!(message(&whole[..30]).contains("ends inside the packet's 16-byte header"));
    assert!(message(&whole[..10]).contains("file header"));
    assert!(message(b"#!/bin/sh").contains("the first bytes are 23 21 2f 62"));
    assert!(message(b"").contains("empty file"));
    let mut cooked = whole.clone();
    cooked[20] = 113;
    assert!(message(&cooked).contains("link type 113 (Linux cooked capture) is not Ethernet"));
    let mut huge = whole.clone();
    huge[34] = 0xff;
    assert!(message(&huge).contains("beyond the format's limit"));
    let ng = pcapng_file(Order::Big, None, 1, b"abcd");
    assert!(message(&ng[..ng.len() - 8]).contains("the file ends before"));
}

#[test]
fn cut_packets_are_refused_for_runs() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("cut.pcap");
    std::fs::write(&path, classic_file(Order::Little, false, b"0123456789", 1500)).unwrap();
    assert_eq!(read(&path).unwrap().len(), 1);
    let message = read_whole(&path).unwrap_err().to_string();
    assert!(
        message.contains("packet 1 was cut to 10 of its 1500 bytes (1 such packets)"),
        "{message}"
    );
}

#[test]
fn written_captures_read_back() {
    let frames: Vec<Frame> = (0..3)
        .map(|i| Frame {
            time_ns: i * 1_500_000_001,
            data: vec![i as u8; 60 + i as usize],
            original_length: 1500,
        })
        .collect();
    let mut out = Vec::new();
    write(&mut out, &frames).unwrap();
    assert_eq!(read_bytes(&out).unwrap(), frames);
    let late = Frame { time_ns: u64::MAX, data: vec![], original_length: 0 };
    assert!(write(&mut out, &[late]).is_err());
}

#[test]
fn no_bytes_panic() {
    let mut seeds = vec![Vec::new(), vec![0x0a, 0x0d, 0x0d, 0x0a]];
    for order in [Order::Big, Order::Little] {
        seeds.push(classic_file(order, true, b"0123456789", 10));
        seeds.push(pcapng_file(order, Some(6), 99, b"0123456789"));
    }
    for seed in &seeds {
        for cut in 0..=seed.len() {
            fuzz_pcap(&seed[..cut]);
        }
        for at in 0..seed.len() {
            for value in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = seed.clone();
                bytes[at] = value;
                fuzz_pcap(&bytes);
            }
        }
    }
}

#[test]
fn sources() {
    let source = |text| parse_source(text, 2);
    assert_eq!(
        source("a.pcap").unwrap(),
        Source { kind: SourceKind::Port(0), path: "a.pcap".into() }
    );
    assert_eq!(
        source("1=a.pcap").unwrap(),
        Source { kind: SourceKind::Port(1), path: "a.pcap".into() }
    );
    assert_eq!(source("host=m.pcap").unwrap().kind, SourceKind::Host);
    assert_eq!(source("dir/a=b.pcap").unwrap().path, Path::new("dir/a=b.pcap"));
    assert!(source("2=a.pcap").unwrap_err().to_string().contains("ports are 0 to 1"));
    assert!(source("1=").unwrap_err().to_string().contains("file name is missing"));
}

#[test]
fn merging_is_stable_and_seeds_are_fixed() {
    let frame = |time_ns, byte| Frame { time_ns, data: vec![byte], original_length: 1 };
    let events = merge(&[
        (SourceKind::Port(1), vec![frame(5, 1), frame(9, 2)]),
        (SourceKind::Port(0), vec![frame(5, 3)]),
        (SourceKind::Host, vec![frame(1, 4)]),
    ]);
    let inputs: Vec<Input> = events.iter().map(|event| event.input.clone()).collect();
    assert_eq!(
        inputs,
        [
            Input::Host { message: vec![4] },
            Input::Net { port: 1, frame: vec![1] },
            Input::Net { port: 0, frame: vec![3] },
            Input::Net { port: 1, frame: vec![2] },
        ]
    );
    assert_eq!(events[0].seed, 0xe220_a839_7b1d_cdaf, "SplitMix64's first output from 0");
    assert_eq!(events[3].seed, event_seed(3));
}
