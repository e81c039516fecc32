// A driver for simulations: it reads the command line, makes messages or replays a trace, and
// counts what comes back.
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "spin.h"

#define GDRIVER_OK 0
#define GDRIVER_ERR 1
#define GDRIVER_MATCHING_CTX_MAXSIZE 256

// Fills a packet and gives its size.
typedef uint32_t (*fill_packet_fun_t)(uint32_t msg_idx, uint32_t pkt_idx, uint8_t *pkt_buf,
                                      uint32_t max_pkt_size, uint32_t *l1_pkt_size);
// Whether a trace's packet belongs to a context.
typedef int (*match_packet_fun_t)(char *trace_src, char *matching_ctx);
typedef void (*interactive_feedback_fun_t)(uint64_t user_ptr, uint64_t nic_arrival_time,
                                           uint64_t pspin_arrival_time, uint64_t feedback_time);

int gdriver_init(int argc, char **argv, match_packet_fun_t matching_cb, int *ectx_num);
int gdriver_add_ectx(const char *hfile, const char *hh, const char *ph, const char *th,
                     fill_packet_fun_t fill_cb, void *l2_img, size_t l2_img_size,
                     void *matching_ctx, size_t matching_ctx_size);
int gdriver_run(void);
int gdriver_fini(void);
// Memory of the context that is added next.
spin_ec_t *gdriver_get_ectx_mems(void);
bool gdriver_is_interactive(void);
void gdriver_set_interactive_cb(interactive_feedback_fun_t cb);
