// Every name of PsPIN's and (with FP) FPsPIN's handler interface once, with the sizes and places of its structures.
// Never run.
#include "pspin.h"
#include <handler.h>
#include <packets.h>
#include <spin_conf.h>
#include <spin_dma.h>
#ifdef FP
#include <spin_host.h>
#include "pspin_rt.h"
#endif
volatile uint32_t w;
uint8_t __attribute__((section(".l2_handler_data"))) hd[] = {0xde};
static spin_rw_lock_t rw;
static spin_lock_t l;
static futex_t fu;
_Static_assert(sizeof(task_t) == 72 && sizeof(handler_args_t) == 16 && sizeof(spin_rw_lock_t) == 8 &&
                   sizeof(struct host_data) == CORE_COUNT * 8 + 128,
               "");
_Static_assert(offsetof(task_t, host_mem_high) == 0x30 && offsetof(task_t, flow_id) == 0x44 &&
                   offsetof(task_t, scratchpad_size) == 0x20,
               "");
#ifdef FP
_Static_assert(sizeof(pkt_hdr_t) == 42 && sizeof(slmp_pkt_hdr_t) == 52, "");
#else
_Static_assert(sizeof(pkt_hdr_t) == 28, "");
#endif
__handler__ void a_ph(handler_args_t *args)
{
    task_t *t = args->task;
    spin_cmd_t c;
    spin_dma_t x;
    bool b;
    uint32_t u;
    spin_dma(t->pkt_mem, t->l2_pkt_mem, 4, SPIN_DMA_LOC2EXT, 0, &x);
    spin_dma_wait(x);
    spin_dma_test(x, &u);
    spin_lock_init(&l);
    spin_lock_try_lock(&l);
    spin_lock_lock(&l);
    spin_lock_unlock(&l);
    spin_rw_lock_r_lock(&rw);
    spin_rw_lock_r_unlock(&rw);
    spin_rw_lock_w_lock(&rw);
    spin_rw_lock_w_unlock(&rw);
    spin_send_packet(t->pkt_mem, 4, &c);
    spin_cmd_wait(c);
    spin_cmd_test(c, &b);
    spin_rdma_put(1, t->pkt_mem, 4, &c);
    spin_dma_to_host(1, 2, 3, 0, &c);
    spin_dma_from_host(1, 2, 3, 1, &c);
    spin_write_to_host(1, 2, &c);
    rt_time_wait_cycles(10);
    asm_mem_fence();
    u = load_reserved(&w);
    u = store_conditional(&w, 1);
    u = compare_and_swap(&w, 1, 2);
    amo_swap(&w, 1);
    amo_and(&w, 1);
    amo_or(&w, 1);
    amo_xor(&w, 1);
    amo_maxu(&w, 1);
    amo_minu(&w, 1);
    amo_add((volatile int32_t *)&w, 1);
    amo_max((volatile int32_t *)&w, 1);
    amo_min((volatile int32_t *)&w, 1);
    amo_store(&w, 1);
    futex_init(&fu);
    futex_unlock(&fu);
    futex_try_lock(&fu);
    futex_lock(&fu);
    futex_lock_s(&fu);
    u = MIN(1, 2) + MAX(1, 2) + DIV_CEIL(3, 2) + FAST_DIV(4, 1) + FAST_MOD(4, 2) + AND(4, 2) + ALIGN_UP(3, 4) +
        MEM_ALIGNMENT + DMA_MAX_XFER_SIZE + DMA_NULL + PacketQueueLength + PKT_SIZE + NUM_CLUSTER_HPUS + NB_CORES;
    ASSERT(u);
    SPIN_PRINTF("%d\n", 1);
    DEBUG_PRINT("x");
    TRACING_DUMMY_INSTR();
    LABEL(foo_label);
    uint32_t v;
    read_register(x10, v);
    (void)v;
    u += HWSCHED_HANDLER_FUN_ADDR + HWSCHED_ERROR + CMD_WORD6 + MMIO_READ(CMD_TEST);
    MMIO_WRITE(CMD_TEST, u);
    printf("%5d %x %s %c %lu %llu %zu\n", 1, 2u, "s", 'c', 3ul, 4ull, (size_t)5);
    puts("x");
    putchar('c');
    char buf[8];
    sprintf(buf, "%d", 3);
    spin__memcpy_nonblk(t->pkt_mem, t->pkt_mem, 4);
    extern int tfp_printf(const char *, ...), tfp_snprintf(char *, size_t, const char *, ...);
    tfp_printf("x");
    tfp_snprintf(buf, 8, "%d", 3);
#ifdef FP
    u = cycles();
    push_counter(&__host_data.counters[0], u);
    u = user_core_id() + user_cluster_id() + PAGE_SIZE + MAX_COUNTERS + HPU_ID(args) + (uint32_t)HOST_ADDR(args) +
        (uint32_t)HOST_ADDR_HPU(args) + (uint32_t)HOST_PLD_ADDR(args) + DMA_BUS_WIDTH + DMA_ALIGN + dma_idx[0] +
        PULP_CSR_MHARTID + PULP_CSR_PMPADDR15;
    fpspin_flag_t f = (fpspin_flag_t){.len = 3};
    f = (fpspin_flag_t){.dma_id = 1, .len = 2, .hpu_id = 3};
    if (fpspin_check_host_mem(args))
        f = fpspin_host_req(args, 3);
    u = f.data;
    slmp_pkt_hdr_t *h = t->pkt_mem;
    u += SLMP_PAYLOAD_LEN(h) + EOM(1) + SYN(1) + ACK(1) + MKEOM + MKSYN + MKACK + htons(1) + htonl(1) + ntohs(1) +
         ntohl(1) + bswap_16(1) + bswap_32(1) + ip_checksum(h, 20);
    mac_addr_t m = h->eth_hdr.dest;
    (void)m;
    uint32_t r;
    ecall_0(PSPIN_ECALL_CYCLES, r);
    ecall_1(1, 2, r);
    w = r;
#else
    uint8_t *p;
    uint32_t len;
    GET_IP_UDP_PLD(t->pkt_mem, p, len);
    w = len + *p;
#endif
    w = u;
    if (u == 77)
        TERMINATE;
    spin_host_write(1, 2, false);
}
void init_handlers(handler_fn *hh, handler_fn *ph, handler_fn *th, void **m)
{
    volatile handler_fn h[] = {NULL, a_ph, NULL};
    *hh = h[0];
    *ph = h[1];
    *th = h[2];
    (void)m;
    extern char __irq_vector_base, _stext, _etext, _endtext, __cluster_text_start, __cluster_text_end,
        __cluster_text_size, sdata, _sdata, edata, _edata, _bss_start, _bss_end, __l2_data_end, __l2_heap_start,
        __l2_heap_size, _l1_preload_start_inL2, _l1_preload_start, _l1_preload_size, stack;
    char *s[] = {&__irq_vector_base,
                 &_stext,
                 &_etext,
                 &_endtext,
                 &__cluster_text_start,
                 &__cluster_text_end,
                 &__cluster_text_size,
                 &sdata,
                 &_sdata,
                 &edata,
                 &_edata,
                 &_bss_start,
                 &_bss_end,
                 &__l2_data_end,
                 &__l2_heap_start,
                 &__l2_heap_size,
                 &_l1_preload_start_inL2,
                 &_l1_preload_start,
                 &_l1_preload_size,
                 &stack};
    for (unsigned i = 0; i < sizeof s / sizeof *s; i++)
        w = (uint32_t)s[i];
}
