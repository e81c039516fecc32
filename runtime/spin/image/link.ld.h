/* Where an image lies in the NIC's memories; run through the C preprocessor with the machine's sizes (NF_L1_SIZE, NF_L2_DATA,
 * NF_L2_HANDLER, NF_L2_HANDLER_SIZE). Names of sections and symbols are those that handlers and loaders of PsPIN and FPsPIN use. */
OUTPUT_ARCH(riscv)
ENTRY(_start)
EXTERN(init_handlers)

MEMORY
{
    prog (rx) : ORIGIN = 0x1D000000, LENGTH = 0x8000
    L2 (rw) : ORIGIN = 0x1C000000, LENGTH = NF_L2_DATA
    L2_handler (rw) : ORIGIN = NF_L2_HANDLER, LENGTH = NF_L2_HANDLER_SIZE
    L1 (rw) : ORIGIN = 0x1B000000, LENGTH = 0x4400
}

PHDRS
{
    text PT_LOAD FLAGS(5);
    data PT_LOAD FLAGS(6);
    handler PT_LOAD FLAGS(6);
    cluster PT_LOAD FLAGS(6);
}

SECTIONS
{
    .vectors 0x1D000000 :
    {
        KEEP(*(.vectors))
    } > prog :text
    .text 0x1D000100 :
    {
        _stext = .;
        *(.text.runtime)
        *(.text .text.* .lit .shdata)
        *(.cluster.text .cluster.text.*)
        _etext = .;
    } > prog :text
    .rodata :
    {
        *(.rodata .rodata.* .srodata .srodata.* .eh_frame .eh_frame.*)
    } > L2 :data
    .data : ALIGN(64)
    {
        sdata = .;
        _sdata = .;
        KEEP(*(.host_data))
        *(.data .data.* .sdata .sdata.* .tdata .tdata.* .heapl2ram)
        . = ALIGN(4);
        edata = .;
        _edata = .;
    } > L2 :data
    .bss (NOLOAD) : ALIGN(4)
    {
        _bss_start = .;
        *(.bss .bss.* .sbss .sbss.* .tbss .tbss.* COMMON)
        . = ALIGN(4);
        _bss_end = .;
    } > L2 :data
    .l2_data (NOLOAD) : ALIGN(4)
    {
        *(.l2_data .l2_data.* .data_fc_shared .data_fc_shared.*)
        __l2_data_end = .;
    } > L2 :data
    __l2_heap_start = ALIGN(16);
    __l2_heap_size = ORIGIN(L2) + LENGTH(L2) - __l2_heap_start;
    __heap_start = __l2_heap_start;
    __heap_end = ORIGIN(L2) + LENGTH(L2);

    .l2_handler_data :
    {
        KEEP(*(.l2_handler_data))
    } > L2_handler :handler

    /* A KiB of stack for each core, then what every cluster has a copy of. */
    .stack (NOLOAD) :
    {
        stack = .;
        . += 8 * 0x400;
    } > L1 :cluster
    .data_tiny_l1 (NOLOAD) :
    {
        _l1_preload_start = .;
        *(.data_tiny_l1 .data_tiny_l1.* .data_alias_l1 .data_alias_l1.*)
        . = ALIGN(4);
        _l1_preload_end = .;
    } > L1 :cluster

    __rt_stack_size = 0x400;
    __rt_cl_master_stack_size = 0x400;
    __rt_cl_slave_stack_size = 0x400;
}
