//! A threshold as configuration of a commodity NIC: a meter and two flow rules, as commands of
//! DPDK's testpmd.
//!
//! The meter is srTCM (RFC 2697) with the threshold as committed rate: green packets go to the
//! NIC's processor, yellow ones (the excess, up to the line's rate of burst) get the host's
//! addresses and go to the host's port. Answers of the host are rewritten back in transfer mode.
//! Names and order follow testpmd's guide of DPDK 22.11; no NIC of that kind was at hand, so this
//! is untested.

use std::fmt::Write as _;

use nicforge_balance::director::Vip;

/// Bytes of the meter's buckets.
const COMMITTED_BURST: u64 = 8 * 1524;
const EXCESS_BURST: u64 = 1 << 30;

/// Ports by their numbers in testpmd.
#[derive(Clone, Copy, Debug)]
pub struct Ports {
    pub wire: u16,
    pub nic: u16,
    pub host: u16,
}

fn mac(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// The commands for a threshold of so many bit/s.
pub fn commands(vips: &[Vip], threshold: f64, ports: Ports) -> String {
    let Ports { wire, nic, host } = ports;
    let bytes = (threshold / 8.0).round() as u64;
    let mut text = format!(
        "# nicforge balance plan --emit rte-flow: untested on hardware; for testpmd of DPDK 22.11 with transfer rules\n\
         # threshold {:.3} Gbit/s: green to port {nic}, yellow rewritten to port {host}\n\
         add port meter profile srtcm_rfc2697 {wire} 1 {bytes} {COMMITTED_BURST} {EXCESS_BURST} 0\n",
        threshold / 1e9
    );
    for (at, vip) in vips.iter().enumerate() {
        let (policy, meter) = (at + 1, at + 1);
        let (version, name) =
            if vip.address.is_ipv4() { ("ipv4", "ipv4") } else { ("ipv6", "ipv6") };
        let _ = write!(
            text,
            "# {address}\n\
             add port meter policy {wire} {policy} g_actions represented_port ethdev_port_id {nic} / end \
             y_actions set_{name}_dst {version}_addr {host_address} / set_mac_dst mac_addr {host_mac} / \
             represented_port ethdev_port_id {host} / end r_actions drop / end\n\
             create port meter {wire} {meter} 1 {policy} yes 0xffff 0 0\n\
             flow create {wire} transfer ingress pattern eth / {version} dst is {address} / end \
             actions meter mtr_id {meter} / end\n\
             flow create {host} transfer ingress pattern eth / {version} src is {host_address} / end \
             actions set_{name}_src {version}_addr {address} / set_mac_src mac_addr {mac} / \
             represented_port ethdev_port_id {wire} / end\n",
            address = vip.address,
            host_address = vip.host_address,
            host_mac = mac(vip.host_mac),
            mac = mac(vip.mac),
        );
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_vip_has_a_meter_and_a_way_back() {
        let vips = nicforge_balance::director::sample_vips();
        let text = commands(&vips, 40e9, Ports { wire: 0, nic: 1, host: 2 });
        assert!(text.contains("srtcm_rfc2697 0 1 5000000000 12192"), "{text}");
        assert_eq!(text.matches("create port meter ").count(), 2);
        assert!(
            text.contains("ipv6 src is fd00::7:fe02")
                && text.contains("set_ipv4_src ipv4_addr 10.9.200.34"),
            "{text}"
        );
        assert!(text.contains("untested"));
    }
}
