// Sends MPI datatypes to datatypes.c's handlers, which unpack them, and compares what arrives with
// MPI_Unpack byte by byte.
//
//   nicforge spin run --device nic.sock --tap spin0 --address 10.9.0.1/24 &
//   NICFORGE_PSPIN=nic.sock ./mpi_types build/datatypes 10.9.0.2 [MESSAGES [WINDOW [TYPE]]]
//
// While the NIC unpacks, the host multiplies matrices and looks for finished messages in between:
// the overlap is the share of its time that it has for its own work, T_MM / (T_MM + T_Poll).
//
// Each type is committed, taken apart with MPI_Type_get_contents into a map for the handlers
// (typemap.h), packed by MPI_Pack and sent as MESSAGES messages in parallel.
#include "fpspin/fpspin.h"

#include <mpi.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "../typemap.h"

#define MOST_MESSAGES 16
#define BUFFER_BYTES (8u << 20)
#define MAP_BYTES 65536
// Of the matrices, and rows between two looks for messages.
#define ORDER 128
#define ROWS 16

// A map under construction.
static struct {
    uint8_t bytes[MAP_BYTES];
    uint32_t used;
} map;

static uint32_t map_take(uint32_t bytes)
{
    uint32_t at = map.used;

    if (bytes > MAP_BYTES - at) {
        fprintf(stderr, "the datatype needs a map of more than %d bytes\n", MAP_BYTES);
        exit(1);
    }
    map.used += bytes;
    return at;
}

static struct typemap_node *node_at(uint32_t at) { return (struct typemap_node *)(map.bytes + at); }

static uint32_t map_run(uint32_t size)
{
    uint32_t at = map_take(sizeof(struct typemap_node));
    *node_at(at) = (struct typemap_node){.kind = TYPEMAP_RUN, .size = size};
    return at;
}

// Runs that follow each other are one.
static uint32_t map_loop(uint32_t count, int64_t stride, uint32_t child)
{
    struct typemap_node inner = *node_at(child);

    if (count == 1)
        return child;
    if (inner.kind == TYPEMAP_RUN && stride == inner.size)
        return map_run(count * inner.size);
    uint32_t at = map_take(sizeof(struct typemap_node));
    *node_at(at) = (struct typemap_node){.kind = TYPEMAP_LOOP,
                                         .size = count * inner.size,
                                         .count = count,
                                         .stride = (int32_t)stride,
                                         .child = child};
    return at;
}

// What is empty is left out: it has no place in packed data.
static uint32_t map_list(uint32_t count, const int64_t *displacements, const uint32_t *children)
{
    uint32_t at = map_take(sizeof(struct typemap_node));
    uint32_t entries = map_take(count * (uint32_t)sizeof(struct typemap_entry)), start = 0,
             filled = 0;

    for (uint32_t i = 0; i < count; i++) {
        uint32_t size = node_at(children[i])->size;
        if (size == 0)
            continue;
        ((struct typemap_entry *)(map.bytes + entries))[filled++] =
            (struct typemap_entry){start, (int32_t)displacements[i], children[i]};
        start += size;
    }
    *node_at(at) = (struct typemap_node){
        .kind = TYPEMAP_LIST, .size = start, .count = filled, .child = entries};
    if (filled == 0)
        *node_at(at) = (struct typemap_node){.kind = TYPEMAP_RUN};
    return at;
}

static int64_t extent_of(MPI_Datatype type)
{
    MPI_Aint low, extent;
    MPI_Type_get_extent(type, &low, &extent);
    return extent;
}

