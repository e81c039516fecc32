//! Contexts: `struct xdp_md` of XDP programs, `struct __sk_buff` of tc programs.

use nicforge_ir::{BinOp, CmpOp, Op, Type};
use nicforge_isa::ebpf::context::SKB;

use crate::error::{Halt, refuse};
use crate::lifter::Lifter;
use crate::state::State;
use crate::value::{Abs, Num, Place};

/// Members of `struct __sk_buff` by their places (`include/uapi/linux/bpf.h`).
mod skb {
    pub const LEN: i64 = 0;
    pub const PKT_TYPE: i64 = 4;
    pub const PROTOCOL: i64 = 16;
    pub const INGRESS_IFINDEX: i64 = 36;
    pub const IFINDEX: i64 = 40;
    pub const HASH: i64 = 68;
    pub const DATA: i64 = 76;
    pub const DATA_END: i64 = 80;
    pub const NAPI_ID: i64 = 84;
    pub const DATA_META: i64 = 140;
    pub const WIRE_LEN: i64 = 160;
    /// Zero at first, and memory of the program: mark, queue_mapping, priority, tc_index, cb,
    /// tc_classid, tstamp.
    pub const MEMORY: [(i64, i64); 6] =
        [(8, 16), (32, 36), (44, 48), (48, 68), (72, 76), (152, 160)];
    /// Zero: vlan_present, vlan_tci, vlan_proto, gso_segs, gso_size. Tags stay in the packet.
    pub const ZERO: [(i64, i64); 3] = [(20, 32), (164, 168), (176, 180)];
}

/// Smallest EtherType; below, the two bytes are a length (IEEE 802.3).
const ETHERTYPES: u64 = 0x600;
/// `ETH_P_802_3` and `ETH_P_802_2`, in network byte order.
const RAW: u64 = 0x0100;
const LLC: u64 = 0x0400;

/// True if a member's bytes are all in one of these places.
fn within(places: &[(i64, i64)], off: i64, bytes: u32) -> bool {
    places.iter().any(|(from, to)| (*from..*to).contains(&off) && off + i64::from(bytes) <= *to)
}

impl Lifter<'_> {
    /// True if the program is one for tc.
    pub fn is_tc(&self) -> bool {
        self.layout == SKB
    }

    /// Reads a member of the context, or a part of it.
    pub fn load_context(&mut self, state: &mut State, off: i64, bytes: u32) -> Result<Abs, Halt> {
        if self.is_tc() {
            return self.load_skb(state, off, bytes);
        }
        let epoch = state.epoch;
        match off {
            0 => Ok(Abs::Packet { place: Place::at(0), epoch }),
            8 => Ok(Abs::Packet { place: Place::at(-state.metadata), epoch }),
            4 => Ok(Abs::PacketEnd { off: 0, epoch }),
            12 => Ok(Abs::Num(self.in_index())),
            16 => Ok(Abs::known(0)),
            20 => refuse("asks for the port a packet leaves by (egress_ifindex)"),
            _ => refuse(format!("reads the context at {off}, where struct xdp_md has no member")),
        }
    }

    /// The index of the interface that the packet came in by.
    fn in_index(&mut self) -> Num {
        let pkt = self.pkt;
        let port = self.push1(Op::InPort { pkt }, Type::U32);
        self.binary(BinOp::Add, Num::of(port, 32), Num::known(1), 32)
    }

    fn load_skb(&mut self, state: &mut State, off: i64, bytes: u32) -> Result<Abs, Halt> {
        let epoch = state.epoch;
        if within(&skb::MEMORY, off, bytes) {
            return self.load_member(state, off, bytes);
        }
        if within(&skb::ZERO, off, bytes) {
            return Ok(Abs::known(0));
        }
        let member = off & !3;
        let whole = match member {
            skb::DATA | skb::DATA_META => return Ok(Abs::Packet { place: Place::at(0), epoch }),
            skb::DATA_END => return Ok(Abs::PacketEnd { off: 0, epoch }),
            skb::LEN => self.packet_len(state),
            skb::WIRE_LEN if state.front.bytes == 0 && state.skipped == Some(0) => {
                self.packet_len(state)
            }
            skb::WIRE_LEN => {
                return refuse("asks how long a packet was before it changed (wire_len)");
            }
            skb::PROTOCOL => self.protocol(state)?,
            skb::IFINDEX | skb::INGRESS_IFINDEX => self.in_index(),
            skb::PKT_TYPE => return refuse("asks whom a packet is for (pkt_type)"),
            skb::HASH => return refuse("reads the hash of a packet, which the NIC chooses"),
            skb::NAPI_ID => return refuse("asks for the queue that a packet came by (napi_id)"),
            _ => {
                return refuse(format!(
                    "reads the context at {off}, where struct __sk_buff has no member that means \
                     something here"
                ));
            }
        };
        Ok(Abs::Num(self.piece(whole, (off - member) as u32, bytes)))
    }

    /// Writes a member of the context.
    pub fn store_context(
        &mut self,
        state: &mut State,
        off: i64,
        bytes: u32,
        value: Abs,
    ) -> Result<(), Halt> {
        if self.is_tc() && within(&skb::MEMORY, off, bytes) {
            return self.store_member(state, off, bytes, value);
        }
        refuse(format!("writes the context at {off}"))
    }

    /// `skb->protocol` as it is now.
    pub fn protocol(&mut self, state: &mut State) -> Result<Num, Halt> {
        let found = self.load_member(state, skb::PROTOCOL, 4)?;
        self.num(found)
    }

    /// Sets `skb->protocol`, which the kernel changes with a packet's outer header.
    pub fn set_protocol(&mut self, state: &mut State, protocol: Num) -> Result<(), Halt> {
        self.store_member(state, skb::PROTOCOL, 4, Abs::Num(protocol))
    }

    /// `skb->protocol`, as `eth_type_trans` finds it in the packet that came.
    pub fn find_protocol(&mut self, state: &mut State) -> Result<(), Halt> {
        let pkt = self.pkt;
        let mut load = |off: u64| {
            let off = self.build().int(off, Type::U32);
            let op = Op::Load { pkt, off };
            let (_, value) = self.build().push2(op, Type::BOOL, Type::U16);
            Num::of(value, 16)
        };
        let (ty, first) = (load(12), load(14));
        let number = self.swap(ty, 16);
        let is_type = self.compare(CmpOp::Ge, false, number, Num::known(ETHERTYPES), 32);
        let is_raw = self.compare(CmpOp::Eq, false, first, Num::known(0xffff), 32);
        let length = self.select(is_raw, Num::known(RAW), Num::known(LLC));
        let protocol = self.select(is_type, ty, length);
        self.set_protocol(state, protocol)
    }
}
