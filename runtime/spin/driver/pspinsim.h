// PsPIN's interface to its simulator: give it packets, let it run, hear what happens. Times in
// callbacks are picoseconds.
#ifndef __PSPINSIM_H__
#define __PSPINSIM_H__

#include "spin.h"

#ifdef __cplusplus
extern "C" {
#endif

// Buffers of the original's bus model. They are taken and change nothing here.
typedef struct ni_conf {
    uint32_t axi_aw_buffer;
    uint32_t axi_w_buffer;
    uint32_t axi_b_buffer;
} ni_conf_t;

typedef struct no_conf {
    uint32_t axi_ar_buffer;
    uint32_t axi_r_buffer;
    double network_G; // ns a byte; 0: no limit
    uint32_t max_pkt_size;
    uint32_t max_network_queue_len;
} no_conf_t;

typedef struct pcie_slv_conf {
    uint32_t axi_aw_buffer;
    uint32_t axi_w_buffer;
    uint32_t axi_ar_buffer;
    uint32_t axi_b_buffer;
    uint32_t axi_r_buffer;
    uint32_t pcie_L; // latency
    double pcie_G;   // ns a byte
} pcie_slv_conf_t;

typedef struct pspin_conf {
    const char *slm_files_path; // folder with the image
    ni_conf_t ni_conf;
    no_conf_t no_conf;
    pcie_slv_conf_t pcie_slv_conf;
} pspin_conf_t;

typedef void (*pkt_out_cb_t)(uint8_t *data, size_t len);
typedef void (*pkt_feedback_cb_t)(uint64_t user_ptr, uint64_t nic_arrival_time,
                                  uint64_t pspin_arrival_time, uint64_t feedback_time);
typedef void (*pcie_slv_write_cb_t)(uint64_t addr, uint8_t *data, size_t len);
typedef void (*pcie_slv_read_cb_t)(uint64_t addr, uint8_t *data, size_t len);
typedef void (*pcie_mst_write_cb_t)(void *user_ptr);
typedef void (*pcie_mst_read_cb_t)(void *user_ptr);

int pspinsim_default_conf(pspin_conf_t *conf);
int pspinsim_init(int argc, char **argv, pspin_conf_t *conf);
// Until there are no more packets and all have been fed back.
int pspinsim_run(void);
// A cycle; the flag is 1 at the end.
int pspinsim_run_tick(uint8_t *done_flag);
// Prints statistics.
int pspinsim_fini(void);

int pspinsim_packet_trace_read(const char *pkt_file_path, const char *data_file_path);
// The next packet, and how many cycles pass before the one behind it. May be called from callbacks.
int pspinsim_packet_add(spin_ec_t *ec, uint32_t msgid, uint8_t *pkt_data, size_t pkt_len,
                        size_t pkt_l1_len, uint8_t eom, uint32_t wait_cycles, uint64_t user_ptr);
int pspinsim_packet_eos(void);
// OSMOSIS's: a context, counted in the order of first packets, has priority + 1 shares.
void pspinsim_set_fmq_prio(uint32_t fmq_idx, uint8_t prio);

int pspinsim_cb_set_pkt_out(pkt_out_cb_t cb);
int pspinsim_cb_set_pkt_feedback(pkt_feedback_cb_t cb);
int pspinsim_cb_set_pcie_slv_write(pcie_slv_write_cb_t cb);
int pspinsim_cb_set_pcie_slv_read(pcie_slv_read_cb_t cb);
int pspinsim_cb_set_pcie_mst_write_completion(pcie_mst_write_cb_t cb);
int pspinsim_cb_set_pcie_mst_read_completion(pcie_mst_read_cb_t cb);

#ifdef __cplusplus
}
#endif

#endif
