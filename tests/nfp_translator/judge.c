/* Runs the NFP translator of Linux on eBPF programs that come on standard input.
 *
 * A program is four words (instructions, bytes of stack, states, maps), its instructions, a byte
 * for each that says whether it clears the upper half, the value size of each map, and states. A
 * state is an instruction's index and its eleven registers, before it. States stand in the order in
 * which a verifier visits instructions, as often as it does.
 *
 * The answer to each is an error (or 0), the number of NFP instructions, and these, eight bytes
 * each, with the kind of relocation in the uppermost byte.
 */
#include "bpf/main.h"

struct register_state {
    u32 type;
    s32 off;
    u32 id, map;
    u64 value, mask, least, most;
};

struct state {
    u32 insn, unused;
    struct register_state regs[11];
};

enum { MOST_INSNS = 1 << 16 };

static bool get(void *to, size_t bytes) { return fread(to, 1, bytes, stdin) == bytes; }

static void set_up(struct nfp_prog *prog, struct bpf_insn *insns, u32 count,
                   struct bpf_offloaded_map *maps)
{
    prog->insns.next = prog->insns.prev = &prog->insns;
    prog->type = BPF_PROG_TYPE_XDP;
    for (u32 i = 0; i < count; i++) {
        struct nfp_insn_meta *meta = calloc(1, sizeof(*meta));
        meta->insn = insns[i];
        meta->n = i;
        if (is_mbpf_alu(meta))
            meta->umin_src = meta->umin_dst = U64_MAX;
        if (insns[i].code == (BPF_LD | BPF_IMM | BPF_DW) && insns[i].src_reg == BPF_PSEUDO_MAP_FD) {
            u64 address = (uintptr_t)&maps[insns[i].imm].map;
            meta->insn.imm = address;
            insns[i + 1].imm = address >> 32;
        }
        list_add_tail(&meta->l, &prog->insns);
    }
    prog->n_insns = count;
    nfp_bpf_jit_prepare(prog);
    prog->verifier_meta = nfp_prog_first_meta(prog);
}

static void enter(struct bpf_reg_state *to, const struct register_state *from,
                  struct bpf_offloaded_map *maps)
{
    *to = (struct bpf_reg_state){
        .type = from->type,
        .off = from->off,
        .id = from->id,
        .var_off = {from->value, from->mask},
        .umin_value = from->least,
        .umax_value = from->most,
        .map_ptr = from->map == U32_MAX ? NULL : &maps[from->map].map,
    };
}

static void release(struct nfp_prog *prog)
{
    while (prog->insns.next != &prog->insns) {
        struct nfp_insn_meta *meta = nfp_prog_first_meta(prog);
        prog->insns.next = meta->l.next;
        free(meta);
    }
    free(prog->subprog);
    free(prog->prog);
}

int main(void)
{
    u32 head[4];
    while (get(head, sizeof(head))) {
        u32 count = head[0], states = head[2];
        struct bpf_insn *insns = calloc(count, sizeof(*insns));
        u8 *clears = calloc(count, 1);
        struct bpf_offloaded_map *maps = calloc(head[3] + 1, sizeof(*maps));
        if (!get(insns, count * sizeof(*insns)) || !get(clears, count))
            return 1;
        for (u32 i = 0; i < head[3]; i++) {
            if (!get(&maps[i].map.value_size, sizeof(u32)))
                return 1;
            maps[i].dev_priv = calloc(1, sizeof(struct nfp_bpf_map) + maps[i].map.value_size + 4);
        }

        struct nfp_app_bpf bpf = {
            .helpers = {1, 1, 1, 1},
            .pseudo_random = true,
            .queue_select = true,
            .adjust_tail = true,
            .adjust_head = {NFP_BPF_ADJUST_HEAD_NO_META, 32, 127, 64, 0},
        };
        struct nfp_prog prog = {.bpf = &bpf};
        struct nfp_net net = {.stack_64 = 32};
        struct bpf_prog_offload offload = {&prog, (struct net_device *)&net};
        struct bpf_prog_aux aux = {&offload};
        struct bpf_prog outer = {&aux};
        struct bpf_func_state frame = {0};
        struct bpf_verifier_state now = {.frame = {&frame}};
        struct bpf_subprog_info function = {head[1]};
        struct bpf_insn_aux_data *data = calloc(count, sizeof(*data));
        struct bpf_verifier_env env = {&outer, &now, data, &function, 1};
        set_up(&prog, insns, count, maps);
        u8 *seen = calloc(count, 1);
        int error = 0;
        for (u32 i = 0; i < states; i++) {
            struct state state;
            if (!get(&state, sizeof(state)))
                return 1;
            for (u32 j = 0; j < 11; j++)
                enter(&frame.regs[j], &state.regs[j], maps);
            seen[state.insn] = 1;
            if (!error)
                error = nfp_verify_insn(&env, state.insn, 0);
        }
        for (u32 i = 0; i < count; i++) {
            data[i].zext_dst = clears[i];
            data[i].orig_idx = i;
        }
        if (!error)
            error = nfp_bpf_finalize(&env);
        /* The verifier takes out what it never saw. */
        for (u32 i = 0; i < count && !error; i++) {
            bool second = i > 0 && insns[i - 1].code == (BPF_LD | BPF_IMM | BPF_DW);
            prog.verifier_meta = nfp_prog_first_meta(&prog);
            if (!seen[i] && !(second && seen[i - 1]))
                error = nfp_bpf_opt_remove_insns(&env, i, 1);
        }
        if (!error) {
            prog.__prog_alloc_len = MOST_INSNS * sizeof(u64);
            prog.prog = malloc(prog.__prog_alloc_len);
            error = nfp_bpf_jit(&prog);
        }
        u32 answer[2] = {error, error ? 0 : prog.prog_len};
        fwrite(answer, sizeof(answer), 1, stdout);
        fwrite(prog.prog, sizeof(u64), answer[1], stdout);
        fflush(stdout);
        release(&prog);
        for (u32 i = 0; i < head[3]; i++)
            free(maps[i].dev_priv);
        free(maps);
        free(insns);
        free(clears);
        free(data);
        free(seen);
    }
    return 0;
}
