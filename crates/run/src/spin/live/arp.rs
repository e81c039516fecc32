//! Answers to ARP requests (RFC 826) for the NIC's address, and what that address is.

/// The NIC's hardware address: locally administered.
pub const MAC: [u8; 6] = [2, 0x6e, 0x66, 0, 0, 1];

/// The address behind one that is written `a.b.c.d/bits`: the kernel has the one, the NIC the
/// other.
pub fn next_address(address: &str) -> Option<[u8; 4]> {
    let plain = address.split('/').next()?.parse::<std::net::Ipv4Addr>().ok()?;
    Some(u32::from(plain).wrapping_add(1).to_be_bytes())
}

/// The answer to a frame that asks who has `address`.
pub fn answer(frame: &[u8], address: [u8; 4]) -> Option<Vec<u8>> {
    // Ethernet type ARP; hardware Ethernet, protocol IPv4, their lengths, a request.
    const REQUEST: [u8; 10] = [8, 6, 0, 1, 8, 0, 6, 4, 0, 1];
    if frame.get(12..22)? != REQUEST || frame.get(38..42)? != address {
        return None;
    }
    let (sender, sender_address) = (&frame[22..28], &frame[28..32]);
    let mut reply = Vec::with_capacity(42);
    reply.extend(sender);
    reply.extend(MAC);
    reply.extend(&REQUEST[..9]);
    reply.push(2);
    reply.extend(MAC);
    reply.extend(address);
    reply.extend(sender);
    reply.extend(sender_address);
    Some(reply)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_for_this_address_are_answered_and_nothing_else() {
        let mut request = vec![0xff; 6];
        request.extend([
            2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 9, 10, 9, 0, 1,
        ]);
        request.extend([0, 0, 0, 0, 0, 0, 10, 9, 0, 2]);
        let address = next_address("10.9.0.1/24").unwrap();
        assert_eq!(address, [10, 9, 0, 2]);
        let reply = answer(&request, address).unwrap();
        assert_eq!(reply[..6], [2, 0, 0, 0, 0, 9]);
        assert_eq!(reply[20..32], [0, 2, 2, 0x6e, 0x66, 0, 0, 1, 10, 9, 0, 2]);
        assert_eq!(reply[32..], [2, 0, 0, 0, 0, 9, 10, 9, 0, 1]);
        assert_eq!(answer(&request, [10, 9, 0, 3]), None);
        assert_eq!(answer(&request[..40], address), None);
        request[21] = 2;
        assert_eq!(answer(&request, address), None, "an answer is no question");
    }
}
