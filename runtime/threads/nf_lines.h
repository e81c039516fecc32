/* SPDX-License-Identifier: 0BSD
 *
 * nf_lines.h (threads) - the packet protocol: what a program reads and writes, a line each, words
 * with a space between, bytes in hexadecimal ('-' for none). docs/dev/port.md is its description
 * for those who write the other end.
 *
 * Input:  frame LONGEST | turn 0 or 1 | entry TABLE DETAIL KEY MASK VALUE STRING
 *         packet TIME SEED PORT BYTES | message TIME SEED BYTES | tick TIME SEED TIMER - | run
 * Output: nf KIND EVENT NUMBER BYTES | nf entry WORKER TABLE DETAIL KEY MASK VALUE STRING
 *         nf count NAME VALUE | nf done | nf failed REASON
 */
#ifndef NF_LINES_H
#define NF_LINES_H

/* Input events and entries, each a head and bytes (nf_results.h). */
static struct nf_bytes nf_events, nf_entries;
static const u8 *nf_events_at, *nf_events_end;
static u32 nf_frame;
/* One event after the other: what finds a table full is then as in the interpreter. */
static bool nf_in_turn;
/* Whether there are entries to begin with. */
static bool nf_filled;

static void nf_say(const char *text) { nf_board_write(text, strlen(text)); }

static void nf_say_number(u64 value)
{
    char digits[24];
    nf_say(nf_digits(digits + sizeof(digits), value));
}

/* A space, then bytes. */
static void nf_say_bytes(const u8 *bytes, size_t size)
{
    char text[128];
    nf_say(size ? " " : " -");
    for (size_t at = 0; at < size;) {
        size_t filled = 0;
        for (; at < size && filled < sizeof(text); at++) {
            text[filled++] = "0123456789abcdef"[bytes[at] >> 4];
            text[filled++] = "0123456789abcdef"[bytes[at] & 15];
        }
        nf_board_write(text, filled);
    }
}

static void nf_failed(const char *reason)
{
    nf_say("nf failed ");
    nf_say(reason);
    nf_say("\n");
    nf_board_flush();
}

static void nf_is_full(const struct nf_table_spec *spec)
{
    nf_say("nf failed table ");
    nf_say(spec->name);
    nf_say(" is full: its capacity is ");
    nf_say_number(spec->capacity);
    nf_say("\n");
    nf_board_flush();
}

#include "nf_results.h"

/* ---- Input
 * ------------------------------------------------------------------------------------------------------
 */

/* The next line, without its end; false if there is none. */
static bool nf_read_line(struct nf_bytes *line)
{
    int byte = nf_board_read();
    bool found = byte >= 0;
    line->size = 0;
    for (; byte >= 0 && byte != '\n'; byte = nf_board_read()) {
        u8 one = (u8)byte;
        if (one != '\r')
            nf_bytes_add(line, &one, 1);
    }
    nf_bytes_add(line, "", 1);
    return found;
}

/* The next word of a line; "" behind the last. */
static char *nf_next_word(char **at)
{
    char *word = *at;
    while (**at && **at != ' ')
        ++*at;
    if (**at)
        *(*at)++ = '\0';
    return word;
}

static u64 nf_next_number(char **at)
{
    u64 value = 0;
    for (const char *digit = nf_next_word(at); *digit; digit++)
        value = value * 10 + (u64)(*digit - '0');
    return value;
}

static u8 nf_nibble(char digit)
{
    return (u8)(digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10);
}

/* Bytes, which take the place of their digits. */
static const u8 *nf_next_bytes(char **at, size_t *size)
{
    char *word = nf_next_word(at);
    u8 *bytes = (u8 *)word;
    *size = 0;
    for (; word[0] && word[1]; word += 2)
        bytes[(*size)++] = (u8)(nf_nibble(word[0]) << 4 | nf_nibble(word[1]));
    return bytes;
}

static void nf_read_event(char *at, u32 kind)
{
    size_t size;
    struct nf_event_head head = {.kind = kind};
    head.now = nf_next_number(&at);
    head.seed = nf_next_number(&at);
    head.port = kind == NF_IN_MESSAGE ? 0 : (u32)nf_next_number(&at);
    const u8 *bytes = nf_next_bytes(&at, &size);
    head.size = (u32)size;
    nf_bytes_add(&nf_events, &head, sizeof(head));
    nf_bytes_add(&nf_events, bytes, size);
}

