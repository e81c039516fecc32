/* SPDX-License-Identifier: 0BSD
 *
 * nfp_chip.h (shim) - operations of an NFP's micro-engines, on a host. Names and what they do are
 * the vendor's, from its public documents; on the chip the vendor's headers take this file's place.
 *
 * Every thread is a micro-engine with one context. What the chip demands is checked: transfers are
 * whole words at word addresses, at most 128 bytes; a CAM has 16 entries, and a lookup that hits
 * makes its entry the most recent.
 */
#ifndef NFP_CHIP_H
#define NFP_CHIP_H

#include <stddef.h>
#include <stdint.h>

/* Address spaces and register files are one memory here. */
#define __mem
#define __cls
#define __ctm
#define __imem
#define __emem
#define __lmem
#define __xread
#define __xwrite
#define __xrw

typedef struct {
    unsigned hit : 1;
    unsigned state : 4;
    unsigned entry_num : 4;
} cam_lookup_t;

enum CRC_BYTES { CRC_BYTES_0_3 };
enum PKT_CTM_SIZE { PKT_CTM_SIZE_256, PKT_CTM_SIZE_512, PKT_CTM_SIZE_1024, PKT_CTM_SIZE_2048 };
enum local_csr { local_csr_timestamp_low };
struct pkt_ms_info;

void mem_read32(void *data, void *address, size_t size);
void mem_write32(void *data, void *address, size_t size);
void cls_read(void *data, void *address, size_t size);
void cls_write(void *data, void *address, size_t size);
void mem_read_atomic(void *data, void *address, size_t size);
void mem_write_atomic(void *data, void *address, size_t size);
/* Sets the bits of data in memory; data becomes what was there. */
void mem_test_set(void *data, void *address, size_t size);
/* Bytes moved, or -1: the ring is full, or empty. */
int mem_ring_put(unsigned ring, void *data, size_t size);
int mem_ring_get(unsigned ring, void *data, size_t size);
/* A miss names the entry used least recently. */
cam_lookup_t cam_lookup(uint32_t tag);
void cam_write(unsigned entry, uint32_t tag, unsigned state);
void cam_clear(void);
void crc_write(uint32_t remainder);
void crc_32_be(uint32_t word, enum CRC_BYTES bytes);
uint32_t crc_read(void);
void ctx_swap(void);
/* Number of the context that asks. */
static inline unsigned __ctx(void) { return 0; }
uint32_t local_csr_read(enum local_csr which);
/* A packet leaves, or does not, when all packets with smaller sequence numbers have; then its
 * buffer is free again. */
void pkt_nbi_send(unsigned char island, unsigned packet, const struct pkt_ms_info *script,
                  unsigned length, unsigned nbi, unsigned queue, unsigned sequencer,
                  unsigned sequence, enum PKT_CTM_SIZE size);
void pkt_nbi_drop_seq(unsigned char island, unsigned packet, const struct pkt_ms_info *script,
                      unsigned length, unsigned nbi, unsigned queue, unsigned sequencer,
                      unsigned sequence, enum PKT_CTM_SIZE size);

/* Called for every packet that leaves, in order; whoever runs the shim has it. */
void nfp_departed(unsigned packet, unsigned queue);

/* Memory for tables: on the chip the linker places it. Zero, or null without memory. */
void *nfp_allocate(size_t size);

#endif
