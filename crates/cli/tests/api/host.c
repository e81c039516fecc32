// Every name of FPsPIN's host interface once, with the sizes of its structures. Never run.
#include "fpspin/fpspin.h"
_Static_assert(sizeof(fpspin_ctx_t) == 88 && sizeof(fpspin_ruleset_t) == 68 && sizeof(struct fpspin_rule) == 16 &&
                   sizeof(slmp_sock_t) == 20 && sizeof(struct pspin_ioctl_msg) == 24 && sizeof(struct host_data) == 256,
               "");
int main(void)
{
    fpspin_ctx_t c;
    fpspin_ruleset_t r, custom = {.mode = FPSPIN_MODE_AND,
                                  .r = {FPSPIN_RULE_IP, FPSPIN_RULE_IP_PROTO(1),
                                        ((struct fpspin_rule){8, 0xff00, 0x800, 0x800}), FPSPIN_RULE_FALSE}};
    custom.r[2] = FPSPIN_RULE_EMPTY;
    custom.r[2] = FPSPIN_RULE_UDP_SPORT(1);
    custom.r[2] = FPSPIN_RULE_UDP_DPORT(2);
    r = custom;
    fpspin_ruleset_bypass(&r);
    fpspin_ruleset_match(&r);
    fpspin_ruleset_udp(&r);
    fpspin_ruleset_slmp(&r);
    if (!fpspin_init(&c, "/dev/pspin0", "x", 0, &r, 1, FPSPIN_HOSTDMA_PAGES_DEFAULT))
        return 1;
    fpspin_flag_t f;
    volatile uint8_t *p = fpspin_pop_req(&c, 0, &f);
    fpspin_push_resp(&c, 0, (fpspin_flag_t){.len = 3});
    fpspin_clear_counter(&c, 0);
    fpspin_counter_t k = fpspin_get_counter(&c, 0);
    double d = fpspin_get_cycles(&c, 0) + fpspin_get_avg_cycles(&c);
    fpspin_write_memory(&c, (fpspin_addr_t)1, "abcd", 4);
    fpspin_load(&c, "x", 0, 0);
    fpspin_unload(&c);
    fpspin_prog_me(&r, 1);
    fpspin_set_me_ruleset(0, &r);
    fpspin_set_regs_base("x");
    hexdump(p, 3);
    slmp_sock_t s;
    slmp_socket(&s, 1, DMA_ALIGN, 0, 1);
    slmp_sendmsg(&s, inet_addr("1.2.3.4"), 1, "x", 1);
    slmp_close(&s);
    fpspin_exit(&c);
    struct mem_area m = c.handler_mem;
    c.app_data = &c;
    eth_hdr_t e;
    ip_hdr_t i;
    pkt_hdr_t h;
    slmp_pkt_hdr_t sh;
    return (int)(k.sum + d + m.size + sizeof e + sizeof i + sizeof h + sizeof sh + PSPIN_HOSTDMA_QUERY +
                 PSPIN_HOST_WRITE + PSPIN_HOST_READ + SLMP_PAYLOAD_SIZE + SLMP_PORT + NUM_HPUS + MAX_COUNTERS +
                 PAGE_SIZE + L2_END + NUM_RULES_PER_RULESET + NUM_RULESETS + NUM_CLUSTERS + c.mmap_len +
                 (fpspin_get_regs_base() != 0) + (c.cpu_addr != 0));
}
