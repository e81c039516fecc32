//! Reading the kernel verifier's log.
//!
//! The log is the verifier's walk: instructions, the register state, and before the first
//! instruction of each source line a comment `; code @ file.c:LINE`. It ends with the reason and a
//! line of statistics, so the comment nearest above the reason names the refused line. Generated
//! code carries `#line`, so that is a line of the user's source, unless it is code of the runtime's
//! headers put in its place: then the user's line is the one above that.

use super::error::XdpError;
use crate::temp;

/// What libbpf prints around the log, and before it.
const BEGIN: &str = "-- BEGIN PROG LOAD LOG --";
const END: &str = "-- END PROG LOAD LOG --";

/// The part of libbpf's messages that is the verifier's log, if it says anything.
pub(super) fn log_of(messages: &str) -> Option<&str> {
    let start = messages.find(BEGIN)? + BEGIN.len();
    let log = messages[start..].split(END).next()?.trim_matches('\n');
    if log.lines().any(|line| !is_statistics(line)) { Some(log) } else { None }
}

/// Name of the program libbpf says it could not load.
pub(super) fn program_of(messages: &str) -> Option<&str> {
    let (before, _) = messages.split_once("': BPF program load failed")?;
    Some(before.rsplit_once("prog '")?.1)
}

/// The error for a refused program; keeps the log in a file.
pub(super) fn refused(program: &str, log: &str) -> Result<XdpError, std::io::Error> {
    let log_path = temp::keep_file("verifier", "verifier.log", log)?;
    let (source_line, reason) = read(log);
    Ok(XdpError::Refused { program: program.to_string(), source_line, reason, log_path })
}

/// Place and reason of the refusal.
pub(super) fn read(log: &str) -> (Option<(String, u32)>, String) {
    let lines: Vec<&str> = log.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    let reason_at = lines.iter().rposition(|line| !is_statistics(line)).unwrap_or(0);
    let reason = lines.get(reason_at).copied().unwrap_or("the kernel gave no reason").to_string();
    let places: Vec<_> =
        lines[..reason_at.min(lines.len())].iter().rev().filter_map(|line| place(line)).collect();
    let own = places.iter().find(|(file, _)| !file.ends_with(".h"));
    (own.or(places.first()).cloned(), reason)
}

/// `; code @ file.c:LINE`
fn place(line: &str) -> Option<(String, u32)> {
    let (_, place) = line.strip_prefix(';')?.rsplit_once(" @ ")?;
    let (file, line) = place.rsplit_once(':')?;
    Some((file.to_string(), line.parse().ok()?))
}

fn is_statistics(line: &str) -> bool {
    let line = line.trim();
    line.is_empty()
        || line.starts_with("processed ")
        || line.starts_with("verification time ")
        || line.starts_with("stack depth ")
        || line.starts_with("peak_states ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const MESSAGES: &str = "libbpf: prog 'nf_net_recv': BPF program load failed: Permission denied\n\
        libbpf: prog 'nf_net_recv': -- BEGIN PROG LOAD LOG --\n\
        0: R1=ctx() R10=fp0\n\
        ; void *data = (void *)(long)ctx->data; @ nf_rt.h:7\n\
        0: (61) r1 = *(u32 *)(r1 +0)          ; R1=pkt(r=0)\n\
        ; return eth.proto @ home; @ nf_chain.c:31\n\
        1: (71) r0 = *(u8 *)(r1 +12)\n\
        invalid access to packet, off=12 size=1, R1(id=0,off=12,r=0)\n\
        R1 offset is outside of the packet\n\
        processed 2 insns (limit 1000000) max_states_per_insn 0 total_states 0 peak_states 0 mark_read 0\n\
        -- END PROG LOAD LOG --\n\
        libbpf: failed to load object 'x'\n";

    #[test]
    fn finds_line_reason_and_program() {
        let log = log_of(MESSAGES).unwrap();
        assert!(log.starts_with("0: R1=ctx()") && log.ends_with("mark_read 0"));
        let expected = (
            Some(("nf_chain.c".to_string(), 31)),
            "R1 offset is outside of the packet".to_string(),
        );
        assert_eq!(read(log), expected);
        assert_eq!(program_of(MESSAGES), Some("nf_net_recv"));
    }

    #[test]
    fn runtime_headers_are_not_the_users_code() {
        let in_header =
            "; nf_log(1); @ user.c:9\n0: r0\n; bpf_ringbuf_output(x); @ nf_rt.h:7\n1: r0\nbad\n";
        assert_eq!(read(in_header).0, Some(("user.c".to_string(), 9)));
        assert_eq!(read("; x @ nf_rt.h:7\n1: r0\nbad\n").0, Some(("nf_rt.h".to_string(), 7)));
    }

    #[test]
    fn an_empty_log_is_no_log() {
        assert_eq!(
            log_of("-- BEGIN PROG LOAD LOG --\nprocessed 0 insns\n-- END PROG LOAD LOG --"),
            None
        );
        assert_eq!(log_of("libbpf: nothing"), None);
        assert_eq!(read("").1, "the kernel gave no reason");
    }
}
