/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * codel: keeps the queue of the slow link behind port 1 short (CoDel, RFC 8289, section 5). Frames
 * from port 0 wait; a timer sends the oldest and drops some that waited long.
 */
#include <nicforge.h>

#define SLOW 1
#define LONGEST 1522
#define TARGET NF_US(50)
#define INTERVAL NF_US(1000)

struct queue {
    uint32_t head, tail, count, last;
    uint64_t above, next; /* when frames will have waited long for INTERVAL; the next drop */
    bool dropping;
};

NF_TABLE(array, queues, uint32_t, struct queue, 1);
NF_BUF_TABLE(hash, waiting, uint32_t, uint64_t, 256, LONGEST); /* by number, with its time */

static inline bool is_late(struct queue *q)
{
    uint64_t came = nf_now();
    if (!nf_lookup(&waiting, q->head, &came) || nf_now() - came < TARGET || q->tail - q->head < 2)
        return q->above = 0;
    q->above = q->above ? q->above : nf_now() + INTERVAL;
    return nf_now() >= q->above;
}

NF_TIMER(NF_US(12))
void serve(void)
{
    struct queue q;
    nf_lookup(&queues, 0, &q);
    bool late = is_late(&q);
    if (late && (!q.dropping || nf_now() >= q.next)) {
        uint32_t more = q.count - q.last, root = 0;
        bool again = more > 1 && nf_now() - q.next < 16 * INTERVAL;
        q.count = q.dropping ? q.count + 1 : again ? more : 1;
        for (uint32_t bit = 1 << 15; bit; bit >>= 1) /* 16 times the square root */
            root += (root + bit) * (root + bit) <= q.count << 8 ? bit : 0;
        q.next = (q.dropping ? q.next : nf_now()) + INTERVAL * 16 / root;
        q.last = q.dropping ? q.last : q.count;
        nf_delete(&waiting, q.head++);
        q.dropping = is_late(&q) || !q.dropping;
    } else {
        q.dropping = late;
    }
    if (q.head != q.tail) {
        nf_buf_send(&waiting, q.head, SLOW);
        nf_delete(&waiting, q.head++);
    }
    nf_update(&queues, 0, q);
}

void net_recv(nf_pkt pkt)
{
    struct queue q;
    nf_lookup(&queues, 0, &q);
    if (nf_port(pkt) == SLOW) {
        nf_send(pkt, 0);
    } else if (nf_len(pkt) <= LONGEST && nf_update(&waiting, q.tail, nf_now())) {
        nf_buf_append_pkt(&waiting, q.tail++, pkt, LONGEST);
        nf_update(&queues, 0, q);
        nf_drop(pkt, "waits");
    } else {
        nf_drop(pkt, "no room");
    }
}
