// Registers of nf_spin_top, by byte address. Made by registers.py.
#ifndef NF_SPIN_REGISTERS_H
#define NF_SPIN_REGISTERS_H

// write, writing it makes rules take effect, between two packets
#define NF_SPIN_APPLY 0x000
// write, [0] ranges of words reversed, [1] drop where there is no room, [2] slots while both sizes
// have one
#define NF_SPIN_OPTIONS 0x004
// write, [3:0] set up, [11:8] payload handlers of a message one at a time
#define NF_SPIN_CONTEXTS 0x008
// write, tasks in the home cluster from which on others are asked
#define NF_SPIN_HOME_LIMIT 0x00c
// write, cycles after which a silent message may lose its queue
#define NF_SPIN_PATIENCE 0x010
// write, 4 words, a ruleset's word: see nf_spin_match
#define NF_SPIN_SETS 0x014
// write, 64 words, four rules a ruleset, each select, mask, start, end: see nf_spin_match
#define NF_SPIN_RULES 0x024
// write, 40 words, ten words a context: see nf_spin_her
#define NF_SPIN_CONTEXT_TABLE 0x124
// read, [0] rules written have not yet taken effect
#define NF_SPIN_PENDING 0x1c4
// read, frames for handlers
#define NF_SPIN_MATCHED 0x1c8
// read, frames passed on
#define NF_SPIN_UNMATCHED 0x1cc
// read, no slot was free
#define NF_SPIN_DROPPED_FULL 0x1d0
// read, longer than a large slot
#define NF_SPIN_DROPPED_LONG 0x1d4
// read, the context is not set up
#define NF_SPIN_DROPPED_CONTEXT 0x1d8
// read, no cell was free
#define NF_SPIN_DROPPED_CELL 0x1dc
// read, no message queue was free
#define NF_SPIN_DROPPED_QUEUE 0x1e0
// read, packets the scheduler took
#define NF_SPIN_PACKETS 0x1e4
// read, messages that began
#define NF_SPIN_MESSAGES 0x1e8
// read, messages that came to their end
#define NF_SPIN_ENDED 0x1ec
// read, messages that gave their queue to another
#define NF_SPIN_ABANDONED 0x1f0
// read, packets that came after their message had closed
#define NF_SPIN_LATE 0x1f4
// read, packets freed
#define NF_SPIN_FREED 0x1f8
// read, small slots in use
#define NF_SPIN_SMALL_USED 0x1fc
// read, large slots in use
#define NF_SPIN_LARGE_USED 0x200
// read, most lines of packet memory in use at any time
#define NF_SPIN_MOST_LINES 0x204
// read, frames sent by handlers
#define NF_SPIN_SENT 0x208
// read, writes into the host's memory
#define NF_SPIN_HOST_WRITES 0x20c
// read, write bursts that were refused
#define NF_SPIN_HOST_REFUSED 0x210

#endif
