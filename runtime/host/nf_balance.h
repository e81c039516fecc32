/* SPDX-License-Identifier: 0BSD
 *
 * nf_balance.h - heartbeats of a service behind `nicforge balance run`: whether it is alive, how
 * full its queues are, what it did.
 *
 * Send one every 5 ms while awake. A host that goes to sleep says so with `asleep` and is then
 * silent until packets come; the NIC side never sleeps.
 */
#ifndef NF_BALANCE_H
#define NF_BALANCE_H

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum nf_side { NF_NIC_SIDE, NF_HOST_SIDE };

struct nf_beats {
    int socket;
    struct sockaddr_un to;
    uint64_t sequence;
};

/* `path` is what --beats names. 0, or -1 with errno. */
static inline int nf_beats_open(struct nf_beats *beats, const char *path)
{
    memset(beats, 0, sizeof(*beats));
    if (strlen(path) >= sizeof(beats->to.sun_path))
        return -1;
    beats->to.sun_family = AF_UNIX;
    strcpy(beats->to.sun_path, path);
    beats->socket = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    return beats->socket < 0 ? -1 : 0;
}

static inline void nf_beats_put(uint8_t *at, uint64_t value)
{
    for (int i = 0; i < 8; i++)
        at[i] = (uint8_t)(value >> (8 * i));
}

/* Sends one; that nobody listens is no error. `queue`: packets in the fullest queue. `done`:
 * packets since the start. `p99_ns`: latency since the last heartbeat, 0 if there were few packets.
 */
static inline void nf_beats_send(struct nf_beats *beats, enum nf_side side, int asleep,
                                 uint64_t queue, uint64_t done, uint64_t p99_ns)
{
    uint8_t bytes[40] = {'n', 'f', 'b', 'b', 1, (uint8_t)side, asleep != 0};

    nf_beats_put(bytes + 8, ++beats->sequence);
    nf_beats_put(bytes + 16, queue);
    nf_beats_put(bytes + 24, done);
    nf_beats_put(bytes + 32, p99_ns);
    sendto(beats->socket, bytes, sizeof(bytes), 0, (struct sockaddr *)&beats->to,
           sizeof(beats->to));
}

static inline void nf_beats_close(struct nf_beats *beats) { close(beats->socket); }

#endif
