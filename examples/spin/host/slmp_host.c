// Receives files that slmp_receive.c's handlers put into host memory, and writes them as
// PREFIX-0.out, PREFIX-1.out and so on.
//
//   nicforge spin run --device nic.sock --tap spin0 --address 10.9.0.1/24 &
//   NICFORGE_PSPIN=nic.sock ./slmp_host build/slmp_receive received 1 4194304
//
// A message whose last acknowledgement was lost comes to its end twice; the second time it is not
// written again.
#include "fpspin/fpspin.h"

#include <signal.h>
#include <string.h>

static volatile sig_atomic_t stop;

static void on_signal(int number)
{
    (void)number;
    stop = 1;
}

static bool save(const char *prefix, long number, const uint8_t *data, size_t size)
{
    char path[4096];

    snprintf(path, sizeof path, "%s-%ld.out", prefix, number);
    FILE *file = fopen(path, "wb");
    bool fine = file && fwrite(data, 1, size, file) == size;
    if (file && fclose(file) != 0)
        fine = false;
    if (fine)
        printf("%s: %zu bytes\n", path, size);
    else
        perror(path);
    fflush(stdout);
    return fine;
}

int main(int argc, char **argv)
{
    fpspin_ruleset_t rules;
    fpspin_ctx_t ctx = {0};

    if (argc < 3) {
        fprintf(stderr, "usage: %s IMAGE PREFIX [FILES [LARGEST]]\n", argv[0]);
        return 2;
    }
    long most = argc > 3 ? atol(argv[3]) : -1, written = 0;
    size_t largest = argc > 4 ? strtoul(argv[4], NULL, 10) : 1 << 20;
    // Messages with even and odd numbers have a half each.
    size_t half = (largest + PAGE_SIZE - 1) / PAGE_SIZE * PAGE_SIZE;
    int pages = NUM_HPUS + 2 * (int)(half / PAGE_SIZE);
    uint64_t last = 0;
    bool any = false, fine = true;

    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    fpspin_ruleset_slmp(&rules);
    if (!fpspin_init(&ctx, "/dev/pspin0", argv[1], 0, &rules, 1, pages)) {
        fpspin_exit(&ctx);
        return 1;
    }
    printf("ready\n");
    fflush(stdout);
    while (!stop && fine && written != most) {
        for (int hpu = 0; hpu < NUM_HPUS; hpu++) {
            fpspin_flag_t flag;
            const uint8_t *page = (const uint8_t *)(uintptr_t)fpspin_pop_req(&ctx, hpu, &flag);
            if (!page)
                continue;
            // The handler left the packet's SLMP header in the page.
            slmp_hdr_t header;
            memcpy(&header, page, sizeof header);
            uint64_t message = (uint64_t)header.msg_id << 32 | flag.len;
            if (!any || message != last) {
                uint8_t *data = (uint8_t *)ctx.cpu_addr + NUM_HPUS * PAGE_SIZE +
                                (ntohl(header.msg_id) & 1) * half;
                if (flag.len <= largest) {
                    fine = save(argv[2], written++, data, flag.len);
                    // What the next file lacks is to be seen.
                    memset(data, 0, flag.len);
                }
                any = true;
                last = message;
            }
            fpspin_push_resp(&ctx, hpu, (fpspin_flag_t){.len = 0});
        }
    }
    fpspin_exit(&ctx);
    return fine ? 0 : 1;
}
