/* The tasks of one node: plain C with a loop of its own, which sends and receives tuples and knows
 * nothing of packets.
 *
 *     worker NODE RUN.sock TUPLES TOP      ends when the stream is over; node 1 prints the TOP
 * words of both nodes
 *
 * Node 0 has the spout, which makes TUPLES words. Words go to the counter of a node by their hash.
 * A counter counts over a window of SLOTS slots of so many words each that slides by a slot, and
 * sends its node's ranker what changed in a slot; rankers keep the most frequent and send them to
 * node 1's global ranker at the end of the stream. A task's lowest bit is its node; the stream's
 * end is a tuple with the count 0.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "analytics_host.h"

#define WORDS 300
#define SLOTS 5
#define SLOT 1000

enum { COUNTER = 2, RANKER = 4, GLOBAL = 6 };

static unsigned node, top;
static struct nf_attach run;
/* Tuples sent to the other node, and how many may be before more are acknowledged. */
static uint32_t far_sent, limit = 4;
/* Tuples of this node to itself that are under way: no more than queues hold. */
static unsigned near;
#define NEAR 256

struct counted {
    char word[24];
    uint64_t count;
};

/* Newest slot first is at `slot`. */
static struct {
    struct counted words[WORDS];
    uint64_t slots[SLOTS][WORDS];
    unsigned known, slot, seen;
} counter;

static struct counted ranked[WORDS], global[2 * WORDS];
static unsigned ranked_known, global_known, ended;

/* Tuples that came while one was being sent. */
static struct analytics_heard *later;
static size_t later_count, later_room, later_at;

/* Takes what has come; whether it did, or `milliseconds` passed in vain. */
static bool hear(struct analytics_heard *heard, int milliseconds)
{
    int status;
    while ((status = analytics_receive(&run, heard)) == -EAGAIN) {
        struct pollfd fd = {nf_attach_fd(&run), POLLIN, 0};
        if (!poll(&fd, 1, milliseconds))
            return false;
    }
    if (status) {
        fprintf(stderr, "worker %u: %s\n", node, strerror(-status));
        exit(1);
    }
    if (heard->kind == 1)
        limit = heard->room;
    return true;
}

/* The same while a tuple waits to be sent: others are for later. */
static bool hear_meanwhile(int milliseconds)
{
    struct analytics_heard heard;
    if (!hear(&heard, milliseconds))
        return false;
    if (heard.kind != 1) {
        near -= heard.kind == 0 && heard.sender == node;
        if (later_count == later_room) {
            later_room = later_room ? 2 * later_room : 1024;
            later = realloc(later, later_room * sizeof(*later));
            if (!later)
                abort();
        }
        later[later_count++] = heard;
    }
    return true;
}

/* Sends a tuple. One for the other node waits for room, but not for ever: after a silence the
 * sender gives up what is under way when it gets the next. */
static void send_tuple(uint32_t task, const char *word, uint64_t count)
{
    struct analytics_tuple tuple = {.task = task, .sender = node, .count = count};
    strncpy((char *)tuple.word.bytes, word, sizeof(tuple.word.bytes));
    bool far = (task & 1) != node;
    while (far ? (int32_t)(limit - far_sent) <= 0 : near >= NEAR)
        if (!hear_meanwhile(5000))
            break;
    far_sent += far;
    near += !far;
    while (analytics_send(&run, &tuple) == -EAGAIN)
        hear_meanwhile(1);
    while (hear_meanwhile(0))
        ;
}

static unsigned find(struct counted *list, unsigned *known, unsigned most, const char *word)
{
    unsigned i = 0;
    while (i < *known && strncmp(list[i].word, word, 24))
        i++;
    if (i == *known && *known < most) {
        strncpy(list[i].word, word, 24);
        list[(*known)++].count = 0;
    }
    return i;
}

static int by_count(const void *a, const void *b)
{
    const struct counted *x = a, *y = b;
    return x->count != y->count ? (x->count < y->count ? 1 : -1) : strncmp(x->word, y->word, 24);
}

