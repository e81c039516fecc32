// Makes messages, or replays a trace, for up to two execution contexts, as PsPIN's generic driver
// does: same command line, same traffic.
#include "gdriver.h"

#include <assert.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#include "packets.h"
#include "pspinsim.h"

#define CONTEXTS 2
#ifdef NF_FPSPIN
#define HANDLER_MEM 0x1C0C0000
#define HANDLER_MEM_EACH 0x20000
#else
#define HANDLER_MEM 0x1C300000
#define HANDLER_MEM_EACH 0x80000
#endif
#define HOST_MEM 0xdeadbeefdeadbeefULL
#define HOST_MEM_EACH 0x20000000
#define SCRATCHPAD_EACH 409600

static struct {
    int messages, packets, size, packet_delay, message_delay;
    const char *trace;
    bool interactive;
} options = {1, 32, 1024, 20, 40, NULL, false};

static struct {
    spin_ec_t ec;
    fill_packet_fun_t fill;
    char matching[GDRIVER_MATCHING_CTX_MAXSIZE + 1];
} contexts[CONTEXTS];
static int known;
static match_packet_fun_t matches;
static interactive_feedback_fun_t heard;
static uint64_t sent, returned;

static void feedback(uint64_t user_ptr, uint64_t nic_arrival, uint64_t pspin_arrival, uint64_t done)
{
    returned++;
    if (heard)
        heard(user_ptr, nic_arrival, pspin_arrival, done);
}

static void written(void *user_ptr) { (void)user_ptr; }

static void usage(FILE *to)
{
    fprintf(to, "  -m, --num-messages=INT   messages per context [1]\n"
                "  -p, --num-packets=INT    packets per message [32]\n"
                "  -s, --packet-size=INT    bytes per packet [1024]\n"
                "  -d, --packet-delay=INT   cycles after a packet [20]\n"
                "  -l, --message-delay=INT  cycles after a message [40]\n"
                "  -t, --trace-file=PATH    replay a trace\n"
                "  -i, --interactive        packets come from the driver itself\n");
}

static bool number(const char *text, int *value)
{
    char *end;
    long read = strtol(text, &end, 10);

    if (*text == 0 || *end != 0 || read < 0 || read > 1 << 30)
        return false;
    *value = (int)read;
    return true;
}

int gdriver_init(int argc, char **argv, match_packet_fun_t matching_cb, int *ectx_num)
{
    static const struct option names[] = {{"num-messages", required_argument, NULL, 'm'},
                                          {"num-packets", required_argument, NULL, 'p'},
                                          {"packet-size", required_argument, NULL, 's'},
                                          {"packet-delay", required_argument, NULL, 'd'},
                                          {"message-delay", required_argument, NULL, 'l'},
                                          {"trace-file", required_argument, NULL, 't'},
                                          {"interactive", no_argument, NULL, 'i'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'V'},
                                          {NULL, 0, NULL, 0}};
    bool fine = true;
    int letter;

    *ectx_num = -1;
    while (fine && (letter = getopt_long(argc, argv, "m:p:s:d:l:t:ihV", names, NULL)) != -1) {
        switch (letter) {
        case 'm':
            fine = number(optarg, &options.messages);
            break;
        case 'p':
            fine = number(optarg, &options.packets);
            break;
        case 's':
            fine = number(optarg, &options.size);
            break;
        case 'd':
            fine = number(optarg, &options.packet_delay);
            break;
        case 'l':
            fine = number(optarg, &options.message_delay);
            break;
        case 't':
            options.trace = optarg;
            break;
        case 'i':
            options.interactive = true;
            break;
        case 'h':
        case 'V':
            printf("%s: a driver on Nicforge's sPIN NIC\n", argv[0]);
            usage(stdout);
            exit(EXIT_SUCCESS);
        default:
            fine = false;
        }
    }
    pspin_conf_t conf;
    pspinsim_default_conf(&conf);
    conf.slm_files_path = "build/slm_files/";
    if (!fine || (size_t)options.size < sizeof(pkt_hdr_t)) {
        usage(stderr);
        return GDRIVER_ERR;
    }
    if (pspinsim_init(argc, argv, &conf) != SPIN_SUCCESS)
        return GDRIVER_ERR;
    pspinsim_cb_set_pcie_mst_write_completion(written);
    pspinsim_cb_set_pkt_feedback(feedback);
    matches = matching_cb;
    *ectx_num = CONTEXTS;
    return GDRIVER_OK;
}

