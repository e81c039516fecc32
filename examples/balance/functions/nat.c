/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Address translation: a flow (first 12 bytes of the payload: addresses and ports) becomes an
 * outside address and a port of its own. The table is static (port = 1024 + place of the flow's
 * hash, probed), as the published function without state is; so both sides give the same.
 */
#include <string.h>

#include "nf_function.h"

enum { ENTRIES = 16384, FLOW = 12 };

static uint32_t hash(const uint8_t *flow)
{
    uint32_t h = 2166136261u;

    for (int i = 0; i < FLOW; i++)
        h = (h ^ flow[i]) * 16777619u;
    return h ^ h >> 15;
}

uint32_t nf_function_run(const uint8_t *in, uint32_t length, uint8_t *out, uint32_t room)
{
    uint8_t flow[FLOW] = {0};
    uint16_t port;

    if (room < length || length > 4096)
        return 0;
    memcpy(flow, in, length < FLOW ? length : FLOW);
    port = (uint16_t)(1024 + hash(flow) % ENTRIES);
    memcpy(out, in, length);
    if (length >= FLOW) {
        memcpy(out, (uint8_t[4]){198, 51, 100, 1}, 4);
        out[8] = (uint8_t)(port >> 8);
        out[9] = (uint8_t)port;
    }
    return length;
}

int nf_function_check(void)
{
    uint8_t in[16] = {10, 0, 0, 1, 8, 8, 8, 8, 0x30, 0x39, 0, 53, 'd', 'a', 't', 'a'}, out[16],
            again[16];

    if (nf_function_run(in, 16, out, 16) != 16 || nf_function_run(in, 16, again, 16) != 16)
        return 0;
    return !memcmp(out, again, 16) && out[0] == 198 && !memcmp(out + 4, in + 4, 4) &&
           !memcmp(out + 10, in + 10, 6);
}
