/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * worker.c - serves packets with a function, or with several one after the other, as a process of one side of a
 * balance.
 *
 *   worker FUNCTION[=CONFIG][,FUNCTION[=CONFIG]]... --listen ADDRESS:PORT [--threads N] [--poll] [--shared FILE]
 *   worker FUNCTION... --bench N          what a packet costs, without a network
 *   worker FUNCTION... --answer N         packets and replies of the first N, for check.py
 *   worker --list
 *
 * A datagram is a number of eight bytes and a packet; the reply is the number and the results. What is no request is
 * answered by the number alone. Without --poll threads sleep until a packet comes.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "arena.h"
#include "function.h"

#define CHAIN 4
#define KEYS 40000
#define HEAD 8

static const struct function *const functions[] = {
    &kvs, &count, &ema, &nat, &bm25, &knn, &bayes, &regex, &crypto, &deflate_zlib, &deflate_isal,
};
#define FUNCTIONS (sizeof functions / sizeof *functions)

static struct link {
    const struct function *function;
    void *state;
} chain[CHAIN];
static unsigned links;
static uint64_t served, refused;
static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static uint64_t now_ns(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void list(FILE *to)
{
    for (size_t at = 0; at < FUNCTIONS; at++)
        fprintf(to, "%-8s %-9s %s\n", functions[at]->name, functions[at]->stateful ? "stateful" : "stateless",
                functions[at]->what);
}

/* Reads `name=config,name=config`. */
static bool make_chain(char *text, struct arena *arena)
{
    char *rest = NULL;
    for (char *one = strtok_r(text, ",", &rest); one; one = strtok_r(NULL, ",", &rest)) {
        char *config = strchr(one, '=');
        const struct function *function = NULL;
        if (config)
            *config++ = 0;
        for (size_t at = 0; at < FUNCTIONS; at++)
            if (strcmp(functions[at]->name, one) == 0)
                function = functions[at];
        if (!function) {
            fprintf(stderr, "worker: no function `%s`; there are\n", one);
            list(stderr);
            return false;
        }
        if (links == CHAIN) {
            fprintf(stderr, "worker: more than %d functions\n", CHAIN);
            return false;
        }
        chain[links] = (struct link){function, function->make(config, arena)};
        if (!chain[links++].state)
            return false;
    }
    return links > 0;
}

/* All functions on one packet; the results' length, or -1. */
static ssize_t serve(uint8_t *packet, size_t size, uint8_t *result)
{
    size_t length = 0;
    for (unsigned at = 0; at < links; at++) {
        ssize_t more = chain[at].function->serve(chain[at].state, packet, size, result + length, REPLY_BYTES - length);
        if (more < 0)
            return -1;
        length += (size_t)more;
    }
    return (ssize_t)length;
}

struct thread {
    pthread_t handle;
    int socket;
    bool poll;
};

static void *run(void *argument)
{
    const struct thread *thread = argument;
    uint8_t request[HEAD + PACKET_BYTES], reply[HEAD + REPLY_BYTES];
    struct sockaddr_storage from;
    while (!stop) {
        socklen_t size = sizeof from;
        ssize_t got = recvfrom(thread->socket, request, sizeof request, thread->poll ? MSG_DONTWAIT : 0,
                               (struct sockaddr *)&from, &size);
        if (got < HEAD) {
            if (got < 0 && errno != EAGAIN && errno != EINTR)
                break;
            continue;
        }
        ssize_t length = serve(request + HEAD, (size_t)got - HEAD, reply + HEAD);
        __atomic_fetch_add(length < 0 ? &refused : &served, 1, __ATOMIC_RELAXED);
        memcpy(reply, request, HEAD);
        /* A sender that is gone is not this worker's trouble. */
        (void)!sendto(thread->socket, reply, HEAD + (size_t)(length < 0 ? 0 : length), 0, (struct sockaddr *)&from,
                      size);
    }
    return NULL;
}

static int listen_on(char *where)
{
    char *colon = strrchr(where, ':');
    struct sockaddr_in at = {.sin_family = AF_INET};
    /* So that a thread looks up from time to time whether it is to end. */
    struct timeval tick = {.tv_usec = 200000};
    int bytes = 4 << 20;
    if (colon)
        *colon++ = 0;
    if (!colon || inet_pton(AF_INET, where, &at.sin_addr) != 1 || atoi(colon) <= 0 || atoi(colon) > 65535) {
        fprintf(stderr, "worker: --listen takes ADDRESS:PORT\n");
        return -1;
    }
    at.sin_port = htons((uint16_t)atoi(colon));
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tick, sizeof tick) < 0 ||
        setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes) < 0 ||
        bind(fd, (struct sockaddr *)&at, sizeof at) < 0) {
        perror(where);
        return -1;
    }
    return fd;
}

