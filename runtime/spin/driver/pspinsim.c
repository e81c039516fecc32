// PsPIN's simulator interface over a `nicforge spin serve` of this program's own; see wire.h.
#include "pspinsim.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "wire.h"

static int wire = -1;
static pid_t server;
static struct {
    pkt_out_cb_t out;
    pkt_feedback_cb_t feedback;
    pcie_slv_write_cb_t host_write;
    pcie_slv_read_cb_t host_read;
    pcie_mst_write_cb_t written;
    pcie_mst_read_cb_t read;
} callbacks;

// Reads of the NIC's memory that are on their way.
struct pending {
    struct pending *next;
    void *data, *user_ptr;
    size_t size;
};

__attribute__((noreturn)) static void give_up(const char *why)
{
    fprintf(stderr, "pspinsim: %s\n", why);
    exit(1);
}

static void put(const void *data, size_t size)
{
    if (wire < 0)
        give_up("there is no simulator: pspinsim_init did not succeed");
    for (const char *at = data; size > 0;) {
        ssize_t sent = send(wire, at, size, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            give_up("the simulator is gone");
        at += sent;
        size -= (size_t)sent;
    }
}

static void get(void *data, size_t size)
{
    for (char *at = data; size > 0;) {
        ssize_t got = recv(wire, at, size, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            give_up("the simulator is gone");
        at += got;
        size -= (size_t)got;
    }
}

static void request(uint32_t kind, uint64_t value, uint64_t tag, const void *data, size_t size)
{
    struct nf_sim_header header = {kind, (uint32_t)size, value, tag};
    put(&header, sizeof header);
    put(data, size);
}

int pspinsim_default_conf(pspin_conf_t *conf)
{
    *conf = (pspin_conf_t){
        .ni_conf = {32, 32, 32},
        .no_conf = {32, 32, 0, 2048, 32},
        .pcie_slv_conf = {32, 32, 32, 32, 32, 2, 0.014782},
    };
    return SPIN_SUCCESS;
}

static char *read_file(const char *path, size_t *size)
{
    FILE *file = fopen(path, "rb");
    char *data = NULL;

    if (!file)
        return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && ftell(file) >= 0) {
        *size = (size_t)ftell(file);
        rewind(file);
        data = malloc(*size + 1);
        if (data && fread(data, 1, *size, file) != *size) {
            free(data);
            data = NULL;
        }
    }
    fclose(file);
    return data;
}

static void start_server(void)
{
    const char *program = getenv("NICFORGE");
    int ends[2];

    if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) < 0)
        give_up(strerror(errno));
    server = fork();
    if (server < 0)
        give_up(strerror(errno));
    if (server == 0) {
        dup2(ends[1], STDIN_FILENO);
        close(ends[0]);
        close(ends[1]);
        execlp(program ? program : "nicforge", "nicforge", "spin", "serve", (char *)NULL);
        fprintf(stderr,
                "pspinsim: `nicforge` cannot be started: %s; put it on the PATH or name it with "
                "NICFORGE\n",
                strerror(errno));
        _exit(127);
    }
    close(ends[1]);
    wire = ends[0];
}

int pspinsim_init(int argc, char **argv, pspin_conf_t *conf)
{
    pspin_conf_t standard;
    char path[4096];
    const char *root = getenv("PSPIN_HW");
    size_t size = 0;

    (void)argc;
    (void)argv;
    if (!conf) {
        pspinsim_default_conf(&standard);
        conf = &standard;
    }
    if (conf->slm_files_path)
        snprintf(path, sizeof path, "%s/image.elf", conf->slm_files_path);
    else if (root)
        snprintf(path, sizeof path, "%s/sim_files/slm_files/image.elf", root);
    else
        return SPIN_ERR;
    char *image = read_file(path, &size);
    if (!image) {
        fprintf(stderr, "pspinsim: %s: %s; `make deploy` puts the image there\n", path,
                strerror(errno));
        return SPIN_ERR;
    }
    start_server();
    struct nf_sim_start start = {NUM_CLUSTERS, conf->pcie_slv_conf.pcie_L, conf->no_conf.network_G,
                                 conf->pcie_slv_conf.pcie_G};
    request(NF_SIM_START, 0, 0, &start, sizeof start);
    request(NF_SIM_IMAGE, 0, 0, image, size);
    free(image);
    return SPIN_SUCCESS;
}

