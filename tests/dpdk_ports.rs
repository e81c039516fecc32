//! DPDK's own devices under generated programs: rings, AF_PACKET and AF_XDP on veth in namespaces,
//! shared memory between two processes. What comes out of them is what the program is to send, in
//! order, and everything is counted.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use nicforge_codegen::dpdk::Pipeline;
use nicforge_ir::{Program, Verified, verify};
use nicforge_passes::PassManager;
use nicforge_run::dpdk::{DpdkProgram, DpdkRun, Live, Ports};
use nicforge_run::live::{Sender, Tap};
use nicforge_run::netns::Sandbox;
use nicforge_run::pcap::{self, Frame};
use nicforge_tests::{dpdk_is_missing, kernel_is_missing, root};

/// A program on one lcore.
fn app(path: &str) -> DpdkProgram {
    let options = nicforge_frontend::Options::new(root().join("runtime/include"));
    let path = root().join(path);
    let output = nicforge_frontend::compile(&path, &options)
        .unwrap_or_else(|e| panic!("{}", e.render(false)));
    let program: Verified<Program> = verify(output.program).unwrap_or_else(|e| panic!("{e:?}"));
    let program = PassManager::new().run_default(program).unwrap_or_else(|e| panic!("{e}"));
    let app =
        DpdkProgram::new(&program, &Pipeline::single(&program)).unwrap_or_else(|e| panic!("{e}"));
    // Built before anything waits for it.
    app.path(false).unwrap_or_else(|e| panic!("{e}"));
    app
}

fn patch() -> DpdkProgram {
    app("tests/programs/patch/patch.c")
}

/// Frames that differ, of several lengths.
fn frames(count: u32) -> Vec<Vec<u8>> {
    let frame = |i: u32| {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
        frame.extend(i.to_be_bytes());
        frame.resize(60 + (i as usize * 37) % 1400, i as u8);
        frame
    };
    (0..count).map(frame).collect()
}

fn capture(path: &Path, frames: &[Vec<u8>]) {
    let frames: Vec<Frame> = frames
        .iter()
        .map(|data| Frame { time_ns: 0, data: data.clone(), original_length: data.len() as u32 })
        .collect();
    let mut file = std::fs::File::create(path).unwrap_or_else(|e| panic!("{e}"));
    pcap::write(&mut file, &frames).unwrap_or_else(|e| panic!("{e}"));
}

fn captured(path: &Path) -> Vec<Vec<u8>> {
    let packets = pcap::read(path).unwrap_or_else(|e| panic!("{e}"));
    packets.into_iter().map(|packet| packet.data).collect()
}

/// All that came in was sent, dropped or given away.
fn accounted(run: &DpdkRun) -> bool {
    let stats = &run.stats;
    let sent: u64 = stats.sent.iter().sum();
    stats.received == sent + stats.dropped() + stats.to_stack + stats.to_host
        && stats.losses().is_empty()
}