spin_ec_t *gdriver_get_ectx_mems(void)
{
    assert(known < CONTEXTS);
    spin_ec_t *ec = &contexts[known].ec;

    ec->handler_mem_addr = HANDLER_MEM + (uint32_t)known * HANDLER_MEM_EACH;
    ec->handler_mem_size = HANDLER_MEM_EACH;
    ec->host_mem_addr = HOST_MEM + (uint64_t)known * HOST_MEM_EACH;
    ec->host_mem_size = HOST_MEM_EACH;
    for (int i = 0; i < NUM_CLUSTERS; i++) {
        ec->scratchpad_addr[i] = (uint32_t)known * SCRATCHPAD_EACH;
        ec->scratchpad_size[i] = SCRATCHPAD_EACH;
    }
    return ec;
}

int gdriver_add_ectx(const char *hfile, const char *hh, const char *ph, const char *th,
                     fill_packet_fun_t fill_cb, void *l2_img, size_t l2_img_size,
                     void *matching_ctx, size_t matching_ctx_size)
{
    if (known > 0 && contexts[0].ec.handler_mem_size > HANDLER_MEM_EACH) {
        fprintf(stderr, "gdriver: the first context has all handler memory\n");
        return GDRIVER_ERR;
    }
    if (known == CONTEXTS || matching_ctx_size > GDRIVER_MATCHING_CTX_MAXSIZE ||
        (!hh && !ph && !th))
        return GDRIVER_ERR;
    spin_ec_t *ec = gdriver_get_ectx_mems();
    const char *names[] = {hh, ph, th};
    mem_addr_t addresses[3] = {0};
    size_t sizes[3] = {0};

    for (int i = 0; i < 3; i++)
        if (names[i] &&
            spin_find_handler_by_name(hfile, names[i], &addresses[i], &sizes[i]) != SPIN_SUCCESS)
            return GDRIVER_ERR;
    ec->hh_addr = addresses[0];
    ec->hh_size = (mem_size_t)sizes[0];
    ec->ph_addr = addresses[1];
    ec->ph_size = (mem_size_t)sizes[1];
    ec->th_addr = addresses[2];
    ec->th_size = (mem_size_t)sizes[2];
    if (l2_img) {
        // A table that needs the memory of all contexts leaves none for others.
        if (l2_img_size > HANDLER_MEM_EACH && known == 0)
            ec->handler_mem_size = CONTEXTS * HANDLER_MEM_EACH;
        if (l2_img_size > ec->handler_mem_size) {
            fprintf(stderr, "gdriver: %zu bytes for handlers, and there is room for %zu\n",
                    l2_img_size, (size_t)ec->handler_mem_size);
            return GDRIVER_ERR;
        }
        spin_nicmem_write(ec->handler_mem_addr, l2_img, l2_img_size, NULL);
    }
    if (matching_ctx)
        snprintf(contexts[known].matching, sizeof contexts[known].matching, "%s",
                 (const char *)matching_ctx);
    contexts[known].fill = fill_cb;
    known++;
    return GDRIVER_OK;
}

// What a packet holds if the program says nothing: the length of its IP header, and its own.
static uint32_t fill_plainly(uint8_t *packet, uint32_t size)
{
    pkt_hdr_t *header = (pkt_hdr_t *)packet;

    header->ip_hdr.ihl = 5;
    header->ip_hdr.length = (uint16_t)size;
    return size;
}