// The nodes of a type, from what it was made of.
static uint32_t map_type(MPI_Datatype type)
{
    int integers, addresses, types, combiner;

    MPI_Type_get_envelope(type, &integers, &addresses, &types, &combiner);
    if (combiner == MPI_COMBINER_NAMED) {
        int size;
        MPI_Type_size(type, &size);
        return map_run((uint32_t)size);
    }
    int *numbers = calloc((size_t)integers + 1, sizeof *numbers);
    MPI_Aint *places = calloc((size_t)addresses + 1, sizeof *places);
    MPI_Datatype *inner = calloc((size_t)types + 1, sizeof *inner);
    if (!numbers || !places || !inner)
        exit(1);
    MPI_Type_get_contents(type, integers, addresses, types, numbers, places, inner);
    uint32_t made = 0;
    int64_t extent = extent_of(inner[0]);
    switch (combiner) {
    case MPI_COMBINER_DUP:
    case MPI_COMBINER_RESIZED:
        made = map_type(inner[0]);
        break;
    case MPI_COMBINER_CONTIGUOUS:
        made = map_loop((uint32_t)numbers[0], extent, map_type(inner[0]));
        break;
    case MPI_COMBINER_VECTOR:
        made = map_loop((uint32_t)numbers[1], extent, map_type(inner[0]));
        made = map_loop((uint32_t)numbers[0], numbers[2] * extent, made);
        break;
    case MPI_COMBINER_HVECTOR:
        made = map_loop((uint32_t)numbers[1], extent, map_type(inner[0]));
        made = map_loop((uint32_t)numbers[0], places[0], made);
        break;
    case MPI_COMBINER_INDEXED:
    case MPI_COMBINER_HINDEXED:
    case MPI_COMBINER_STRUCT: {
        int count = numbers[0];
        int64_t *displacements = calloc((size_t)count + 1, sizeof *displacements);
        uint32_t *children = calloc((size_t)count + 1, sizeof *children);
        if (!displacements || !children)
            exit(1);
        for (int i = 0; i < count; i++) {
            MPI_Datatype part = combiner == MPI_COMBINER_STRUCT ? inner[i] : inner[0];
            int length = numbers[1 + i];
            children[i] = length > 0 ? map_loop((uint32_t)length, extent_of(part), map_type(part))
                                     : map_run(0);
            displacements[i] =
                combiner == MPI_COMBINER_INDEXED ? numbers[1 + count + i] * extent : places[i];
        }
        made = map_list((uint32_t)count, displacements, children);
        free(displacements);
        free(children);
        break;
    }
    default:
        fprintf(stderr, "datatypes of combiner %d have no map\n", combiner);
        exit(1);
    }
    free(numbers);
    free(places);
    free(inner);
    return made;
}

struct sending {
    slmp_sock_t *sock;
    in_addr_t server;
    int message, result;
    void *packed;
    size_t size;
};

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

// The host's own work: some rows of a product of matrices.
static double left_matrix[ORDER][ORDER], right_matrix[ORDER][ORDER], product[ORDER][ORDER];

static void multiply(void)
{
    static int row;

    for (int turn = 0; turn < ROWS; turn++, row = (row + 1) % ORDER) {
        for (int column = 0; column < ORDER; column++)
            product[row][column] = 0;
        for (int middle = 0; middle < ORDER; middle++)
            for (int column = 0; column < ORDER; column++)
                product[row][column] += left_matrix[row][middle] * right_matrix[middle][column];
    }
}

// Threads that still send.
static int still_sending;

static void *send_message(void *arg)
{
    struct sending *one = arg;
    one->result = slmp_sendmsg(one->sock, one->server, one->message, one->packed, one->size);
    __atomic_sub_fetch(&still_sending, 1, __ATOMIC_RELEASE);
    return NULL;
}

struct test {
    const char *name;
    MPI_Datatype type;
    int count;
};

