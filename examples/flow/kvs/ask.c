/* Asks a store over UDP, so many requests at once, as fast as answers come: `ask ADDRESS PORT
 * AT_ONCE < requests`.
 *
 * A request is its length in two bytes, the lower first, and the datagram. All of a turn leave with
 * one system call, and the next turn begins when all are answered or none came for two seconds.
 * Prints how many were not answered. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#define MOST 256
#define LARGEST 2048

static uint8_t datagrams[MOST][LARGEST], answers[MOST][LARGEST];
static struct iovec parts[MOST], rooms[MOST];
static struct mmsghdr requests[MOST], replies[MOST];

static int take(unsigned at)
{
    uint8_t head[2];
    if (fread(head, sizeof(head), 1, stdin) != 1)
        return 0;
    size_t length = head[0] | head[1] << 8;
    if (length > LARGEST || fread(datagrams[at], length, 1, stdin) != 1)
        return 0;
    parts[at].iov_len = length;
    return 1;
}

static int fail(const char *what)
{
    perror(what);
    return 1;
}

int main(int count, char **words)
{
    unsigned at_once = count == 4 ? (unsigned)atoi(words[3]) : 0;
    if (at_once == 0 || at_once > MOST) {
        fprintf(stderr, "usage: ask ADDRESS PORT AT_ONCE (at most %d) < requests\n", MOST);
        return 2;
    }
    struct sockaddr_in store = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(words[2]))};
    int sock = socket(AF_INET, SOCK_DGRAM, 0);
    if (sock < 0 || inet_pton(AF_INET, words[1], &store.sin_addr) != 1 ||
        connect(sock, (struct sockaddr *)&store, sizeof(store)))
        return fail(words[1]);
    for (unsigned i = 0; i < MOST; i++) {
        parts[i].iov_base = datagrams[i];
        rooms[i] = (struct iovec){answers[i], LARGEST};
        requests[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
        replies[i].msg_hdr = (struct msghdr){.msg_iov = &rooms[i], .msg_iovlen = 1};
    }
    unsigned long lost = 0;
    for (unsigned many = at_once; many == at_once;) {
        for (many = 0; many < at_once && take(many);)
            many++;
        for (unsigned sent = 0; sent < many;) {
            int more = sendmmsg(sock, requests + sent, many - sent, 0);
            if (more < 0)
                return fail("sendmmsg");
            sent += (unsigned)more;
        }
        unsigned answered = 0;
        struct pollfd ready = {.fd = sock, .events = POLLIN};
        while (answered < many && poll(&ready, 1, 2000) > 0) {
            int more = recvmmsg(sock, replies, many - answered, MSG_DONTWAIT, 0);
            if (more < 0)
                return fail("recvmmsg");
            answered += (unsigned)more;
        }
        lost += many - answered;
    }
    printf("%lu\n", lost);
    return 0;
}
