/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A simulated design: its clock, its reset and its registers. Streams go on while a register is
 * read or written.
 */
#ifndef NF_DESIGN_H
#define NF_DESIGN_H

#include "nf_placements.h"
#include "nf_traffic.h"
#include "verilated.h"
#if NF_TRACE
#include "verilated_fst_c.h"
#endif

/* Cycles without any progress after which a design is given up. */
const uint64_t kStandstill = 4000000;

enum Op { UPDATE = 1, DELETE = 2, WRITE = 4, PEEK = 5, NEXT = 6, READ_BYTES = 8, WRITE_BYTES = 9 };

class Design
{
  public:
    Design() : top(new Vnf_top(&context)) {}
    ~Design()
    {
        top->final();
#if NF_TRACE
        if (trace)
            trace->close();
#endif
    }

    void open_trace(const char *path)
    {
#if NF_TRACE
        context.traceEverOn(true);
        trace = new VerilatedFstC;
        top->trace(trace, 99);
        trace->open(path);
#else
        fail(std::string(path) + ": this design was built without traces");
#endif
    }

    /* One cycle in two halves: inputs are set before `settle`, outputs looked at behind it, then
     * the edge. */
    void settle()
    {
        if (traffic)
            traffic->offer(*top);
        top->clk = 0;
        top->eval();
#if NF_TRACE
        if (trace)
            trace->dump(4 * cycle);
#endif
        if (traffic)
            traffic->observe(*top, cycle);
    }
    void edge()
    {
        placements.cycle = cycle;
        top->clk = 1;
        top->eval();
#if NF_TRACE
        if (trace)
            trace->dump(4 * cycle + 2);
#endif
        cycle++;
    }

    /* Without traffic the streams are quiet. */
    void reset()
    {
        traffic = nullptr;
        top->rst = 1;
        top->s_axis_tvalid = top->m_axis_tready = top->h_axis_tready = 0;
        top->s_axil_awvalid = top->s_axil_wvalid = top->s_axil_arvalid = 0;
        top->s_axil_bready = top->s_axil_rready = 1;
        top->s_axil_wstrb = 15;
        for (int i = 0; i < 4; i++) {
            settle();
            edge();
        }
        placements.reset();
        top->rst = 0;
        uint64_t start = cycle;
        while (!read(0x0c))
            if (cycle - start > 100 * kStandstill)
                fail("the design does not come out of reset");
    }

    void write(uint32_t address, uint32_t data)
    {
        top->s_axil_awaddr = address;
        top->s_axil_wdata = data;
        top->s_axil_awvalid = top->s_axil_wvalid = 1;
        for (bool taken = false; !taken;) {
            settle();
            taken = top->s_axil_awready;
            edge();
        }
        top->s_axil_awvalid = top->s_axil_wvalid = 0;
        for (bool answered = false; !answered;) {
            settle();
            answered = top->s_axil_bvalid;
            edge();
        }
    }

    uint32_t read(uint32_t address)
    {
        top->s_axil_araddr = address;
        top->s_axil_arvalid = 1;
        for (bool taken = false; !taken;) {
            settle();
            taken = top->s_axil_arready;
            edge();
        }
        top->s_axil_arvalid = 0;
        for (;;) {
            settle();
            bool answered = top->s_axil_rvalid;
            uint32_t data = top->s_axil_rdata;
            edge();
            if (answered)
                return data;
        }
    }

    void write_bytes(uint32_t address, const uint8_t *bytes, uint32_t size)
    {
        for (uint32_t at = 0; at < size; at += 4) {
            uint32_t word = 0;
            memcpy(&word, bytes + at, size - at < 4 ? size - at : 4);
            write(address + at, word);
        }
    }

    void read_bytes(uint32_t address, uint8_t *bytes, uint32_t size)
    {
        for (uint32_t at = 0; at < size; at += 4) {
            uint32_t word = read(address + at);
            memcpy(bytes + at, &word, size - at < 4 ? size - at : 4);
        }
    }

    /* Has a table do something with what the registers hold; whether it did. */
    bool command(uint32_t table, Op op)
    {
        write(0x10, table);
        write(0x14, op);
        uint64_t start = cycle;
        for (;;) {
            uint32_t status = read(0x18);
            if (!(status & 1))
                return status & 2;
            if (cycle - start > kStandstill)
                fail("a table command does not end");
        }
    }

    VerilatedContext context;
    Vnf_top *top;
    Traffic *traffic = nullptr;
    uint64_t cycle = 0;
#if NF_TRACE
    VerilatedFstC *trace = nullptr;
#endif
};

#endif
