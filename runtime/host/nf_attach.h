/* SPDX-License-Identifier: 0BSD
 *
 * nf_attach.h - the host side of a running program, from a program of your own with an event loop
 * of its own.
 *
 * `nicforge run PROG --dev IF --host-socket PATH` listens at a Unix socket. Who connects gets a
 * file of shared memory with two queues (nf_link.h): messages and packets for the host side, and
 * messages back. The socket carries no data after that; it is what an event loop waits on: a byte
 * comes when something arrives for somebody who said that he sleeps, and its end is the end of the
 * run.
 *
 * `nicforge build PROG --emit host` writes a header with the program's structs and with names of
 * its own for these functions. A program that dies and attaches again gets everything but what it
 * had taken and not released.
 *
 * Regions are the memory of tables (NF_SHARED) itself: what either side writes is there for the
 * other one. A pointer is good until nf_detach; when the run has ended, or was reloaded with a
 * region of another form, nobody else uses the memory any more. Values of 8 bytes are read and
 * written as one, more may be seen half written, and what both sides read, change and write is lost
 * on one of them: let one side write an entry, or say by a message whose turn it is. What was
 * written before a message is seen behind it.
 *
 * One thread uses an attachment at a time. Functions give 0 or a length, or a negative errno:
 *     -EAGAIN   nothing is there, wait for the descriptor; or the queue back is full
 *     -EPIPE    the run has ended: detach, and attach to the next one
 *     -EPROTO   the run is of another program than the header
 *     -EBUSY    another program is attached
 *     -EMSGSIZE a message is longer than those of the program
 */
#ifndef NF_ATTACH_H
#define NF_ATTACH_H

#include <errno.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "nf_link.h"

#define NF_ATTACH_MAGIC 0x3141464e /* "NFA1" */

#define NF_ATTACH_REGIONS 8

enum nf_attach_kind { NF_ATTACH_MESSAGE, NF_ATTACH_PACKET };

/* In front of both queues, a line for what never changes and one for who sleeps at which queue. */
struct nf_attach_shared {
    uint32_t magic;
    uint32_t count;
    /* Bytes of an entry on the way to the program attached, and on the way back. */
    uint32_t up_bytes;
    uint32_t down_bytes;
    /* Sizes of the messages both ways; 0 where there are none. */
    uint32_t message;
    uint32_t answer;
    /* Memory that the program shares, in the order of its tables. */
    uint32_t regions;
    uint32_t region_bytes[NF_ATTACH_REGIONS];
    uint8_t spare_0[NF_LINK_LINE - 28 - 4 * NF_ATTACH_REGIONS];
    uint32_t up_sleeps;
    uint8_t spare_1[NF_LINK_LINE - 4];
    uint32_t down_sleeps;
    uint8_t spare_2[NF_LINK_LINE - 4];
};

struct nf_attach {
    int socket;
    struct nf_attach_shared *shared;
    size_t bytes;
    struct nf_link up;
    struct nf_link down;
    bool ended;
    void *regions[NF_ATTACH_REGIONS];
    size_t region_bytes[NF_ATTACH_REGIONS];
};

/* The files that the run sends with its first byte: shared memory, and the regions behind it; none
 * come while another program is attached. Gives how many. */
static inline int nf_attach_files(int socket, int files[1 + NF_ATTACH_REGIONS])
{
    char byte, room[CMSG_SPACE((1 + NF_ATTACH_REGIONS) * sizeof(int))];
    struct iovec part = {&byte, 1};
    struct msghdr message = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = room, .msg_controllen = sizeof(room)};
    ssize_t got;
    do
        got = recvmsg(socket, &message, MSG_CMSG_CLOEXEC);
    while (got < 0 && errno == EINTR);
    if (got < 0)
        return -errno;
    struct cmsghdr *with = got > 0 ? CMSG_FIRSTHDR(&message) : NULL;
    if (!with || with->cmsg_level != SOL_SOCKET || with->cmsg_type != SCM_RIGHTS)
        return -EBUSY;
    size_t bytes = with->cmsg_len - CMSG_LEN(0);
    if (bytes > (1 + NF_ATTACH_REGIONS) * sizeof(int))
        return -EPROTO;
    memcpy(files, CMSG_DATA(with), bytes);
    return (int)(bytes / sizeof(int));
}

/* Maps the file and finds both queues in it. */
static inline int nf_attach_map(struct nf_attach *to, int file, uint32_t message, uint32_t answer)
{
    struct stat about;
    if (fstat(file, &about) < 0)
        return -errno;
    to->bytes = (size_t)about.st_size;
    if (to->bytes < sizeof(struct nf_attach_shared))
        return -EPROTO;
    void *memory = mmap(NULL, to->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED)
        return -errno;
    to->shared = (struct nf_attach_shared *)memory;
    const struct nf_attach_shared *said = to->shared;
    uint8_t *queues = (uint8_t *)memory + sizeof(*said);
    size_t up = nf_link_bytes(said->count, said->up_bytes, NF_LINK_PLAIN);
    size_t down = nf_link_bytes(said->count, said->down_bytes, NF_LINK_PLAIN);
    if (said->magic != NF_ATTACH_MAGIC || said->message != message || said->answer != answer ||
        !up || !down || to->bytes < sizeof(*said) + up + down)
        return -EPROTO;
    nf_link_attach(&to->up, queues, said->count, said->up_bytes, NF_LINK_PLAIN, true);
    nf_link_attach(&to->down, queues + up, said->count, said->down_bytes, NF_LINK_PLAIN, false);
    return 0;
}