// The types: one of each kind, and those of the FPsPIN paper.
static int make_tests(struct test *tests)
{
    MPI_Datatype a, b, c;
    int lengths[] = {3, 0, 5, 1, 7}, places[] = {40, 2, 20, 12, 0};
    MPI_Aint offsets[] = {0, 64, 300};
    MPI_Datatype parts[3] = {MPI_DOUBLE};
    int counts[] = {4, 2, 5};
    int made = 0;

    MPI_Type_contiguous(1000, MPI_INT, &a);
    tests[made++] = (struct test){"contiguous", a, 3};
    MPI_Type_vector(100, 3, 7, MPI_SHORT, &a);
    tests[made++] = (struct test){"vector", a, 5};
    MPI_Type_create_hvector(50, 2, 41, MPI_CHAR, &a);
    MPI_Type_create_hvector(3, 1, 3001, a, &b);
    tests[made++] = (struct test){"hvector", b, 4};
    MPI_Type_indexed(5, lengths, places, MPI_FLOAT, &a);
    MPI_Type_vector(4, 2, 3, a, &b);
    tests[made++] = (struct test){"indexed", b, 20};
    MPI_Type_vector(5, 1, 2, MPI_INT, &parts[1]);
    MPI_Type_indexed(5, lengths, places, MPI_CHAR, &parts[2]);
    MPI_Type_create_struct(3, counts, offsets, parts, &a);
    tests[made++] = (struct test){"struct", a, 30};
    MPI_Type_contiguous(27648, MPI_FLOAT, &a);
    tests[made++] = (struct test){"simple", a, 2};
    MPI_Type_contiguous(18, MPI_FLOAT, &a);
    MPI_Type_vector(32, 6, 8, a, &b);
    MPI_Type_create_hvector(2, 1, 6144, b, &a);
    MPI_Type_create_hvector(2, 1, 12288, a, &c);
    MPI_Type_create_hvector(2, 1, 18432, c, &a);
    tests[made++] = (struct test){"complex", a, 2};
    for (int at = 0; at < made; at++)
        MPI_Type_commit(&tests[at].type);
    return made;
}

// Writes the map of a message to the NIC. Gives the bytes of host memory a message takes, from its
// lowest one on.
static size_t offload(fpspin_ctx_t *ctx, const struct test *test, uint32_t first, uint32_t count)
{
    MPI_Aint low, extent, true_low, true_extent;

    MPI_Type_get_extent(test->type, &low, &extent);
    MPI_Type_get_true_extent(test->type, &true_low, &true_extent);
    map.used = sizeof(struct typemap);
    uint32_t root = map_loop((uint32_t)test->count, extent, map_type(test->type));
    if (true_low < 0) {
        fprintf(stderr, "%s begins before its buffer\n", test->name);
        exit(1);
    }
    *(struct typemap *)map.bytes = (struct typemap){
        TYPEMAP_MAGIC, map.used, root, .buffer = BUFFER_BYTES, .first = first, .count = count};
    if (map.used > ctx->handler_mem.size) {
        fprintf(stderr, "the map has %u bytes, the handlers' memory %u\n", map.used,
                ctx->handler_mem.size);
        exit(1);
    }
    fpspin_write_memory(ctx, ctx->handler_mem.addr, map.bytes, (map.used + 3) / 4 * 4);
    return (size_t)(true_low + true_extent + (test->count - 1) * extent);
}

