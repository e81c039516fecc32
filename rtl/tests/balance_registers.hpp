// Registers of nf_balance over AXI4-Lite, for test benches that have `top`, `tick` (a cycle) and `fail` (ends with a message).

static void write(unsigned address, uint32_t value) {
    top->s_axil_awaddr = address, top->s_axil_wdata = value, top->s_axil_wstrb = 15;
    top->s_axil_awvalid = top->s_axil_wvalid = top->s_axil_bready = 1;
    top->eval();
    while (!top->s_axil_awready) tick();
    tick();
    top->s_axil_awvalid = top->s_axil_wvalid = 0;
    while (!top->s_axil_bvalid) tick();
    if (top->s_axil_bresp) fail("a register refused a write");
    tick();
    top->s_axil_bready = 0;
}

static uint32_t read(unsigned address) {
    top->s_axil_araddr = address, top->s_axil_arvalid = top->s_axil_rready = 1;
    top->eval();
    while (!top->s_axil_arready) tick();
    tick();
    top->s_axil_arvalid = 0;
    while (!top->s_axil_rvalid) tick();
    uint32_t value = top->s_axil_rdata;
    tick();
    top->s_axil_rready = 0;
    return value;
}