// Hears events until the simulation stands still. Gives the value of NF_SIM_DONE.
static uint64_t listen_to_events(void)
{
    for (;;) {
        struct nf_sim_header header;
        get(&header, sizeof header);
        uint8_t *data = malloc((size_t)header.size + 1);
        if (!data)
            give_up("out of memory");
        get(data, header.size);
        data[header.size] = 0;

        uint8_t *answer = NULL;
        size_t answer_size = 0;
        switch (header.kind) {
        case NF_SIM_OUT:
            if (callbacks.out)
                callbacks.out(data, header.size);
            break;
        case NF_SIM_FEEDBACK: {
            uint64_t times[3];
            memcpy(times, data, sizeof times);
            if (callbacks.feedback)
                callbacks.feedback(header.tag, times[0], times[1], times[2]);
            break;
        }
        case NF_SIM_HOST_WRITE:
            if (callbacks.host_write)
                callbacks.host_write(header.value, data, header.size);
            break;
        case NF_SIM_HOST_READ:
            answer_size = header.tag;
            answer = calloc(answer_size, 1);
            if (!answer)
                give_up("out of memory");
            if (callbacks.host_read)
                callbacks.host_read(header.value, answer, answer_size);
            break;
        case NF_SIM_WRITTEN:
            if (callbacks.written)
                callbacks.written((void *)(uintptr_t)header.tag);
            break;
        case NF_SIM_READ_DONE: {
            struct pending *read = (struct pending *)(uintptr_t)header.tag;
            memcpy(read->data, data, header.size < read->size ? header.size : read->size);
            if (callbacks.read)
                callbacks.read(read->user_ptr);
            free(read);
            break;
        }
        case NF_SIM_TEXT:
            fputs((char *)data, stdout);
            break;
        case NF_SIM_DONE:
            fputs((char *)data, stdout);
            free(data);
            return header.value;
        default:
            give_up((char *)data);
        }
        free(data);
        request(NF_SIM_CONTINUE, 0, 0, answer, answer_size);
        free(answer);
    }
}

static uint64_t wanted(void)
{
    return (callbacks.out ? NF_SIM_WANT_OUT : 0) | (callbacks.feedback ? NF_SIM_WANT_FEEDBACK : 0) |
           (callbacks.host_write ? NF_SIM_WANT_HOST_WRITE : 0) |
           (callbacks.host_read ? NF_SIM_WANT_HOST_READ : 0);
}

int pspinsim_run(void)
{
    request(NF_SIM_RUN, 0, wanted(), NULL, 0);
    listen_to_events();
    return SPIN_SUCCESS;
}

int pspinsim_run_tick(uint8_t *done_flag)
{
    request(NF_SIM_RUN, 1, wanted(), NULL, 0);
    *done_flag = listen_to_events() != 0;
    return SPIN_SUCCESS;
}

int pspinsim_fini(void)
{
    int status;

    request(NF_SIM_STOP, 0, 0, NULL, 0);
    listen_to_events();
    close(wire);
    wire = -1;
    waitpid(server, &status, 0);
    return SPIN_SUCCESS;
}

int pspinsim_packet_add(spin_ec_t *ec, uint32_t msgid, uint8_t *pkt_data, size_t pkt_len,
                        size_t pkt_l1_len, uint8_t eom, uint32_t wait_cycles, uint64_t user_ptr)
{
    struct nf_sim_packet packet = {msgid, (uint32_t)pkt_l1_len, eom, wait_cycles};
    struct nf_sim_context context = {
        .handler_mem = ec->handler_mem_addr,
        .handler_mem_size = ec->handler_mem_size,
        .host_mem = ec->host_mem_addr,
        .host_mem_size = ec->host_mem_size,
        .handlers = {ec->hh_addr, ec->ph_addr, ec->th_addr},
    };
    struct nf_sim_header header = {
        NF_SIM_PACKET, (uint32_t)(sizeof packet + sizeof context + pkt_len), 0, user_ptr};

    for (int i = 0; i < NUM_CLUSTERS; i++) {
        context.scratchpads[i] = ec->scratchpad_addr[i];
        context.scratchpad_sizes[i] = ec->scratchpad_size[i];
    }
    put(&header, sizeof header);
    put(&packet, sizeof packet);
    put(&context, sizeof context);
    put(pkt_data, pkt_len);
    return SPIN_SUCCESS;
}

int pspinsim_packet_eos(void)
{
    request(NF_SIM_END, 0, 0, NULL, 0);
    return SPIN_SUCCESS;
}

void pspinsim_set_fmq_prio(uint32_t fmq_idx, uint8_t prio)
{
    request(NF_SIM_PRIORITY, fmq_idx, prio, NULL, 0);
}

