use std::collections::{HashMap, VecDeque};

use super::meter::setting;
use super::sample::{checksums_are_right, destination, frame};
use super::*;
use crate::rng::Rng;

/// Truncated packets carry sums of the whole ones.
fn is_whole(frame: &[u8]) -> bool {
    checksums_are_right(frame)
}

#[test]
fn checksums_are_right_in_a_million_packets() {
    let vips = sample_vips();
    let mut rng = Rng::new(11);
    let mut director = Director::new(vips.clone(), Mode::Proportional).unwrap();
    director.route = Route::Host;
    let (mut rewritten, mut merged, mut zero) = (0, 0, 0);
    for _ in 0..500_000 {
        let before = frame(&mut rng, &vips, false);
        let whole = is_whole(&before);
        let mut after = before.clone();
        if director.ingress(&mut after, || 0) == Verdict::Host {
            rewritten += 1;
            let vip =
                vips.iter().find(|vip| Some(vip.host_address) == destination(&after)).unwrap();
            assert_eq!(after[..6], vip.host_mac);
            assert!(!whole || checksums_are_right(&after), "{before:02x?}");
            let packet = Packet::find(&before).unwrap();
            if let Cover::Udp(at) = packet.cover {
                assert_eq!(
                    before[at..at + 2] == [0, 0],
                    after[at..at + 2] == [0, 0],
                    "no sum stays no sum"
                );
                zero += u32::from(before[at..at + 2] == [0, 0]);
            }
        } else {
            assert_eq!(before, after);
        }
        let before = frame(&mut rng, &vips, true);
        let whole = is_whole(&before);
        let mut after = before.clone();
        if director.egress(&mut after) {
            merged += 1;
            assert!(!whole || checksums_are_right(&after), "{before:02x?}");
        }
    }
    assert!(rewritten > 400_000 && merged > 400_000 && zero > 5_000, "{rewritten} {merged} {zero}");
    assert_eq!(director.counters.host_packets, rewritten);
}

#[test]
fn the_merger_undoes_the_director() {
    let vips = sample_vips();
    let swapped: Vec<Vip> = vips
        .iter()
        .map(|vip| Vip {
            address: vip.host_address,
            mac: vip.host_mac,
            host_address: vip.address,
            host_mac: vip.mac,
        })
        .collect();
    let mut there = Director::new(vips.clone(), Mode::Window).unwrap();
    let mut back = Director::new(swapped, Mode::Window).unwrap();
    (there.route, back.route) = (Route::Host, Route::Host);
    let mut rng = Rng::new(12);
    for _ in 0..50_000 {
        let before = frame(&mut rng, &vips, false);
        let mut after = before.clone();
        if there.ingress(&mut after, || 0) == Verdict::Host && checksums_are_right(&before) {
            back.ingress(&mut after, || 0);
            assert_eq!(before[6..], after[6..]);
        }
    }
}

#[test]
fn payload_is_never_taken_for_a_header() {
    // ARP whose bytes 30 to 33 are the address; IPv4 to somebody else with it in the payload.
    let mut director = Director::new(sample_vips(), Mode::Window).unwrap();
    director.route = Route::Host;
    let mut arp = vec![0; 60];
    arp[12..14].copy_from_slice(&[8, 6]);
    arp[30..34].copy_from_slice(&[10, 9, 200, 34]);
    assert_eq!(director.ingress(&mut arp, || 0), Verdict::Other);
    assert_eq!(director.counters, Counters::default());
}

