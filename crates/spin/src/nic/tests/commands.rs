//! What commands do: to the line, to the host, within the NIC.

use super::*;

/// Sends the packet from the cluster's memory; does not wait.
pub const PING: &str = "
    .global ph
ph:
    lw t0, 0(a0)
    lw t1, 8(t0)
    lw t2, 12(t0)
    li t3, 2
    sw t3, 0x8c(s0)
    sw zero, 0x90(s0)
    sw zero, 0x94(s0)
    sw t1, 0x98(s0)
    sw zero, 0x9c(s0)
    sw t2, 0xa0(s0)
    lw t4, 0x80(s0)
    ret
";

/// Copies the packet to the host, waits, and reads its first 64 bytes back over its second ones
/// before it is sent.
const ROUND: &str = "
    .global ph
ph:
    lw t0, 0(a0)
    lw t1, 8(t0)
    lw t2, 12(t0)
    lw t5, 0x30(t0)
    lw t6, 0x34(t0)
    sw zero, 0x8c(s0)
    sw t6, 0x90(s0)
    sw t5, 0x94(s0)
    sw t1, 0x98(s0)
    sw t2, 0x9c(s0)
    li t3, 1
    sw t3, 0xa0(s0)
    lw t4, 0x80(s0)
    sw t4, 0x84(s0)
    addi t3, t1, 64
    sw t3, 0x98(s0)
    li t3, 64
    sw t3, 0x9c(s0)
    sw zero, 0xa0(s0)
    lw t4, 0x80(s0)
1:  sw t4, 0x88(s0)
    lw t3, 0x88(s0)
    beqz t3, 1b
    li t3, 2
    sw t3, 0x8c(s0)
    sw zero, 0x90(s0)
    sw zero, 0x94(s0)
    sw t1, 0x98(s0)
    sw zero, 0x9c(s0)
    sw t2, 0xa0(s0)
    lw t4, 0x80(s0)
    li t3, 4
    sw t3, 0x8c(s0)
    addi t6, t6, 1024
    sw t6, 0x90(s0)
    sw t5, 0x94(s0)
    li t3, 0x11
    sw t3, 0x98(s0)
    li t3, 0x11223344
    sw t3, 0x9c(s0)
    sw t2, 0xa0(s0)
    lw t4, 0x80(s0)
    ret
";

#[test]
fn packets_are_sent_as_they_are_and_feedback_waits_for_it() {
    let Some(image) = image(PING) else { return };
    let mut nic = nic("pspin", &image, Options::default());
    let arrival = packet(0, 1024, 5, true);
    let frame = arrival.frame.clone();
    nic.arrive(arrival);
    nic.run_until(Until::Idle);
    let out = nic.take_out();
    let sent = out.iter().find_map(|out| match out {
        Out::Sent { time, frame, .. } => Some((*time, frame.clone())),
        _ => None,
    });
    let (time, sent) = sent.expect("a frame");
    assert_eq!(sent, frame);
    let times = records(&out)[0].times;
    let machine = machine("pspin");
    assert!(times.feedback > times.ended + 1, "the command was under way");
    assert_eq!(
        time - times.feedback,
        21 - 16 - 1,
        "1048 bytes at 50 a cycle leave after 16 beats, {machine:?}"
    );
    assert_clean(&mut nic);
}

#[test]
fn the_host_is_written_read_and_told() {
    let Some(image) = image(ROUND) else { return };
    for name in ["pspin", "fpspin"] {
        let mut nic = nic(name, &image, Options::default());
        let arrival = packet(0, 256, 0, true);
        let frame = arrival.frame.clone();
        nic.arrive(arrival);
        nic.run_until(Until::Idle);
        let out = nic.take_out();
        assert_eq!(faults(&out), []);
        let mut written = [0; 256];
        nic.host().read(HOST.address, &mut written);
        assert_eq!(written[..], frame[..]);
        let mut told = [0; 8];
        nic.host().read(HOST.address + 1024, &mut told);
        assert_eq!(told, [0x44, 0x33, 0x22, 0x11, 0, 1, 0, 0]);
        let expected = [&frame[..64], &frame[..64], &frame[128..]].concat();
        assert!(out.iter().any(|out| matches!(out, Out::Sent { frame, .. } if *frame == expected)));
        assert_eq!((nic.stats().commands, nic.stats().host_read_bytes), (4, 64));
        assert_clean(&mut nic);
    }
}

#[test]
fn the_fifth_command_waits_for_one_of_four() {
    let one = "    lw t4, 0x80(s0)\n";
    let Some(image) = image(&PING.replace("    ret", &format!("{}    ret", one.repeat(5)))) else {
        return;
    };
    let mut nic = nic("pspin", &image, Options::default());
    nic.arrive(packet(0, 1024, 0, true));
    nic.run_until(Until::Idle);
    let out = nic.take_out();
    let times = records(&out)[0].times;
    assert_eq!((nic.stats().sent, nic.stats().stalls), (6, 2));
    let mut one = self::nic("pspin", &self::image(PING).unwrap(), Options::default());
    one.arrive(packet(0, 1024, 0, true));
    one.run_until(Until::Idle);
    let alone = records(&one.take_out())[0].times;
    assert!(times.ended - times.started > alone.ended - alone.started + 20, "{times:?} {alone:?}");
    assert_clean(&mut nic);
}

/// Copies the packet's first 64 bytes within the NIC: to the scratchpad, and from there to handler
/// memory.
const COPIES: &str = "
    .global ph
ph:
    lw t0, 0(a0)
    li t1, 0x1b204400
    lw t2, 8(t0)
    sw t2, 0(t1)
    lw t3, 0x10(t0)
    sw t3, 8(t1)
    li t4, 64
    sw t4, 16(t1)
    lw t5, 24(t1)
1:  lw t6, 32(t1)
    blt t6, t5, 1b
    lw t3, 0x10(t0)
    sw t3, 0(t1)
    lw t2, 0(t0)
    sw t2, 8(t1)
    lw t5, 24(t1)
    ret
";

#[test]
fn copies_go_between_memories_of_the_nic() {
    let Some(image) = image(COPIES) else { return };
    let mut nic = nic("pspin", &image, Options::default());
    let arrival = packet(0, 128, 0, true);
    let frame = arrival.frame.clone();
    nic.arrive(arrival);
    nic.run_until(Until::Idle);
    assert_eq!(faults(&nic.take_out()), []);
    let to = nic.handler_memory(0).unwrap().start;
    assert_eq!(nic.read(0, to, 64).unwrap(), &frame[..64]);
    assert_eq!(nic.stats().copies, 2);
    assert_clean(&mut nic);
}

#[test]
fn remote_writes_have_headers_where_the_machine_has_them() {
    let put = PING.replace("sw zero, 0x90(s0)", "li t5, 7\n sw t5, 0x90(s0)\n li t5, 1");
    let put = put.replace("sw zero, 0x94(s0)", "sw t5, 0x94(s0)");
    let Some(image) = image(&put) else { return };
    let lengths = |name: &str| -> Vec<usize> {
        let mut nic = nic(name, &image, Options::default());
        nic.arrive(packet(0, 1500, 0, true));
        nic.run_until(Until::Idle);
        let sent = nic.take_out().into_iter();
        sent.filter_map(
            |out| if let Out::Sent { frame, .. } = out { Some(frame.len()) } else { None },
        )
        .collect()
    };
    assert_eq!((lengths("pspin"), lengths("fpspin")), (vec![1532], vec![1500]));
}
