/* Runs a module's C: its test on threads, bodies of elements for the program, one at a time.
 *
 * The program asks for what to run (floem_next): calls that threads of the test wait for, and when
 * none comes or one has to wait, every segment once. A body has a stack of its own, which is left
 * alone until the next call: what it hands on may point into it. */
#include <sys/mman.h>
#include <ucontext.h>

#include "floem_module.h"
#undef exit

extern void (*const floem_bodies[])(struct floem_frame *);
extern const struct floem_tick {
    uint32_t function, core;
} floem_ticks[];
extern const uint32_t floem_tick_count;
extern int (*const floem_mains[])(int, char **);
extern char **const floem_arguments[];
extern const uint32_t floem_main_count;

extern const int floem_takers[];
extern const uint32_t floem_box_count;
extern struct floem_box {
    struct floem_box *next;
    struct floem_call call;
} *floem_boxes[];

struct waiting {
    struct waiting *next;
    uint32_t function;
    uint64_t in[FLOEM_WORDS], value;
    /* Answered; ran already and waits for something. */
    bool done, blocked;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static struct waiting *queue, *running;

/* A thread that sleeps until a round, or for ever. */
struct sleeper {
    struct sleeper *next;
    long until;
    bool forever, awake;
};

static struct sleeper *sleepers;
static bool started, blocked, threads;
/* Whether this thread runs bodies: it waits for nothing. */
static __thread bool program;
/* Threads of the test that run: neither asleep nor waiting for a call. */
static int busy, left;
static long rounds;
/* The segment that is next, and calls since all of them ran. */
static uint32_t tick, calls, core;
static char *stacks;
static size_t used;
static uint64_t step, taken[256];
static bool ran[4096];
enum { STACK = 1 << 18, STACKS = 1 << 11, CALLS = 64 };

FILE *floem_out(void)
{
    static FILE *file;
    if (!file) {
        file = fopen(getenv("FLOEM_OUT"), "a");
        if (!file)
            abort();
        setvbuf(file, NULL, _IONBF, 0);
    }
    return file;
}

static void say(const char *what)
{
    FILE *file = fopen(getenv("FLOEM_STATUS"), "a");
    fprintf(file, "%s\n", what);
    fclose(file);
}

void out(int x) { printf("%d\n", x); }
void run_threads(void) { threads = true; }
void kill_threads(void) { threads = false; }
void finalize_and_check(void) {}

_Noreturn void floem_exit(int code)
{
    char text[32];
    snprintf(text, sizeof text, "exit %d", code);
    say(text);
    _exit(0);
}

static void *thread(void *number)
{
    long at = (long)number;
    int count = 0;
    while (floem_arguments[at][count])
        count++;
    floem_mains[at](count, floem_arguments[at]);
    pthread_mutex_lock(&lock);
    busy--;
    left--;
    if (left == 0)
        say("over");
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
    return NULL;
}

int floem_sleep(long wanted)
{
    if (program)
        return 0;
    pthread_mutex_lock(&lock);
    struct sleeper sleeper = {.until = rounds + wanted, .forever = wanted < 0};
    sleeper.next = sleepers;
    sleepers = &sleeper;
    busy--;
    pthread_cond_broadcast(&change);
    while (!sleeper.awake)
        pthread_cond_wait(&change, &lock);
    pthread_mutex_unlock(&lock);
    return 0;
}

/* A round is over: whose time has come is busy from now on, not from when its thread runs again. */
static void wake(void)
{
    rounds++;
    for (struct sleeper **at = &sleepers; *at;) {
        struct sleeper *one = *at;
        if (one->forever || rounds < one->until) {
            at = &one->next;
            continue;
        }
        *at = one->next;
        one->awake = true;
        busy++;
    }
    pthread_cond_broadcast(&change);
}

static void append(struct waiting *call)
{
    struct waiting **last = &queue;
    while (*last)
        last = &(*last)->next;
    call->next = NULL;
    *last = call;
}

uint64_t floem_function(uint32_t function, uint32_t count, const uint64_t *values)
{
    struct waiting call = {.function = function};
    memcpy(call.in, values, count * sizeof *values);
    pthread_mutex_lock(&lock);
    append(&call);
    busy--;
    pthread_cond_broadcast(&change);
    while (!call.done)
        pthread_cond_wait(&change, &lock);
    pthread_mutex_unlock(&lock);
    return call.value;
}

void floem_answer(uint64_t value)
{
    if (running)
        running->value = value;
}

void floem_block(void) { blocked = true; }

/* Ends what the program ran for a call: it is answered, or asks again behind all others, one of
 * which may give what it waits for. */
static void finish(void)
{
    if (!running)
        return;
    if (blocked) {
        running->blocked = true;
        append(running);
    } else {
        running->done = true;
        busy++;
    }
    running = NULL;
    pthread_cond_broadcast(&change);
}

extern const uint64_t floem_defaults[];
extern const int floem_givers[];

/* Whether a call came that was not found to wait for something. */
static bool asked(void)
{
    struct waiting *call = queue;
    while (call && call->blocked)
        call = call->next;
    return call != NULL;
}

/* Waits for a call, as long as a thread may make one. A thread that computes for 3 seconds is taken
 * for one that waits in a loop: from then on there is a millisecond for each. Where others wait for
 * something that a round of segments may give them, there are 10 milliseconds. */
static void await(void)
{
    static bool loops;
    long nanoseconds = loops ? 1000000 : queue ? 10000000 : 0;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += nanoseconds ? 0 : 3;
    until.tv_nsec += nanoseconds;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    while (left > 0 && !asked() && busy > 0)
        if (pthread_cond_timedwait(&change, &lock, &until) != 0) {
            loops |= !queue;
            break;
        }
}

/* Whether a thread gave what was not taken yet. */
static bool waits(uint32_t function)
{
    for (uint32_t at = 0; at < floem_box_count; at++)
        if (floem_givers[at] == (int)function && floem_boxes[at])
            return true;
    return false;
}

void floem_next(struct floem_frame *frame)
{
    frame->function = UINT32_MAX;
    used = 0;
    step++;
    memset(ran, 0, sizeof ran);
    program = true;
    pthread_mutex_lock(&lock);
    if (!started) {
        started = true;
        tick = floem_tick_count;
        busy = left = floem_main_count;
        for (long at = 0; at < floem_main_count; at++) {
            pthread_t made;
            pthread_create(&made, NULL, thread, (void *)at);
        }
    }
    /* Calls first, as a test makes them in a row; a round of segments when none comes. */
    if (blocked)
        calls = CALLS;
    finish();
    blocked = false;
    if (tick == floem_tick_count) {
        if (calls < CALLS)
            await();
        if (queue && calls < CALLS) {
            calls++;
            running = queue;
            queue = queue->next;
            running->next = NULL;
            running->value = floem_defaults[running->function];
            frame->function = running->function;
            memcpy(frame->in, running->in, sizeof running->in);
        } else {
            wake();
            calls = tick = 0;
        }
    } else {
        if (left > 0 && threads && !waits(floem_ticks[tick].function)) {
            frame->function = floem_ticks[tick].function;
            frame->in[0] = core = floem_ticks[tick].core;
        }
        tick++;
    }
    pthread_mutex_unlock(&lock);
    frame->at = (uint64_t)(uintptr_t)floem_state();
}

static void (*entered)(struct floem_frame *);
static struct floem_frame *given;

static void enter(void) { entered(given); }

void floem_run(uint32_t body, struct floem_frame *frame)
{
    ucontext_t here, there;
    if (!stacks)
        stacks = mmap(NULL, (size_t)STACK * STACKS, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (used == STACKS) {
        say("one call runs more than 2048 bodies");
        abort();
    }
    getcontext(&there);
    there.uc_stack.ss_sp = stacks + STACK * used++;
    there.uc_stack.ss_size = STACK;
    there.uc_link = &here;
    ran[body] = true;
    entered = floem_bodies[body];
    given = frame;
    frame->count = 0;
    makecontext(&there, enter, 0);
    swapcontext(&here, &there);
}

void floem_output(struct floem_frame *frame, uint32_t port, uint64_t at, const uint64_t *values,
                  uint32_t count)
{
    if (frame->count == FLOEM_CALLS) {
        say("one run of a body calls outputs more than 64 times");
        abort();
    }
    struct floem_call *call = &frame->calls[frame->count++];
    call->port = port;
    call->at = at;
    memcpy(call->words, values, count * sizeof *values);
}

const struct floem_call *floem_called(const struct floem_frame *frame, uint32_t port)
{
    for (uint32_t at = 0; at < frame->count; at++)
        if (frame->calls[at].port == port)
            return &frame->calls[at];
    return NULL;
}

const struct floem_call *floem_calls(const struct floem_frame *frame, uint32_t port)
{
    const struct floem_call *call = floem_called(frame, port);
    if (!call) {
        say("a body ends without the output that it calls each time");
        abort();
    }
    return call;
}

unsigned floem_core(void) { return core; }

bool floem_ran(uint32_t body) { return ran[body]; }

void *floem_region(size_t size)
{
    return mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                0);
}

/* -- mailboxes between threads ----------------------------------------------------------------- */

void floem_put(uint32_t box, const struct floem_frame *frame)
{
    struct floem_box **last = &floem_boxes[box], *made = calloc(1, sizeof *made);
    made->call = frame->calls[0];
    while (*last)
        last = &(*last)->next;
    *last = made;
}

/* A thread takes from all its mailboxes in one step, or waits. */
bool floem_take(uint32_t box, struct floem_frame *frame)
{
    for (uint32_t at = 0; at < floem_box_count; at++)
        if (floem_takers[at] == floem_takers[box] && taken[at] != step && !floem_boxes[at]) {
            blocked = true;
            return false;
        }
    taken[box] = step;
    frame->calls[0] = floem_boxes[box]->call;
    floem_boxes[box] = floem_boxes[box]->next;
    return true;
}

/* -- packets ----------------------------------------------------------------------------------- */

void floem_from_net(size_t *size, void **packet, void **buffer)
{
    static FILE *file;
    uint32_t record[4];
    *size = 0;
    *packet = *buffer = NULL;
    const char *name = getenv("FLOEM_FRAMES");
    if (!file) {
        if (!name || !(file = fopen(name, "rb")))
            return;
        fseek(file, 24, SEEK_SET);
    }
    if (fread(record, sizeof record, 1, file) != 1)
        return;
    /* Room behind it, as packet buffers have. */
    *packet = *buffer = calloc(1, record[2] + 2048);
    *size = fread(*packet, 1, record[2], file);
}

void floem_to_net(size_t size, const void *packet)
{
    static FILE *file;
    if (!file) {
        const uint32_t head[6] = {0xa1b2c3d4, 4 << 16 | 2, 0, 0, 65535, 1};
        file = fopen(getenv("FLOEM_SENT"), "wb");
        setvbuf(file, NULL, _IONBF, 0);
        fwrite(head, sizeof head, 1, file);
    }
    const uint32_t record[4] = {0, 0, size, size};
    fwrite(record, sizeof record, 1, file);
    fwrite(packet, 1, size, file);
}

/* -- queues ------------------------------------------------------------------------------------ */

bool floem_full(const struct floem_queue *queue) { return queue->count >= queue->size; }

void *floem_reserve(struct floem_queue *queue, size_t size, int channel)
{
    struct floem_entry *entry = calloc(1, sizeof *entry + size);
    entry->channel = channel;
    if (queue->last)
        queue->last->next = entry;
    else
        queue->first = entry;
    queue->last = entry;
    if (!queue->take)
        queue->take = entry;
    queue->count++;
    return entry->bytes;
}

void *floem_get(struct floem_queue *queue)
{
    struct floem_entry *entry = queue->take;
    if (!entry || entry->state == FLOEM_RESERVED)
        return NULL;
    entry->state = FLOEM_TAKEN;
    queue->take = entry->next;
    return entry->bytes;
}

/* Takes the oldest entry out, if it was given back. Its bytes stay. */
struct floem_entry *floem_clean(struct floem_queue *queue)
{
    struct floem_entry *entry = queue->first;
    if (!entry || entry->state != FLOEM_RELEASED)
        return NULL;
    queue->first = entry->next;
    if (!queue->first)
        queue->last = NULL;
    queue->count--;
    return entry;
}

/* -- caches ------------------------------------------------------------------------------------ */

void *floem_copy(const void *bytes, size_t size)
{
    return bytes ? memcpy(malloc(size + 1), bytes, size) : NULL;
}

static struct floem_kept **row(struct floem_cache *cache, const void *key, size_t length)
{
    uint32_t hash = 2166136261u;
    for (size_t at = 0; at < length; at++)
        hash = (hash ^ ((const unsigned char *)key)[at]) * 16777619u;
    return &cache->row[hash & ((1 << 15) - 1)];
}

struct floem_kept *floem_find(struct floem_cache *cache, const void *key, size_t length)
{
    struct floem_kept *kept = *row(cache, key, length);
    while (kept && (kept->length != length || memcmp(kept->key, key, length) != 0))
        kept = kept->next;
    return kept;
}

struct floem_kept *floem_keep(struct floem_cache *cache, const void *key, size_t length)
{
    struct floem_kept *kept = floem_find(cache, key, length);
    if (kept || cache->count == 1 << 15)
        return kept;
    struct floem_kept **first = row(cache, key, length);
    kept = calloc(1, sizeof *kept);
    kept->key = floem_copy(key, length);
    kept->length = length;
    kept->next = *first;
    *first = kept;
    cache->count++;
    return kept;
}

void floem_forget(struct floem_cache *cache, const void *key, size_t length)
{
    struct floem_kept **at = row(cache, key, length);
    while (*at && ((*at)->length != length || memcmp((*at)->key, key, length) != 0))
        at = &(*at)->next;
    if (*at) {
        *at = (*at)->next;
        cache->count--;
    }
}
