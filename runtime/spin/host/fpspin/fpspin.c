// FPsPIN's host library over a socket to a sPIN NIC in software; see device.h.
#include "fpspin.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "device.h"

// The connection that calls without a context use: the last one opened.
static int device = -1;
static const char *regs_base = "";

__attribute__((noreturn)) static void give_up(const char *what, const char *why)
{
    fprintf(stderr, "fpspin: %s: %s\n", what, why);
    exit(1);
}

static bool put(int fd, const void *data, size_t size)
{
    for (const char *at = data; size > 0;) {
        ssize_t sent = send(fd, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return false;
        at += sent;
        size -= (size_t)sent;
    }
    return true;
}

// Reads, and takes a file descriptor that comes along if `passed` is given.
static bool get(int fd, void *data, size_t size, int *passed)
{
    for (char *at = data; size > 0;) {
        union {
            struct cmsghdr header;
            char room[CMSG_SPACE(sizeof(int))];
        } control;
        struct iovec part = {.iov_base = at, .iov_len = size};
        struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
        if (passed) {
            message.msg_control = &control;
            message.msg_controllen = sizeof control;
        }
        ssize_t got = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return false;
        struct cmsghdr *with = passed ? CMSG_FIRSTHDR(&message) : NULL;
        if (with && with->cmsg_level == SOL_SOCKET && with->cmsg_type == SCM_RIGHTS)
            memcpy(passed, CMSG_DATA(with), sizeof *passed);
        at += got;
        size -= (size_t)got;
    }
    return true;
}

// A request and its answer. Up to `room` bytes of answer go to `answer`. Gives the answer's value;
// what fails is told and is errno.
static bool call(int fd, struct nf_spin_request request, const void *data, void *answer,
                 size_t room, uint64_t *value, int *passed)
{
    struct nf_spin_answer head;
    char message[256];

    if (!put(fd, &request, sizeof request) || !put(fd, data, request.size) ||
        !get(fd, &head, sizeof head, passed)) {
        fprintf(stderr, "fpspin: the NIC does not answer; is `nicforge spin run` still there?\n");
        errno = EPIPE;
        return false;
    }
    if (head.status) {
        size_t size = head.size < sizeof message - 1 ? head.size : sizeof message - 1;
        if (get(fd, message, size, NULL))
            fprintf(stderr, "fpspin: %.*s\n", (int)size, message);
        errno = (int)head.status;
        return false;
    }
    if (value)
        *value = head.value;
    return head.size <= room && get(fd, answer, head.size, NULL);
}

static int connect_to(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    if (strlen(path) >= sizeof address.sun_path)
        give_up(path, "the path is too long for a socket");
    strcpy(address.sun_path, path);
    if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof address) < 0) {
        fprintf(
            stderr,
            "fpspin: %s: %s; start a NIC with `nicforge spin run --device PATH`, and name it with "
            "NICFORGE_PSPIN=PATH\n",
            path, strerror(errno));
        exit(1);
    }
    return fd;
}

bool fpspin_init(fpspin_ctx_t *ctx, const char *dev, const char *img, int dest_ctx,
                 const fpspin_ruleset_t *rs, int num_rs, int hostdma_pages)
{
    const char *path = getenv("NICFORGE_PSPIN");
    size_t length = (size_t)hostdma_pages * PAGE_SIZE;
    uint64_t address = 0;
    int memory = -1;
    void *app_data = ctx->app_data;

    memset(ctx, 0, sizeof *ctx);
    ctx->app_data = app_data;
    ctx->ctx_id = dest_ctx;
    ctx->mmap_len = length;
    ctx->cpu_addr = NULL;
    ctx->fd = device = connect_to(path ? path : dev);

    struct nf_spin_request open = {
        .op = NF_SPIN_OPEN, .context = (uint32_t)dest_ctx, .argument = length};
    if (!call(ctx->fd, open, NULL, NULL, 0, &address, length ? &memory : NULL))
        return false;
    if (length) {
        ctx->cpu_addr = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
        close(memory);
        if (ctx->cpu_addr == MAP_FAILED) {
            ctx->cpu_addr = NULL;
            fprintf(stderr, "fpspin: the memory shared with the NIC cannot be mapped: %s\n",
                    strerror(errno));
            return false;
        }
    }
    fpspin_load(ctx, img, address, (uint32_t)length);
    if (num_rs > NUM_RULESETS)
        give_up("fpspin_init", "there are 4 rulesets");
    for (int i = 0; i < num_rs; i++)
        fpspin_set_me_ruleset(dest_ctx + i, &rs[i]);
    for (int i = 0; ctx->cpu_addr && i < NUM_HPUS && (size_t)(i + 1) * PAGE_SIZE <= length; i++)
        ctx->dma_idx[i] = *((volatile uint8_t *)ctx->cpu_addr + i * PAGE_SIZE);
    return true;
}