#[test]
fn fragments_of_a_packet_stay_together() {
    let vips = sample_vips();
    for (mode, _) in Mode::ALL {
        let mut director = Director::new(vips.clone(), mode).unwrap();
        director.set = setting(1e6, 2e6, 100_000, 3000);
        director.buckets.iter_mut().step_by(2).for_each(|bucket| bucket.host = true);
        director.buckets.iter_mut().step_by(2).for_each(|bucket| bucket.wanted = true);
        let mut rng = Rng::new(13);
        let mut ways: HashMap<Vec<u8>, Verdict> = HashMap::new();
        for _ in 0..2000 {
            let mut first = frame(&mut rng, &vips[..1], false);
            let Some(packet) = Packet::find(&first).filter(|p| p.fragment && !p.version6) else {
                continue;
            };
            let key = first[packet.ip + 12..packet.ip + 20].to_vec();
            for place in [0x2000u16, 0x2001, 0x0002] {
                let mut part = first.clone();
                part[packet.ip + 6..packet.ip + 8].copy_from_slice(&place.to_be_bytes());
                let way = director.ingress(&mut part, || 1);
                assert_eq!(*ways.entry(key.clone()).or_insert(way), way, "{mode:?}");
            }
            first.clear();
        }
        assert!(ways.len() > 50);
    }
}

/// Flows over two sides with queues of their own, while buckets move all the time: packets of a
/// flow leave in order.
#[test]
fn flow_affine_mode_reorders_no_flow() {
    const DRAIN_NS: u64 = 200_000;
    let vips = sample_vips();
    let mut director = Director::new(vips.clone(), Mode::FlowAffine).unwrap();
    director.drain_ns = DRAIN_NS;
    let mut rng = Rng::new(14);
    let flows: Vec<Vec<u8>> = std::iter::repeat_with(|| frame(&mut rng, &vips, false))
        .filter(|frame| Packet::find(frame).is_some_and(|packet| packet.ports.is_some()))
        .take(300)
        .collect();
    // What is queued: time at which it leaves, flow, number. A side answers within the drain time.
    let mut queues: [VecDeque<(u64, usize, u64)>; 2] = Default::default();
    let mut sent = vec![0; flows.len()];
    let mut left = vec![0; flows.len()];
    let (mut now, mut moved, mut last_side) = (1u64, 0, vec![None; flows.len()]);
    for step in 0..300_000u64 {
        now += u64::from(rng.below(2000));
        if step % 500 == 0 {
            let rates: Vec<f64> = (0..BUCKETS).map(|_| rng.unit()).collect();
            let mut host: Vec<bool> = director.buckets.iter().map(|bucket| bucket.wanted).collect();
            flows::rebalance(&mut host, &rates, f64::from(rng.below(512)));
            director.buckets.iter_mut().zip(host).for_each(|(bucket, host)| bucket.wanted = host);
        }
        for queue in &mut queues {
            while let Some((_, flow, number)) = queue.front().copied().filter(|(at, ..)| *at <= now)
            {
                assert_eq!(number, left[flow], "flow {flow} was reordered");
                left[flow] += 1;
                queue.pop_front();
            }
        }
        let flow = rng.below(flows.len() as u32) as usize;
        let side = match director.ingress(&mut flows[flow].clone(), || now) {
            Verdict::Nic => 0,
            Verdict::Host => 1,
            Verdict::Other => continue,
        };
        moved += u32::from(last_side[flow].is_some_and(|last| last != side));
        last_side[flow] = Some(side);
        // The NIC is slow, the host fast.
        let at = now + if side == 0 { DRAIN_NS - 1 } else { 1000 };
        queues[side].push_back((at, flow, sent[flow]));
        sent[flow] += 1;
    }
    assert!(moved > 1000, "{moved}");
}

#[test]
fn vips_are_checked() {
    let vips = sample_vips();
    let mut twice = vips.clone();
    twice[1] = Vip { address: Address::from([1, 2, 3, 4]), ..vips[0].clone() };
    assert!(matches!(check(&twice), Err(VipError::Twice(_))));
    let mut mixed = vips.clone();
    mixed[0].host_address = vips[1].host_address;
    assert!(matches!(check(&mixed), Err(VipError::Versions(..))));
    assert_eq!(check(&[]), Err(VipError::None));
}

#[test]
fn any_bytes_are_survived() {
    let mut rng = Rng::new(15);
    let vips = sample_vips();
    for _ in 0..50_000 {
        let mut data = vec![rng.bits() as u8];
        data.extend(frame(&mut rng, &vips, false));
        let at = rng.below(data.len() as u32) as usize;
        data[at] = rng.bits() as u8;
        fuzz(&data);
    }
}