// Numbers of messages and packets advance with both the loop and a counter of their own, as the
// original's do.
static void make_messages(void)
{
    uint32_t message_base = 0, packet_base = 0;
    uint32_t most = (uint32_t)options.size;
    uint8_t *packet = calloc(most, 1);

    assert(packet);
    for (int at = 0; at < known; at++) {
        for (uint32_t message = 0; message < (uint32_t)options.messages; message++) {
            uint32_t id = message_base + message;
            for (uint32_t turn = 0; turn < (uint32_t)options.packets; turn++) {
                bool last = turn + 1 == (uint32_t)options.packets;
                uint32_t index = packet_base + turn, l1 = most;
                uint32_t size = contexts[at].fill ? contexts[at].fill(id, index, packet, most, &l1)
                                                  : fill_plainly(packet, most);
                uint32_t wait = (uint32_t)(last ? options.message_delay : options.packet_delay);
                pspinsim_packet_add(&contexts[at].ec, id, packet, size, size, last, wait, 0);
                packet_base++;
                sent++;
            }
            message_base++;
        }
    }
    free(packet);
}

// A packet is given on when the line behind it is known, which may be a wait.
static void pass_on(int at, uint32_t message, uint8_t *packet, uint32_t bytes, bool last,
                    uint32_t wait)
{
    if (bytes > 0)
        pspinsim_packet_add(&contexts[at].ec, message, packet, bytes, bytes, last, wait, 0);
}

static int replay(void)
{
    FILE *trace = fopen(options.trace, "r");
    char source[256], target[256];
    unsigned sources, lines, most, size, gap, message, last, seen = 0;

    if (!trace) {
        fprintf(stderr, "gdriver: %s cannot be opened\n", options.trace);
        return GDRIVER_ERR;
    }
    if (fscanf(trace, "%u %u %u", &sources, &lines, &most) != 3) {
        fprintf(stderr, "gdriver: %s: the first line is: sources packets largest-packet\n",
                options.trace);
        fclose(trace);
        return GDRIVER_ERR;
    }
    uint8_t *packet = calloc(most > sizeof(pkt_hdr_t) ? most : sizeof(pkt_hdr_t), 1);
    assert(packet);
    struct {
        int at;
        uint32_t message, bytes, wait;
        bool last;
    } held = {0};
    while (fscanf(trace, "%255s %255s %u %u %u %u", source, target, &size, &gap, &message, &last) ==
           6) {
        seen++;
        if (size == 0) {
            held.wait += gap;
            continue;
        }
        pass_on(held.at, held.message, packet, held.bytes, held.last, held.wait);
        int at = 0;
        while (at < known && matches && !matches(source, contexts[at].matching))
            at++;
        assert(at < known && size <= most);
        uint32_t l1 = size;
        held.bytes = contexts[at].fill ? contexts[at].fill(message, 0, packet, 0, &l1)
                                       : fill_plainly(packet, size);
        held.at = at;
        held.message = message;
        held.last = last != 0;
        held.wait = gap;
    }
    pass_on(held.at, held.message, packet, held.bytes, held.last, held.wait);
    fclose(trace);
    free(packet);
    assert(seen == lines);
    return GDRIVER_OK;
}

int gdriver_run(void)
{
    if (!options.interactive) {
        if (options.trace && replay() != GDRIVER_OK)
            return GDRIVER_ERR;
        if (!options.trace)
            make_messages();
        pspinsim_packet_eos();
    }
    return pspinsim_run() == SPIN_SUCCESS ? GDRIVER_OK : GDRIVER_ERR;
}

int gdriver_fini(void)
{
    pspinsim_fini();
    return returned == sent ? GDRIVER_OK : GDRIVER_ERR;
}

bool gdriver_is_interactive(void) { return options.interactive; }

void gdriver_set_interactive_cb(interactive_feedback_fun_t cb) { heard = cb; }