/* Maps the regions. */
static inline int nf_attach_map_regions(struct nf_attach *to, const int *files, int count)
{
    if (count != (int)to->shared->regions || count > NF_ATTACH_REGIONS)
        return -EPROTO;
    for (int at = 0; at < count; at++) {
        size_t bytes = to->shared->region_bytes[at];
        void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, files[at], 0);
        if (memory == MAP_FAILED)
            return -errno;
        to->regions[at] = memory;
        to->region_bytes[at] = bytes;
    }
    return 0;
}

static inline void nf_detach(struct nf_attach *from)
{
    for (int at = 0; at < NF_ATTACH_REGIONS; at++) {
        if (from->regions[at])
            munmap(from->regions[at], from->region_bytes[at]);
        from->regions[at] = NULL;
    }
    if (from->shared)
        munmap(from->shared, from->bytes);
    if (from->socket >= 0)
        close(from->socket);
    from->shared = NULL;
    from->socket = -1;
}

/* Attaches to the run that listens at a path. The sizes are those of the program's messages. */
static inline int nf_attach(struct nf_attach *to, const char *path, uint32_t message,
                            uint32_t answer)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *to = (struct nf_attach){.socket = -1};
    if (strlen(path) >= sizeof(address.sun_path))
        return -ENAMETOOLONG;
    strcpy(address.sun_path, path);
    to->socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int status = to->socket < 0 ? -errno : 0;
    if (!status && connect(to->socket, (struct sockaddr *)&address, sizeof(address)) < 0)
        status = -errno;
    int files[1 + NF_ATTACH_REGIONS];
    int count = status ? status : nf_attach_files(to->socket, files);
    if (count > 0)
        status = nf_attach_map(to, files[0], message, answer);
    else
        status = count < 0 ? count : -EPROTO;
    if (!status)
        status = nf_attach_map_regions(to, files + 1, count - 1);
    for (int at = 0; at < count; at++)
        close(files[at]);
    if (status)
        nf_detach(to);
    return status;
}

/* The memory of a region and its bytes; NULL if it is none of `bytes` bytes. */
static inline void *nf_attach_region(const struct nf_attach *at, uint32_t region, size_t bytes)
{
    return region < NF_ATTACH_REGIONS && at->region_bytes[region] == bytes ? at->regions[region]
                                                                           : NULL;
}

/* Readable when there may be something to receive, once at first. Level-triggered; receive until
 * -EAGAIN before waiting again. */
static inline int nf_attach_fd(const struct nf_attach *at) { return at->socket; }

/* Takes what woke us off the socket. */
static inline void nf_attach_awake(struct nf_attach *at)
{
    char bytes[64];
    ssize_t got;
    while ((got = recv(at->socket, bytes, sizeof(bytes), MSG_DONTWAIT)) > 0) {
    }
    if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR))
        at->ended = true;
}

/* What is next for the host side: its length, kind and bytes, of which at most `room` are copied.
 * What ended runs left still comes. */
static inline int nf_attach_receive(struct nf_attach *at, enum nf_attach_kind *kind, void *bytes,
                                    uint32_t room)
{
    struct nf_link_head head;
    const uint8_t *entry = nf_link_take(&at->up, &head);
    if (!entry) {
        nf_attach_awake(at);
        /* Who fills the queue looks at this after an entry, we at the queue after this: one sees
         * the other. */
        __atomic_store_n(&at->shared->up_sleeps, 1, __ATOMIC_SEQ_CST);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        entry = nf_link_take(&at->up, &head);
        if (!entry)
            return at->ended ? -EPIPE : -EAGAIN;
        __atomic_store_n(&at->shared->up_sleeps, 0, __ATOMIC_RELAXED);
    }
    nf_link_gather(&at->up, entry, head.length < room ? head.length : room, bytes);
    *kind = (enum nf_attach_kind)head.channel;
    nf_link_release(&at->up);
    return head.length;
}

/* Sends a message to the program. */
static inline int nf_attach_send(struct nf_attach *at, const void *bytes, uint32_t length)
{
    if (at->ended)
        return -EPIPE;
    if (length > nf_link_room(&at->down))
        return -EMSGSIZE;
    if (!nf_link_put(&at->down, NF_ATTACH_MESSAGE, bytes, length))
        return -EAGAIN;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    if (__atomic_exchange_n(&at->shared->down_sleeps, 0, __ATOMIC_SEQ_CST))
        (void)send(at->socket, "", 1, MSG_DONTWAIT | MSG_NOSIGNAL);
    return 0;
}

#endif
