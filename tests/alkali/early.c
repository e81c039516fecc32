/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * early: the form that programs had before alkali.h, with a buffer and entries of their own.
 */
struct buf_t {
    char *data;
    short len;
};
typedef struct buf_t buf_t;

struct pair {
    int key_part;
    short low, high;
};

struct sum_entry {
    int key;
    struct pair value;
};
struct sum_entry *sums;

extern void send_packet(buf_t packet);
extern void bufextract(buf_t packet, void *extracted_data);
extern void bufemit(buf_t packet, void *extracted_data);
extern void table_lookup(void *tab, void *key, void *value);
extern void table_update(void *tab, void *key, void *value);

void _packet_event_handler(buf_t packet)
{
    struct pair pair, sum;
    bufextract(packet, (void *)&pair);
    int key = pair.key_part + pair.low;
    table_lookup((void *)sums, (void *)&key, (void *)&sum);
    if (sum.key_part == 0)
        sum.high = pair.low;
    sum.key_part++;
    sum.low += pair.high;
    table_update((void *)sums, (void *)&key, (void *)&sum);
    bufemit(packet, (void *)&sum);
    send_packet(packet);
}

int main() { return 0; }