// Sends a type, waits for all messages, compares. True if all bytes are where they belong and no
// other has changed.
static bool run(fpspin_ctx_t *ctx, const struct test *test, in_addr_t server, int messages,
                int window)
{
    // Numbers of messages count up over all types: what is left of one type on the line is no
    // other's.
    static uint32_t first;
    size_t bytes = offload(ctx, test, first, (uint32_t)messages);
    uint8_t *user = (uint8_t *)ctx->cpu_addr + NUM_HPUS * PAGE_SIZE;
    uint8_t *source = malloc(bytes), *expected = calloc(bytes, 1);
    int packed_bytes, at = 0;

    MPI_Pack_size(test->count, test->type, MPI_COMM_SELF, &packed_bytes);
    char *packed = malloc((size_t)packed_bytes);
    if (bytes > BUFFER_BYTES || !source || !expected || !packed) {
        fprintf(stderr, "%s: %zu bytes are too many\n", test->name, bytes);
        exit(1);
    }
    for (size_t i = 0; i < bytes; i++)
        source[i] = (uint8_t)(32 + i % 95);
    MPI_Pack(source, test->count, test->type, packed, packed_bytes, &at, MPI_COMM_SELF);
    int size = at;
    at = 0;
    MPI_Unpack(packed, size, &at, expected, test->count, test->type, MPI_COMM_SELF);

    slmp_sock_t sock;
    struct sending sendings[MOST_MESSAGES];
    pthread_t threads[MOST_MESSAGES];
    bool arrived[MOST_MESSAGES] = {false};
    int left = messages;
    still_sending = messages;
    slmp_socket(&sock, window, 4, 0, 1);
    for (int i = 0; i < messages; i++) {
        memset(user + (size_t)i * BUFFER_BYTES, 0, bytes);
        sendings[i] = (struct sending){&sock, server, (int)htonl(first + (uint32_t)i),
                                       0,     packed, (size_t)size};
        pthread_create(&threads[i], NULL, send_message, &sendings[i]);
    }
    double working = 0, polling = 0, now = seconds();
    // Also until every last packet is acknowledged: a handler whose answer was lost asks again.
    while (left > 0 || __atomic_load_n(&still_sending, __ATOMIC_ACQUIRE) > 0) {
        multiply();
        double worked = seconds();
        working += worked - now;
        for (int hpu = 0; hpu < NUM_HPUS; hpu++) {
            fpspin_flag_t flag;
            const uint8_t *page = (const uint8_t *)(uintptr_t)fpspin_pop_req(ctx, hpu, &flag);
            if (!page)
                continue;
            slmp_hdr_t header;
            memcpy(&header, page, sizeof header);
            uint32_t message = header.msg_id - first;
            if (message < (uint32_t)messages && !arrived[message] && flag.len == (uint32_t)size) {
                arrived[message] = true;
                left--;
            }
            fpspin_push_resp(ctx, hpu, (fpspin_flag_t){.len = 0});
        }
        now = seconds();
        polling += now - worked;
    }
    bool fine = true;
    for (int i = 0; i < messages; i++) {
        pthread_join(threads[i], NULL);
        fine &= sendings[i].result == 0 &&
                memcmp(user + (size_t)i * BUFFER_BYTES, expected, bytes) == 0;
    }
    printf("%s: %d messages of %d bytes packed, %zu unpacked, map of %u bytes, overlap %.3f: %s\n",
           test->name, messages, size, bytes, map.used, working / (working + polling),
           fine ? "equal" : "DIFFERENT");
    fflush(stdout);
    first += (uint32_t)messages;
    free(source);
    free(expected);
    free(packed);
    return fine;
}

int main(int argc, char **argv)
{
    struct test tests[8];
    fpspin_ruleset_t rules;
    fpspin_ctx_t ctx = {0};
    bool fine = true;

    if (argc < 3) {
        fprintf(stderr, "usage: %s IMAGE SERVER [MESSAGES [WINDOW [TYPE]]]\n", argv[0]);
        return 2;
    }
    int messages = argc > 3 ? atoi(argv[3]) : 1, window = argc > 4 ? atoi(argv[4]) : 8;
    if (messages < 1 || messages > MOST_MESSAGES) {
        fprintf(stderr, "1 to %d messages\n", MOST_MESSAGES);
        return 2;
    }
    MPI_Init(&argc, &argv);
    int count = make_tests(tests);
    int pages = NUM_HPUS + messages * (int)(BUFFER_BYTES / PAGE_SIZE);
    fpspin_ruleset_slmp(&rules);
    if (!fpspin_init(&ctx, "/dev/pspin0", argv[1], 0, &rules, 1, pages)) {
        fpspin_exit(&ctx);
        return 1;
    }
    for (int at = 0; at < count; at++) {
        if (argc <= 5 || strcmp(argv[5], tests[at].name) == 0)
            fine &= run(&ctx, &tests[at], inet_addr(argv[2]), messages, window);
        MPI_Type_free(&tests[at].type);
    }
    fpspin_exit(&ctx);
    MPI_Finalize();
    return fine ? 0 : 1;
}
