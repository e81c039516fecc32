/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * unused_bits: padding is zero wherever a value comes from. Structs with unused bits between
 * bit-fields, bits without a name, bytes between members, booleans and arrays of such are read from
 * packets in every way, sent on, looked up, kept in byte strings and told to the host.
 */
#include <nicforge.h>

NF_PORTS(2);

struct small {
    uint8_t version : 4;
    uint8_t b;
};

struct key {
    uint16_t low : 5;
    uint16_t : 3;
    uint16_t high : 7;
    bool flag;
    struct small inner[2];
    uint32_t wide;
};

struct many {
    struct small item[10];
};

struct note {
    uint8_t kind : 2;
    struct small head;
    struct key key;
};

NF_TABLE(hash, seen, struct small, uint32_t, 64);
NF_TABLE(hash, keys, struct key, struct note, 64);
NF_BUF_TABLE(hash, strings, uint8_t, struct small, 4, 64);

#ifndef NO_HOST
void host_send(struct note note)
{
    struct note old;

    if (!nf_lookup(&keys, note.key, &old))
        nf_update(&keys, note.key, note);
    else
        nf_add_value(&seen, note.head, 1);
}
#endif

void net_recv(nf_pkt pkt)
{
    struct small small, again;
    struct key key;
    struct many many;
    struct note note = {0}, old;

    /* The first header goes out as it came, but for its unused bits. */
    if (!nf_extract(pkt, &small)) {
        nf_drop(pkt, "too short");
        return;
    }
    nf_add_value(&seen, small, 1);
    nf_emit(pkt, &small);
    if (!nf_extract(pkt, &key)) {
        nf_drop(pkt, "no key");
        return;
    }
    if (nf_load(pkt, 0, &many)) {
        nf_add_value(&seen, many.item[small.b & 7], 1);
        nf_buf_append(&strings, small.b, many);
    }
    if (!nf_lookup(&keys, key, &old)) {
        note.kind = small.version;
        note.head = many.item[3];
        note.key = key;
        nf_update(&keys, key, note);
    } else {
        old.head.version++;
        nf_update(&keys, key, old);
    }
    struct small zero = {0};
    nf_update(&strings, small.b, zero);
    nf_buf_append_pkt(&strings, small.b, pkt, 5);
    if (nf_buf_read(&strings, small.b, 1, &again))
        nf_add_value(&seen, again, 100);
    nf_host_msg(note);
    nf_emit(pkt, &key);
    nf_send(pkt, 1);
}
