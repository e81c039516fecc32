// Messages over SLMP: UDP datagrams of at most 1462 bytes to port 9330, each with flags, the
// message's number and its offset.
//
// The first packet (SYN) is acknowledged before any other is sent, so that the receiver's header
// handler comes first; the last (EOM) is sent when all others have arrived, so that its tail
// handler comes last. In between every thread sends its own contiguous share with at most its part
// of the window unacknowledged. Acknowledgements name the offset; a packet without one is sent
// again after a time that doubles with each attempt. Receivers write a packet's bytes where they
// belong, so twice is as good as once. With window 0 nothing between first and last is
// acknowledged, and what is lost stays lost.
#include "fpspin.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define BUFFER_BYTES (1 << 20)
#define FIRST_PATIENCE_MS 1000
#define PATIENCE_MS 2000
#define PATIENCE_VARIABLE "NICFORGE_SLMP_SECONDS"
#define AGAIN_MS 40
#define AGAIN_MOST_MS 640

struct message {
    int fd;
    const slmp_sock_t *sock;
    uint32_t id; // in network order
    const uint8_t *data;
    size_t size, payload, packets;
    bool *acknowledged;
    // Time of the last new acknowledgement, ms.
    int64_t progress;
    bool failed;
};

struct share {
    struct message *message;
    size_t from, to, window;
};

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

// How long to wait for the next acknowledgement: what the environment says, for simulated NICs on
// busy machines, else `usual`.
static int patience_ms(int usual)
{
    const char *text = getenv(PATIENCE_VARIABLE);
    long seconds = text ? strtol(text, NULL, 10) : 0;
    return seconds > 0 && seconds <= 3600 ? (int)seconds * 1000 : usual;
}

static bool is_acknowledged(struct message *message, size_t packet)
{
    return __atomic_load_n(&message->acknowledged[packet], __ATOMIC_ACQUIRE);
}

// Sends one packet; waits while the socket is full.
static bool send_packet(struct message *message, size_t packet, uint16_t flags)
{
    struct {
        slmp_hdr_t header;
        uint8_t payload[SLMP_PAYLOAD_SIZE];
    } __attribute__((__packed__)) datagram;
    size_t offset = packet * message->payload;
    size_t size =
        message->size - offset < message->payload ? message->size - offset : message->payload;

    datagram.header = (slmp_hdr_t){htons(flags), message->id, htonl((uint32_t)offset)};
    memcpy(datagram.payload, message->data + offset, size);
    while (send(message->fd, &datagram, sizeof(slmp_hdr_t) + size, 0) < 0) {
        struct pollfd room = {.fd = message->fd, .events = POLLOUT};
        // A receiver that was not there a moment ago (ECONNREFUSED) may be now: acknowledgements
        // decide.
        if (errno == ECONNREFUSED)
            break;
        if ((errno != EAGAIN && errno != EINTR && errno != ENOBUFS) ||
            poll(&room, 1, patience_ms(PATIENCE_MS)) == 0)
            return false;
    }
    if (message->sock->fc_us)
        usleep((useconds_t)message->sock->fc_us);
    return true;
}

// Takes the acknowledgements that are there, waiting for one at most so long.
static void take_acknowledgements(struct message *message, int wait_ms)
{
    struct pollfd more = {.fd = message->fd, .events = POLLIN};
    slmp_hdr_t header;

    if (wait_ms > 0)
        poll(&more, 1, wait_ms);
    for (;;) {
        ssize_t got = recv(message->fd, &header, sizeof header, MSG_TRUNC);
        if (got < 0)
            return;
        size_t packet = ntohl(header.pkt_off) / message->payload;
        if (got != sizeof header || !ACK(ntohs(header.flags)) || header.msg_id != message->id ||
            packet >= message->packets)
            continue;
        if (!__atomic_exchange_n(&message->acknowledged[packet], true, __ATOMIC_ACQ_REL))
            __atomic_store_n(&message->progress, now_ms(), __ATOMIC_RELAXED);
    }
}

// Sends packet after packet and again what was lost, until all are acknowledged.
static bool send_acknowledged(struct message *message, size_t from, size_t to, size_t window,
                              uint16_t flags, int patience)
{
    struct flight {
        size_t packet;
        int64_t again;
        int wait;
    } *flights = calloc(window, sizeof *flights);
    size_t flying = 0, next = from;
    bool fine = flights != NULL;

    while (fine && (flying > 0 || next < to)) {
        while (fine && flying < window && next < to) {
            fine = send_packet(message, next, flags);
            flights[flying++] = (struct flight){next++, now_ms() + AGAIN_MS, AGAIN_MS};
        }
        take_acknowledgements(message, 1);
        int64_t now = now_ms();
        for (size_t at = 0; fine && at < flying;) {
            if (is_acknowledged(message, flights[at].packet)) {
                flights[at] = flights[--flying];
                continue;
            }
            if (now >= flights[at].again) {
                fine = send_packet(message, flights[at].packet, flags);
                if (flights[at].wait < AGAIN_MOST_MS)
                    flights[at].wait *= 2;
                flights[at].again = now + flights[at].wait;
            }
            at++;
        }
        if (now - __atomic_load_n(&message->progress, __ATOMIC_RELAXED) > patience)
            fine = false;
    }
    free(flights);
    return fine;
}