/* What changed since the last slot, to the ranker; then the oldest slot is emptied. */
static void slide(void)
{
    unsigned oldest = (counter.slot + 1) % SLOTS;
    for (unsigned i = 0; i < counter.known; i++) {
        uint64_t sum = 0;
        for (unsigned s = 0; s < SLOTS; s++)
            sum += counter.slots[s][i];
        if (sum != counter.words[i].count) {
            counter.words[i].count = sum;
            /* A word that is gone is one that was seen less than once. */
            send_tuple(RANKER + node, counter.words[i].word, sum + 1);
        }
    }
    memset(counter.slots[oldest], 0, sizeof(counter.slots[oldest]));
    counter.slot = oldest;
    counter.seen = 0;
}

static void count(const char *word, uint64_t times)
{
    if (!times) {
        slide();
        send_tuple(RANKER + node, "", 0);
        return;
    }
    counter.slots[counter.slot][find(counter.words, &counter.known, WORDS - 1, word)] += times;
    if (++counter.seen == SLOT)
        slide();
}

static void rank(const char *word, uint64_t times)
{
    if (times) {
        ranked[find(ranked, &ranked_known, WORDS - 1, word)].count = times - 1;
        return;
    }
    qsort(ranked, ranked_known, sizeof(ranked[0]), by_count);
    for (unsigned i = 0; i < ranked_known && i < top; i++)
        if (ranked[i].count)
            send_tuple(GLOBAL + 1, ranked[i].word, ranked[i].count);
    send_tuple(GLOBAL + 1, "", 0);
}

static void rank_all(const char *word, uint64_t times)
{
    if (times) {
        global[find(global, &global_known, 2 * WORDS - 1, word)].count = times;
        return;
    }
    if (++ended < 2)
        return;
    qsort(global, global_known, sizeof(global[0]), by_count);
    for (unsigned i = 0; i < global_known && i < top; i++)
        printf("%s %" PRIu64 "\n", global[i].word, global[i].count);
}

/* Does what is next. */
static void work(void)
{
    struct analytics_heard heard;
    if (later_at < later_count) {
        heard = later[later_at++];
        if (later_at == later_count)
            later_at = later_count = 0;
    } else if (!hear(&heard, 100) || heard.kind == 1) {
        return;
    } else {
        near -= heard.sender == node;
    }
    const char *word = (const char *)heard.word.bytes;
    switch (heard.task & ~1u) {
    case COUNTER:
        count(word, heard.count);
        break;
    case RANKER:
        rank(word, heard.count);
        ended += node == 0 && !heard.count;
        break;
    case GLOBAL:
        rank_all(word, heard.count);
    }
}

/* Words of uneven frequency, always the same: the lesser of three random numbers is one's number.
 */
static void spout(uint64_t tuples)
{
    uint64_t state = 1;
    for (uint64_t i = 0; i < tuples; i++) {
        unsigned least = WORDS;
        for (int k = 0; k < 3; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            unsigned number = (unsigned)(state >> 33) % (WORDS / 2);
            least = number < least ? number : least;
        }
        char word[24];
        snprintf(word, sizeof(word), "word%u", least);
        send_tuple(COUNTER + (least * 7 + 3) % 2, word, 1);
    }
    send_tuple(COUNTER, "", 0);
    send_tuple(COUNTER + 1, "", 0);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: worker NODE RUN.sock TUPLES TOP\n");
        return 2;
    }
    node = (unsigned)atoi(argv[1]);
    top = (unsigned)atoi(argv[4]);
    int status = analytics_attach(&run, argv[2]);
    if (status) {
        fprintf(stderr, "%s: %s\n", argv[2], strerror(-status));
        return 1;
    }
    if (node == 0)
        spout(strtoull(argv[3], NULL, 10));
    while (ended < (node ? 2 : 1))
        work();
    return 0;
}