static bool nf_read_entry(char *at)
{
    const char *name = nf_next_word(&at);
    u32 table = 0;
    while (table < nf_table_count && strcmp(nf_table_specs[table].name, name) != 0)
        table++;
    struct nf_entry_head head = {table, (u32)nf_next_number(&at), 0, 0};
    const u8 *parts[4];
    size_t sizes[4];
    for (u32 i = 0; i < 4; i++)
        parts[i] = nf_next_bytes(&at, &sizes[i]);
    const struct nf_table_spec *spec = &nf_table_specs[table];
    if (table == nf_table_count || sizes[0] != spec->key_size || sizes[1] != spec->key_size ||
        sizes[2] != spec->value_size || sizes[3] > spec->buf_capacity)
        return false;
    head.buf_size = (u32)sizes[3];
    nf_bytes_add(&nf_entries, &head, sizeof(head));
    for (u32 i = 0; i < 4; i++)
        nf_bytes_add(&nf_entries, parts[i], sizes[i]);
    nf_filled = true;
    return true;
}

/* Reads the input up to `run`; false, and said, if it is wrong. */
static bool nf_read_lines(void)
{
    struct nf_bytes line = {0};
    for (bool ok = true; ok && nf_read_line(&line);) {
        char *at = (char *)line.at;
        const char *word = nf_next_word(&at);
        if (strcmp(word, "packet") == 0)
            nf_read_event(at, NF_IN_PACKET);
        else if (strcmp(word, "message") == 0)
            nf_read_event(at, NF_IN_MESSAGE);
        else if (strcmp(word, "tick") == 0)
            nf_read_event(at, NF_IN_TICK);
        else if (strcmp(word, "entry") == 0)
            ok = nf_read_entry(at);
        else if (strcmp(word, "frame") == 0)
            nf_frame = (u32)nf_next_number(&at);
        else if (strcmp(word, "turn") == 0)
            nf_in_turn = nf_next_number(&at) != 0;
        else if (strcmp(word, "run") == 0) {
            if (line.lost || nf_events.lost || nf_entries.lost) {
                nf_failed("too little memory for the input");
                return false;
            }
            nf_events_at = nf_events.at;
            nf_events_end = nf_events_at + nf_events.size;
            return true;
        } else
            ok = !*word;
    }
    nf_failed("the input has a line that is none of the protocol's, or ends before `run`");
    return false;
}

/* ---- Output
 * -----------------------------------------------------------------------------------------------------
 */

static void nf_say_entry(const struct nf_entry_head *head, const void *key, const void *mask,
                         const u8 *value)
{
    const struct nf_table_spec *spec = &nf_table_specs[head->table];
    nf_say("nf entry ");
    nf_say_number(head->worker);
    nf_say(" ");
    nf_say(spec->name);
    nf_say(" ");
    nf_say_number(spec->kind == NF_LPM || spec->kind == NF_TERNARY ? head->detail : 0);
    nf_say_bytes(key, spec->key_size);
    nf_say_bytes(mask, mask ? spec->key_size : 0);
    nf_say_bytes(value, spec->value_size);
    nf_say_bytes(value + spec->len_at + 4, head->buf_size);
    nf_say("\n");
}

static void nf_say_count(const char *name, u64 value)
{
    nf_say("nf count ");
    nf_say(name);
    nf_say(" ");
    nf_say_number(value);
    nf_say("\n");
}

static void nf_say_outputs(const struct nf_bytes *log)
{
    static const char *const kinds[] = {"",      "send", "stack", "host", "message",
                                        "write", "drop", "log",   "left"};
    for (size_t at = 0; at < log->size;) {
        struct nf_log_head head;
        memcpy(&head, log->at + at, sizeof(head));
        nf_say("nf ");
        nf_say(kinds[head.kind]);
        nf_say(" ");
        nf_say_number(head.sequence);
        nf_say(" ");
        nf_say_number(head.number);
        nf_say_bytes(log->at + at + sizeof(head), head.size);
        nf_say("\n");
        at += sizeof(head) + head.size;
    }
}

static void nf_write_lines(void)
{
    for (u32 i = 0; i <= NF_WORKERS; i++)
        nf_say_outputs(&nf_workers[i]->log);
    for (u32 t = 0; t < nf_table_count; t++)
        for (u32 w = 0; w < nf_owners(t); w++)
            nf_each_entry(t, w, nf_say_entry);
    nf_each_count(nf_say_count);
    nf_say("nf done\n");
    nf_board_flush();
}

#endif