void fpspin_exit(fpspin_ctx_t *ctx)
{
    if (ctx->fd > 0) {
        fpspin_unload(ctx);
        close(ctx->fd);
    }
    if (ctx->cpu_addr)
        munmap(ctx->cpu_addr, ctx->mmap_len);
    ctx->fd = -1;
    ctx->cpu_addr = NULL;
}

void fpspin_load(fpspin_ctx_t *ctx, const char *elf, uint64_t hostmem_ptr, uint32_t hostmem_size)
{
    struct nf_spin_loaded loaded;
    struct stat about;
    int fd = open(elf, O_RDONLY | O_CLOEXEC);

    // The NIC knows the memory that it gave out itself.
    (void)hostmem_ptr;
    (void)hostmem_size;
    if (fd < 0 || fstat(fd, &about) < 0)
        give_up(elf, strerror(errno));
    char *image = malloc((size_t)about.st_size + 1);
    if (!image || read(fd, image, (size_t)about.st_size) != about.st_size)
        give_up(elf, "cannot be read");
    close(fd);
    struct nf_spin_request request = {
        .op = NF_SPIN_LOAD, .context = (uint32_t)ctx->ctx_id, .size = (uint64_t)about.st_size};
    if (!call(ctx->fd, request, image, &loaded, sizeof loaded, NULL, NULL))
        give_up(elf, "the NIC does not take the image");
    free(image);
    struct mem_area *handlers[] = {&ctx->hh, &ctx->ph, &ctx->th};
    for (int i = 0; i < 3; i++)
        *handlers[i] = (struct mem_area){loaded.handlers[i], loaded.handlers[i] ? 4096 : 0};
    ctx->handler_mem = (struct mem_area){loaded.handler_mem, loaded.handler_mem_size};
    ctx->host_data_ptr = loaded.host_data;
}

void fpspin_unload(fpspin_ctx_t *ctx)
{
    struct nf_spin_request request = {.op = NF_SPIN_UNLOAD, .context = (uint32_t)ctx->ctx_id};
    call(ctx->fd, request, NULL, NULL, 0, NULL, NULL);
}

static void set_rules(int context, const fpspin_ruleset_t *rs)
{
    struct nf_spin_request request = {
        .op = NF_SPIN_RULES, .context = (uint32_t)context, .size = rs ? sizeof *rs : 0};
    if (!call(device, request, rs, NULL, 0, NULL, NULL))
        give_up("rules", "the NIC does not take them");
}

void fpspin_prog_me(const fpspin_ruleset_t *rs, int num_rs)
{
    if (num_rs > NUM_RULESETS)
        give_up("fpspin_prog_me", "there are 4 rulesets");
    for (int i = 0; i < NUM_RULESETS; i++)
        set_rules(i, i < num_rs ? &rs[i] : NULL);
}

void fpspin_set_me_ruleset(int ctx_id, const fpspin_ruleset_t *rs) { set_rules(ctx_id, rs); }

static void all_rules(fpspin_ruleset_t *rs, struct fpspin_rule rule)
{
    for (int i = 0; i < NUM_RULES_PER_RULESET; i++)
        rs->r[i] = rule;
    rs->mode = FPSPIN_MODE_AND;
}

void fpspin_ruleset_bypass(fpspin_ruleset_t *rs) { all_rules(rs, FPSPIN_RULE_FALSE); }

void fpspin_ruleset_match(fpspin_ruleset_t *rs) { all_rules(rs, FPSPIN_RULE_EMPTY); }

void fpspin_ruleset_udp(fpspin_ruleset_t *rs)
{
    *rs = (fpspin_ruleset_t){
        .mode = FPSPIN_MODE_AND,
        .r = {FPSPIN_RULE_IP, FPSPIN_RULE_IP_PROTO(17), FPSPIN_RULE_EMPTY, FPSPIN_RULE_FALSE}};
}

