/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * What the hand-written DPDK programs share: starting ports, and the loop of bursts of one lcore. A
 * program defines `static int forward(struct rte_mbuf *m, unsigned port)`: the port it goes to, or
 * DROP, HOST or STACK. As in generated applications nobody is there to take what goes to the host
 * or the operating system: it is counted and freed.
 */
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_mbuf.h>
#include <rte_prefetch.h>

#define BURST 32
#define MAX_PORTS 2
#ifndef DATA_ROOM
#define DATA_ROOM RTE_MBUF_DEFAULT_BUF_SIZE
#endif

enum { DROP = -1, HOST = -2, STACK = -3 };

static uint64_t now_ns, host_count;

/* Hands a packet of the program's own to the host. */
static inline void to_host(struct rte_mbuf *m)
{
    host_count++;
    rte_pktmbuf_free(m);
}

/* Arguments behind `--`: packets to take, file for the counts. */
static inline __attribute__((always_inline)) int serve(int argc, char **argv, bool (*prepare)(void),
                                                       int (*forward)(struct rte_mbuf *, unsigned))
{
    int used = rte_eal_init(argc, argv);
    (void)rmdir(rte_eal_get_runtime_dir());
    if (used < 0 || argc - used != 3)
        return 2;
    uint64_t limit = strtoull(argv[used + 1], NULL, 10);
    struct rte_mempool *pool = rte_pktmbuf_pool_create("packets", 8192, 256, 0, DATA_ROOM, 0);
    unsigned ports = rte_eth_dev_count_avail();
    if (!pool || ports > MAX_PORTS || !prepare())
        return 3;
    for (unsigned port = 0; port < ports; port++) {
        struct rte_eth_conf conf = {0};
        if (rte_eth_dev_configure(port, 1, 1, &conf) ||
            rte_eth_rx_queue_setup(port, 0, 512, 0, NULL, pool) ||
            rte_eth_tx_queue_setup(port, 0, 512, 0, NULL) || rte_eth_dev_start(port))
            return 3;
    }
    struct rte_mbuf *out[MAX_PORTS][BURST];
    uint64_t received = 0, sent = 0, cycles = 0, hz = rte_get_tsc_hz();
    while (received < limit) {
        for (unsigned port = 0; port < ports; port++) {
            struct rte_mbuf *in[BURST];
            unsigned count[MAX_PORTS] = {0};
            uint64_t start = rte_rdtsc();
            unsigned got = rte_eth_rx_burst(port, 0, in, BURST);
            if (!got)
                continue;
            received += got;
            now_ns = start / hz * 1000000000 + start % hz * 1000000000 / hz;
            for (unsigned i = 0; i < 3 && i < got; i++)
                rte_prefetch0(rte_pktmbuf_mtod(in[i], void *));
            for (unsigned i = 0; i < got; i++) {
                if (i + 3 < got)
                    rte_prefetch0(rte_pktmbuf_mtod(in[i + 3], void *));
                int to = forward(in[i], port);
                if (likely(to >= 0 && (unsigned)to < ports)) {
                    out[to][count[to]++] = in[i];
                    continue;
                }
                host_count += to == HOST;
                rte_pktmbuf_free(in[i]);
            }
            for (unsigned to = 0; to < ports; to++) {
                unsigned done = count[to] ? rte_eth_tx_burst(to, 0, out[to], count[to]) : 0;
                sent += done;
                while (done < count[to])
                    rte_pktmbuf_free(out[to][done++]);
            }
            cycles += rte_rdtsc() - start;
        }
    }
    FILE *file = fopen(argv[used + 2], "w");
    if (!file)
        return 3;
    fprintf(file, "%" PRIu64 " %" PRIu64 " %" PRIu64 " %" PRIu64 "\n", received, sent, host_count,
            cycles);
    fclose(file);
    return 0;
}
