use super::*;

/// True if namespaces can be made; says loudly what is missing if not.
fn is_root() -> bool {
    // SAFETY: no arguments.
    let root = unsafe { libc::geteuid() } == 0;
    if !root {
        eprintln!("SKIPPED: this test makes network namespaces: run it as root");
    }
    root
}

/// Names in /sys/class/net would be those of the mount's namespace; the thread's own are in /proc.
fn interfaces() -> Result<Vec<String>, XdpError> {
    let text = std::fs::read_to_string("/proc/thread-self/net/dev").unwrap();
    Ok(text
        .lines()
        .skip(2)
        .filter_map(|line| Some(line.split_once(':')?.0.trim().to_string()))
        .collect())
}

#[test]
fn a_sandbox_is_where_it_should_be_and_nowhere_else() {
    if !is_root() {
        return;
    }
    let before = interfaces().unwrap();
    let sandbox = Sandbox::new(3).unwrap();
    let here = |namespace: &Namespace| {
        let mut names = namespace.enter(interfaces).unwrap();
        names.retain(|name| name.starts_with("nf") || name.starts_with("wire"));
        names.sort();
        names
    };
    assert_eq!(here(&sandbox.nic), ["nf0", "nf1", "nf2"]);
    assert_eq!(here(&sandbox.wire), ["wire0", "wire1", "wire2"]);
    assert_eq!(interfaces().unwrap(), before);
    assert_eq!(sandbox.ifindex().len(), 3);
    let mut stats = sandbox.nic.enter(|| xdp_stats("nf1")).unwrap();
    assert_eq!(stats.read().unwrap(), XdpStats::default());
}

#[test]
fn port_counts_have_limits() {
    for ports in [0, MAX_PORTS as u32 + 1] {
        assert!(matches!(Sandbox::new(ports), Err(XdpError::NoPort { .. })));
    }
}