void fpspin_ruleset_slmp(fpspin_ruleset_t *rs)
{
    struct fpspin_rule last = {.idx = 10, .mask = MKEOM, .start = MKEOM, .end = MKEOM};
    *rs = (fpspin_ruleset_t){
        .mode = FPSPIN_MODE_AND,
        .r = {FPSPIN_RULE_IP, FPSPIN_RULE_IP_PROTO(17), FPSPIN_RULE_UDP_DPORT(SLMP_PORT), last}};
}

volatile void *fpspin_pop_req(fpspin_ctx_t *ctx, int hpu_id, fpspin_flag_t *f)
{
    volatile uint8_t *page = (volatile uint8_t *)ctx->cpu_addr + hpu_id * PAGE_SIZE;

    f->data = __atomic_load_n((volatile uint64_t *)page, __ATOMIC_ACQUIRE);
    if (f->dma_id == ctx->dma_idx[hpu_id])
        return NULL;
    if (f->hpu_id != hpu_id)
        printf("fpspin: unit %d wrote to the page of unit %d\n", f->hpu_id, hpu_id);
    ctx->dma_idx[hpu_id] = f->dma_id;
    return page + DMA_ALIGN;
}

static void write_nic(int fd, uint64_t address, const void *data, size_t size)
{
    struct nf_spin_request request = {.op = NF_SPIN_WRITE, .argument = address, .size = size};
    if (!call(fd, request, data, NULL, 0, NULL, NULL))
        give_up("write to the NIC's memory", strerror(errno));
}

void fpspin_push_resp(fpspin_ctx_t *ctx, int hpu_id, fpspin_flag_t flag)
{
    flag.dma_id = ctx->dma_idx[hpu_id];
    flag.hpu_id = (uint16_t)hpu_id;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    write_nic(ctx->fd, ctx->host_data_ptr + (size_t)hpu_id * 8, &flag.data, 8);
}

static uint64_t counter_address(fpspin_ctx_t *ctx, int id)
{
    return ctx->host_data_ptr + NUM_HPUS * 8 + (size_t)id * sizeof(fpspin_counter_t);
}

void fpspin_clear_counter(fpspin_ctx_t *ctx, int id)
{
    fpspin_counter_t zero = {0};
    write_nic(ctx->fd, counter_address(ctx, id), &zero, sizeof zero);
}

fpspin_counter_t fpspin_get_counter(fpspin_ctx_t *ctx, int id)
{
    fpspin_counter_t counter;
    struct nf_spin_request request = {.op = NF_SPIN_READ,
                                      .argument = counter_address(ctx, id) << 32 | sizeof counter};
    if (!call(ctx->fd, request, NULL, &counter, sizeof counter, NULL, NULL))
        give_up("read of a counter", strerror(errno));
    return counter;
}

double fpspin_get_cycles(fpspin_ctx_t *ctx, int id)
{
    fpspin_counter_t counter = fpspin_get_counter(ctx, id);
    return counter.count ? (double)counter.sum / counter.count : NAN;
}

uint32_t fpspin_get_avg_cycles(fpspin_ctx_t *ctx)
{
    fpspin_counter_t counter = fpspin_get_counter(ctx, 0);
    return counter.count ? counter.sum / counter.count : 0;
}

void fpspin_write_memory(fpspin_ctx_t *ctx, fpspin_addr_t pspin_addr, void *host_addr, size_t len)
{
    write_nic(ctx->fd, pspin_addr, host_addr, len);
}

void fpspin_set_regs_base(const char *base) { regs_base = base; }

const char *fpspin_get_regs_base(void) { return regs_base; }

void hexdump(const volatile void *data, size_t size)
{
    const volatile uint8_t *bytes = data;

    for (size_t line = 0; line < size; line += 16) {
        printf("%06zx ", line);
        for (size_t at = line; at < line + 16; at++)
            at < size ? printf(" %02x", bytes[at]) : printf("   ");
        printf("  ");
        for (size_t at = line; at < line + 16 && at < size; at++)
            putchar(bytes[at] >= 0x20 && bytes[at] < 0x7f ? bytes[at] : '.');
        putchar('\n');
    }
}