int pspinsim_packet_trace_read(const char *pkt_file_path, const char *data_file_path)
{
    FILE *packets = fopen(pkt_file_path, "r"), *data = fopen(data_file_path, "rb");
    int result = packets && data ? SPIN_SUCCESS : SPIN_ERR;
    uint32_t v[13];

    while (result == SPIN_SUCCESS &&
           fscanf(packets, "%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u,%u", &v[0], &v[1], &v[2], &v[3],
                  &v[4], &v[5], &v[6], &v[7], &v[8], &v[9], &v[10], &v[11], &v[12]) == 13) {
        spin_ec_t ec = {.hh_addr = v[1],
                        .hh_size = v[2],
                        .ph_addr = v[3],
                        .ph_size = v[4],
                        .th_addr = v[5],
                        .th_size = v[6],
                        .handler_mem_addr = v[7],
                        .handler_mem_size = v[8]};
        uint8_t *packet = malloc((size_t)v[9] + 1);
        if (!packet || fread(packet, 1, v[9], data) != v[9])
            result = SPIN_ERR;
        else
            pspinsim_packet_add(&ec, v[0], packet, v[9], v[10], (uint8_t)v[11], v[12], 0);
        free(packet);
    }
    if (packets)
        fclose(packets);
    if (data)
        fclose(data);
    return result;
}

int spin_nicmem_write(spin_nic_addr_t addr, void *data, size_t size, void *user_ptr)
{
    request(NF_SIM_WRITE, addr, (uint64_t)(uintptr_t)user_ptr, data, size);
    return SPIN_SUCCESS;
}

int spin_nicmem_read(spin_nic_addr_t addr, void *data, size_t size, void *user_ptr)
{
    struct pending *read = malloc(sizeof *read);

    if (!read)
        return SPIN_ERR;
    *read = (struct pending){.data = data, .user_ptr = user_ptr, .size = size};
    request(NF_SIM_READ, (uint64_t)addr << 32 | size, (uint64_t)(uintptr_t)read, NULL, 0);
    return SPIN_SUCCESS;
}

int pspinsim_cb_set_pkt_out(pkt_out_cb_t cb)
{
    callbacks.out = cb;
    return SPIN_SUCCESS;
}

int pspinsim_cb_set_pkt_feedback(pkt_feedback_cb_t cb)
{
    callbacks.feedback = cb;
    return SPIN_SUCCESS;
}

int pspinsim_cb_set_pcie_slv_write(pcie_slv_write_cb_t cb)
{
    callbacks.host_write = cb;
    return SPIN_SUCCESS;
}

int pspinsim_cb_set_pcie_slv_read(pcie_slv_read_cb_t cb)
{
    callbacks.host_read = cb;
    return SPIN_SUCCESS;
}

int pspinsim_cb_set_pcie_mst_write_completion(pcie_mst_write_cb_t cb)
{
    callbacks.written = cb;
    return SPIN_SUCCESS;
}

int pspinsim_cb_set_pcie_mst_read_completion(pcie_mst_read_cb_t cb)
{
    callbacks.read = cb;
    return SPIN_SUCCESS;
}

// The symbol table of a 32-bit ELF file, every offset checked against the file's size.
int spin_find_handler_by_name(const char *binfile, const char *handler_name,
                              spin_nic_addr_t *handler_addr, size_t *handler_size)
{
    size_t size = 0;
    char *file = read_file(binfile, &size);
    const Elf32_Ehdr *header = (const Elf32_Ehdr *)file;

    if (!file || size < sizeof *header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != ELFCLASS32 ||
        (uint64_t)header->e_shoff + (uint64_t)header->e_shnum * sizeof(Elf32_Shdr) > size) {
        fprintf(stderr, "pspinsim: %s is not a readable 32-bit ELF file\n", binfile);
        free(file);
        return SPIN_ERR;
    }
    const Elf32_Shdr *sections = (const Elf32_Shdr *)(file + header->e_shoff);
    for (unsigned at = 0; at < header->e_shnum; at++) {
        const Elf32_Shdr *table = &sections[at];
        if (table->sh_type != SHT_SYMTAB || table->sh_link >= header->e_shnum ||
            (uint64_t)table->sh_offset + table->sh_size > size)
            continue;
        const Elf32_Shdr *names = &sections[table->sh_link];
        if ((uint64_t)names->sh_offset + names->sh_size > size)
            continue;
        for (size_t i = 0; i < table->sh_size / sizeof(Elf32_Sym); i++) {
            Elf32_Sym symbol;
            memcpy(&symbol, file + table->sh_offset + i * sizeof symbol, sizeof symbol);
            size_t room = symbol.st_name < names->sh_size ? names->sh_size - symbol.st_name : 0;
            const char *name = file + names->sh_offset + symbol.st_name;
            if (strlen(handler_name) < room && strncmp(name, handler_name, room) == 0) {
                *handler_addr = symbol.st_value;
                *handler_size = 4096;
            }
        }
    }
    free(file);
    return SPIN_SUCCESS;
}