/// Nothing of the processes of this one is left in DPDK's folder. Those of tests beside are there
/// for a moment while they start.
fn nothing_is_left() {
    let own = format!("nicforge-{}-", std::process::id());
    let left = || -> Vec<_> {
        let folder = std::fs::read_dir("/var/run/dpdk").into_iter().flatten().flatten();
        folder.filter(|e| e.file_name().to_string_lossy().starts_with(&own)).collect()
    };
    for _ in 0..3000 {
        if left().is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{:?}", left());
}

/// From a capture into a ring, back out of it, and into a capture.
#[test]
fn rings() {
    if dpdk_is_missing() {
        return;
    }
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let (from, to) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    let want = frames(500);
    capture(&from, &want);
    let pcap = format!("net_pcap0,rx_pcap={},tx_pcap={}", from.display(), to.display());
    let vdevs = vec![pcap, "net_ring0".to_string()];
    let ports = Ports { vdevs, limit: 1000, longest_frame: 2048, halt: None };
    let run = patch().run_ports(&ports, &[]).unwrap_or_else(|e| panic!("{e}"));
    assert!(accounted(&run), "{:?}", run.stats);
    assert_eq!(run.stats.sent[..2], [500, 500]);
    assert!(captured(&to) == want, "the frames differ");
    nothing_is_left();
}

/// An interface in a namespace: frames come by the wire, and go back with their addresses swapped.
fn on_veth(device: &str) {
    if dpdk_is_missing() || kernel_is_missing().is_some() {
        return;
    }
    let sandbox = Sandbox::new(1).unwrap_or_else(|e| panic!("{e}"));
    let wire = sandbox.ports[0].wire_ifindex;
    let both = sandbox.wire.enter(|| Ok((Sender::open()?, Tap::open()?)));
    let (sender, mut tap) = both.unwrap_or_else(|e| panic!("{e}"));
    let app = app("examples/l2_forward/l2_forward.c");
    let sent = frames(200);
    let stop = AtomicBool::new(false);
    let vdevs = vec![device.replace("IFACE", &sandbox.ports[0].name)];
    let ports = Ports { vdevs, longest_frame: 2048, ..Ports::default() };
    let (ready, is_ready) = std::sync::mpsc::channel();
    let (ran, got) = std::thread::scope(|scope| {
        let (stop, nic) = (&stop, &sandbox.nic);
        let process = scope.spawn(move || {
            nic.enter(move || {
                let duration = Some(Duration::from_secs(600));
                let every_second = &mut |_| {
                    let _ = ready.send(());
                };
                Ok(app.run_live(&ports, &[], &mut Live { duration, stop, every_second }))
            })
        });
        let mut got = Vec::new();
        // It reports once a second from when it looks for packets.
        if is_ready.recv_timeout(Duration::from_secs(300)).is_ok() {
            let list: Vec<&[u8]> = sent.iter().map(Vec::as_slice).collect();
            sender.send(wire, &list).unwrap_or_else(|e| panic!("{e}"));
            for _ in 0..15000 {
                tap.drain(|frame| got.push(frame)).unwrap_or_else(|e| panic!("{e}"));
                if got.len() >= sent.len() {
                    break;
                }
                std::thread::sleep(Duration::from_millis(20));
            }
        }
        stop.store(true, Ordering::Relaxed);
        (process.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), got)
    });
    let run = ran.unwrap_or_else(|e| panic!("{e}")).unwrap_or_else(|e| panic!("{device}: {e}"));
    let swapped = |frame: &Vec<u8>| [&frame[6..12], &frame[..6], &frame[12..]].concat();
    let want: Vec<Vec<u8>> = sent.iter().map(swapped).collect();
    assert_eq!(got.len(), want.len(), "{device}: {:?}", run.stats);
    assert!(got == want, "{device}: the frames differ");
    assert!(accounted(&run), "{device}: {:?}", run.stats);
    assert_eq!(run.stats.received, 200);
    nothing_is_left();
}

#[test]
fn af_packet() {
    on_veth("net_af_packet0,iface=IFACE");
}

#[test]
fn af_xdp() {
    on_veth("net_af_xdp0,iface=IFACE,force_copy=1");
}

/// Two processes that share memory: a capture goes through one into the other, which swaps
/// addresses, and back.
#[test]
fn memif() {
    if dpdk_is_missing() {
        return;
    }
    let dir = tempfile::tempdir().unwrap_or_else(|e| panic!("{e}"));
    let (from, to) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    let socket = dir.path().join("memif.sock");
    let sent = frames(300);
    capture(&from, &sent);
    let memif = |role: &str| {
        // The path is no abstract name: nothing of other users can be in its way, and it goes with
        // its folder.
        format!("net_memif0,role={role},id=0,socket-abstract=no,socket={}", socket.display())
    };
    let (swap, patch) = (app("examples/l2_forward/l2_forward.c"), patch());
    let stop = AtomicBool::new(false);
    let (server, client) = std::thread::scope(|scope| {
        let ports = Ports { vdevs: vec![memif("server")], longest_frame: 2048, ..Ports::default() };
        let stop_server = &stop;
        let server = scope.spawn(move || {
            let duration = Some(Duration::from_secs(600));
            swap.run_live(
                &ports,
                &[],
                &mut Live { duration, stop: stop_server, every_second: &mut |_| {} },
            )
        });
        for _ in 0..15000 {
            if socket.exists() {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let pcap = format!("net_pcap0,rx_pcap={},tx_pcap={}", from.display(), to.display());
        let vdevs = vec![memif("client"), pcap];
        let ports = Ports { vdevs, limit: 600, longest_frame: 2048, halt: None };
        let duration = Some(Duration::from_secs(300));
        let never = AtomicBool::new(false);
        let client = patch.run_live(
            &ports,
            &[],
            &mut Live { duration, stop: &never, every_second: &mut |_| {} },
        );
        stop.store(true, Ordering::Relaxed);
        (server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)), client)
    });
    let (server, client) =
        (server.unwrap_or_else(|e| panic!("{e}")), client.unwrap_or_else(|e| panic!("{e}")));
    assert!(accounted(&server) && accounted(&client), "{:?}\n{:?}", server.stats, client.stats);
    assert_eq!((server.stats.received, client.stats.received), (300, 600));
    let swapped = |frame: &Vec<u8>| [&frame[6..12], &frame[..6], &frame[12..]].concat();
    assert!(captured(&to) == sent.iter().map(swapped).collect::<Vec<_>>(), "the frames differ");
    nothing_is_left();
}
