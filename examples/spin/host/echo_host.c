// The host's half of icmp_echo.c and udp_echo.c built with -DDO_HOST=true: packets come here, are
// turned around, and go back to the NIC.
//
//   nicforge spin run --device nic.sock --tap spin0 --address 10.9.0.1/24 &
//   NICFORGE_PSPIN=nic.sock ./echo_host build/icmp_echo icmp 100
#include "fpspin/fpspin.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static uint16_t checksum(const uint8_t *data, size_t length)
{
    uint32_t sum = 0;

    for (size_t at = 0; at < length; at++)
        sum += at % 2 ? data[at] : (uint32_t)data[at] << 8;
    while (sum >> 16)
        sum = (sum & 0xffff) + (sum >> 16);
    return htons((uint16_t)~sum);
}

// ICMP needs its answer's type and checksum; UDP's addresses were turned around by the handler
// already.
static void answer_icmp(uint8_t *frame, size_t size)
{
    eth_hdr_t *eth = (eth_hdr_t *)frame;
    ip_hdr_t *ip = (ip_hdr_t *)(frame + sizeof *eth);
    uint8_t *icmp = (uint8_t *)(ip + 1);
    size_t length = ntohs(ip->length);
    mac_addr_t mac = eth->dest;
    uint32_t address = ip->dest_id;

    if (length < sizeof *ip + 8 || length > size - sizeof *eth)
        return;
    eth->dest = eth->src;
    eth->src = mac;
    ip->dest_id = ip->source_id;
    ip->source_id = address;
    icmp[0] = 0;
    icmp[2] = icmp[3] = 0;
    uint16_t sum = checksum(icmp, length - sizeof *ip);
    memcpy(icmp + 2, &sum, sizeof sum);
}

int main(int argc, char **argv)
{
    struct fpspin_rule echo_request = {.idx = 8, .mask = 0xff00, .start = 0x0800, .end = 0x0800};
    fpspin_ruleset_t rules = {
        .mode = FPSPIN_MODE_AND,
        .r = {FPSPIN_RULE_IP, FPSPIN_RULE_IP_PROTO(1), echo_request, FPSPIN_RULE_FALSE},
    };
    fpspin_ctx_t ctx = {0};

    if (argc < 3) {
        fprintf(stderr, "usage: %s IMAGE icmp|udp [PACKETS]\n", argv[0]);
        return 2;
    }
    bool icmp = strcmp(argv[2], "icmp") == 0;
    long most = argc > 3 ? atol(argv[3]) : -1, seen = 0;
    if (!icmp)
        fpspin_ruleset_udp(&rules);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    if (!fpspin_init(&ctx, "/dev/pspin0", argv[1], 0, &rules, 1, FPSPIN_HOSTDMA_PAGES_DEFAULT)) {
        fpspin_exit(&ctx);
        return 1;
    }
    for (int id = 0; id < 3; id++)
        fpspin_clear_counter(&ctx, id);
    printf("ready\n");
    fflush(stdout);
    while (!stop && seen != most) {
        for (int hpu = 0; hpu < NUM_HPUS; hpu++) {
            fpspin_flag_t flag;
            uint8_t *frame = (uint8_t *)(uintptr_t)fpspin_pop_req(&ctx, hpu, &flag);
            if (!frame)
                continue;
            if (icmp && flag.len <= PAGE_SIZE - DMA_ALIGN)
                answer_icmp(frame, flag.len);
            fpspin_push_resp(&ctx, hpu, (fpspin_flag_t){.len = flag.len});
            seen++;
        }
    }
    printf("%ld packets; handler %.1f cycles, host %.1f, clock %.1f\n", seen,
           fpspin_get_cycles(&ctx, 0), fpspin_get_cycles(&ctx, 1), fpspin_get_cycles(&ctx, 2));
    fpspin_exit(&ctx);
    return 0;
}