static void *send_share(void *arg)
{
    struct share *share = arg;
    struct message *message = share->message;
    bool fine = true;

    if (share->window > 0)
        fine = send_acknowledged(message, share->from, share->to, share->window, MKSYN,
                                 patience_ms(PATIENCE_MS));
    else
        for (size_t packet = share->from; fine && packet < share->to; packet++)
            fine = send_packet(message, packet, 0);
    if (!fine)
        __atomic_store_n(&message->failed, true, __ATOMIC_RELAXED);
    return NULL;
}

int slmp_socket(slmp_sock_t *sock, int wnd_sz, int align, int fc_us, int num_threads)
{
    if (num_threads <= 0 || wnd_sz < 0 || align < 1 || align > SLMP_PAYLOAD_SIZE) {
        fprintf(stderr, "slmp_socket: at least one thread, a window of 0 or more and an alignment "
                        "of 1 to 1462 are needed\n");
        errno = EINVAL;
        return -1;
    }
    *sock =
        (slmp_sock_t){.wnd_sz = wnd_sz, .align = align, .fc_us = fc_us, .num_threads = num_threads};
    return 0;
}

// The packets between first and last, by all threads.
static bool send_middle(struct message *message)
{
    size_t threads = (size_t)message->sock->num_threads, middle = message->packets - 2;
    size_t window = ((size_t)message->sock->wnd_sz + threads - 1) / threads;
    pthread_t *handles = calloc(threads, sizeof *handles);
    struct share *shares = calloc(threads, sizeof *shares);
    size_t started = 0;

    message->failed = !handles || !shares;
    for (size_t at = 0; !message->failed && at < threads; at++) {
        shares[at] = (struct share){message, 1 + middle * at / threads,
                                    1 + middle * (at + 1) / threads, window};
        if (pthread_create(&handles[at], NULL, send_share, &shares[at]) != 0)
            break;
        started++;
    }
    for (size_t at = 0; at < started; at++)
        pthread_join(handles[at], NULL);
    bool fine = !message->failed && started == threads;
    free(handles);
    free(shares);
    return fine;
}

static int send_message(struct message *message)
{
    bool alone = message->packets == 1;

    message->progress = now_ms();
    if (!send_acknowledged(message, 0, 1, 1, alone ? MKSYN | MKEOM : MKSYN,
                           patience_ms(FIRST_PATIENCE_MS)))
        return -2;
    if (alone)
        return 0;
    if (message->packets > 2 && !send_middle(message))
        return -1;
    __atomic_store_n(&message->progress, now_ms(), __ATOMIC_RELAXED);
    size_t last = message->packets - 1;
    bool fine =
        send_acknowledged(message, last, last + 1, 1, MKSYN | MKEOM, patience_ms(PATIENCE_MS));
    return fine ? 0 : -1;
}

int slmp_sendmsg(slmp_sock_t *sock, in_addr_t server, int msgid, void *buf, size_t sz)
{
    struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(SLMP_PORT), .sin_addr = {server}};
    int bytes = BUFFER_BYTES;
    struct message message = {.sock = sock, .id = htonl((uint32_t)msgid), .data = buf, .size = sz};

    printf("Sending SLMP message #%d of size %zu\n", msgid, sz);
    if (sz > UINT32_MAX) {
        errno = EMSGSIZE;
        return -1;
    }
    message.payload = (size_t)(SLMP_PAYLOAD_SIZE / sock->align * sock->align);
    message.packets = sz > message.payload ? (sz + message.payload - 1) / message.payload : 1;
    message.acknowledged = calloc(message.packets, 1);
    message.fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int result = -1;
    if (message.acknowledged && message.fd >= 0 &&
        setsockopt(message.fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes) == 0 &&
        setsockopt(message.fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) == 0)
        result = connect(message.fd, (struct sockaddr *)&to, sizeof to) < 0
                     ? -3
                     : send_message(&message);
    free(message.acknowledged);
    if (message.fd >= 0)
        close(message.fd);
    return result;
}

int slmp_close(slmp_sock_t *sock)
{
    (void)sock;
    return 0;
}
