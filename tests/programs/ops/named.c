/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * named: names that headers, C, C++ and Verilog use for something else: of structs, members,
 * tables, functions and variables.
 */
#include <nicforge.h>

struct stat {
    uint32_t errno;
    uint32_t stdin;
    uint32_t s6_addr;
    uint32_t si_pid;
    uint32_t data;
    uint32_t verdict;
};

struct timespec {
    uint32_t tv_sec;
    uint32_t EOF;
    uint32_t BUFSIZ;
    uint32_t reg;
    uint32_t always;
};

struct class
{
    struct stat module;
    struct timespec template;
    uint32_t new;
    uint32_t delete;
};

NF_TABLE(hash, errno, uint32_t, struct stat, 16);
NF_TABLE(hash, data, struct timespec, struct class, 16);
NF_TABLE(array, stdin, uint32_t, uint32_t, 16);
NF_TABLE(hash, EOF, uint32_t, uint32_t, 16);
NF_TABLE(hash, state, uint32_t, uint32_t, 16);

static uint32_t always(uint32_t memcmp, uint32_t size_t) { return memcmp + size_t; }

static uint32_t fork(uint32_t printf)
{
    uint32_t memset = printf * 3;
    uint32_t memmove = memset ^ 5;
    return memset + memmove + (memmove << 1);
}

static uint32_t write(uint32_t read)
{
    struct stat stderr;
    nf_lookup(&errno, read, &stderr);
    return stderr.errno;
}

void net_recv(nf_pkt frame)
{
    struct nf_eth eth;
    if (!nf_extract(frame, &eth)) {
        nf_drop(frame, "short");
        return;
    }
    uint32_t memcpy = eth.dst.b[0];
    uint32_t this = eth.src.b[1];
    uint32_t rte_mbuf = eth.dst.b[2];
    uint32_t cursor = nf_len(frame);
    struct timespec private = {.tv_sec = memcpy & 3, .EOF = this & 3, .BUFSIZ = 1};
    struct class namespace;
    nf_lookup(&data, private, &namespace);
    namespace.module.errno += always(memcpy, this) + fork(rte_mbuf) + write(this & 7) + cursor;
    namespace.module.data ^= memcpy;
    namespace.template.EOF ^= memcpy;
    nf_update(&data, private, namespace);
    namespace.module.verdict = namespace.module.s6_addr + 1;
    nf_update(&errno, memcpy & 7, namespace.module);
    uint32_t posedge;
    nf_lookup(&stdin, this & 15, &posedge);
    nf_update(&stdin, this & 15, posedge + 1);
    nf_update(&EOF, memcpy & 15, this);
    nf_add_value(&state, memcpy & 15, 1);
    nf_emit(frame, &eth);
    nf_send(frame, 0);
}