static int serve_network(char *where, unsigned threads, bool poll)
{
    struct thread all[64];
    int fd = listen_on(where);
    if (fd < 0)
        return 3;
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    for (unsigned at = 0; at < threads; at++) {
        all[at] = (struct thread){.socket = fd, .poll = poll};
        if (pthread_create(&all[at].handle, NULL, run, &all[at]) != 0) {
            fprintf(stderr, "worker: cannot start thread %u of %u\n", at + 1, threads);
            return 3;
        }
    }
    printf("ready\n");
    fflush(stdout);
    for (unsigned at = 0; at < threads; at++)
        pthread_join(all[at].handle, NULL);
    printf("served %lu, refused %lu, cpu %lu ns\n", served, refused, now_ns(CLOCK_PROCESS_CPUTIME_ID));
    return 0;
}

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* Mean, 99th percentile and variation of a packet's time. */
static int bench(uint64_t packets)
{
    uint32_t *times = calloc(packets, sizeof *times);
    uint8_t packet[PACKET_BYTES], result[REPLY_BYTES];
    double sum = 0, squares = 0, bytes = 0;
    if (!times)
        return 3;
    for (uint64_t number = 0; number < packets; number++) {
        size_t size = chain[0].function->packet(chain[0].state, number, packet);
        uint64_t start = now_ns(CLOCK_MONOTONIC);
        if (serve(packet, size, result) < 0)
            return 1;
        uint64_t took = now_ns(CLOCK_MONOTONIC) - start;
        times[number] = took < UINT32_MAX ? (uint32_t)took : UINT32_MAX;
        bytes += (double)size;
    }
    /* A hundredth of the slowest were interrupted rather than slow. */
    qsort(times, packets, sizeof *times, ascending);
    uint64_t counted = packets - packets / 100;
    for (uint64_t at = 0; at < counted; at++) {
        sum += times[at];
        squares += (double)times[at] * times[at];
    }
    double mean = sum / (double)counted, variance = squares / (double)counted - mean * mean;
    printf("packets %lu\nbytes %.1f\nmean_ns %.1f\np99_ns %u\nvariation %.4f\n", packets, bytes / (double)packets, mean,
           times[counted - 1], variance > 0 ? __builtin_sqrt(variance) / mean : 0);
    free(times);
    return 0;
}

static void put(const uint8_t *bytes, size_t size)
{
    uint8_t length[4];
    store32(length, (uint32_t)size);
    fwrite(length, 1, sizeof length, stdout);
    fwrite(bytes, 1, size, stdout);
}

/* Packet, packet as the functions left it, and results, each behind its length. */
static int answer(uint64_t packets)
{
    uint8_t packet[PACKET_BYTES], result[REPLY_BYTES];
    for (uint64_t number = 0; number < packets; number++) {
        size_t size = chain[0].function->packet(chain[0].state, number, packet);
        put(packet, size);
        ssize_t length = serve(packet, size, result);
        put(packet, size);
        put(result, length < 0 ? 0 : (size_t)length);
    }
    return fflush(stdout) == 0 ? 0 : 3;
}

int main(int argc, char **argv)
{
    enum { LISTEN = 256, THREADS, POLL, SHARED, BENCH, ANSWER, LIST };
    static const struct option options[] = {
        {"listen", required_argument, NULL, LISTEN}, {"threads", required_argument, NULL, THREADS},
        {"poll", no_argument, NULL, POLL},           {"shared", required_argument, NULL, SHARED},
        {"bench", required_argument, NULL, BENCH},   {"answer", required_argument, NULL, ANSWER},
        {"list", no_argument, NULL, LIST},           {0},
    };
    char *where = NULL, *shared = NULL;
    unsigned long threads = 1, packets = 0;
    bool poll = false;
    int what = 0, option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        switch (option) {
        case LISTEN:
            where = optarg;
            break;
        case THREADS:
            threads = strtoul(optarg, NULL, 10);
            break;
        case POLL:
            poll = true;
            break;
        case SHARED:
            shared = optarg;
            break;
        case BENCH:
        case ANSWER:
            what = option;
            packets = strtoul(optarg, NULL, 10);
            break;
        case LIST:
            list(stdout);
            return 0;
        default:
            return 2;
        }
    }
    if (optind + 1 != argc || (!where && packets == 0) || threads < 1 || threads > 64) {
        fprintf(stderr, "usage: %s FUNCTION[=CONFIG][,...] --listen ADDRESS:PORT | --bench N | --answer N\n", argv[0]);
        return 2;
    }
    struct arena *arena = arena_open(shared, KEYS);
    if (!arena || !make_chain(argv[optind], arena))
        return 1;
    if (where)
        return serve_network(where, (unsigned)threads, poll);
    return what == BENCH ? bench(packets) : answer(packets);
}
