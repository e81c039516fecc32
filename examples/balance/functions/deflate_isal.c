/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Deflate with ISA-L (igzip), level 0: what a host with vector units does instead of zlib; the
 * result is the compressed payload.
 */
/* libraries: isal */
#include <isa-l/igzip_lib.h>
#include <string.h>

#include "nf_function.h"

enum { MOST = 4096 };

uint32_t nf_function_run(const uint8_t *in, uint32_t length, uint8_t *out, uint32_t room)
{
    static struct isal_zstream stream;

    isal_deflate_stateless_init(&stream);
    stream.next_in = (uint8_t *)in;
    stream.avail_in = length;
    stream.end_of_stream = 1;
    stream.flush = NO_FLUSH;
    stream.next_out = out;
    stream.avail_out = room;
    return isal_deflate_stateless(&stream) == COMP_OK ? room - stream.avail_out : 0;
}

int nf_function_check(void)
{
    uint8_t in[1024], packed[MOST], back[1024];
    struct inflate_state state;

    for (unsigned i = 0; i < sizeof(in); i++)
        in[i] = (uint8_t)("balance "[i % 8] + i / 256);
    isal_inflate_init(&state);
    state.next_in = packed;
    state.avail_in = nf_function_run(in, sizeof(in), packed, MOST);
    state.next_out = back;
    state.avail_out = sizeof(back);
    return state.avail_in && isal_inflate(&state) == ISAL_DECOMP_OK &&
           !memcmp(in, back, sizeof(in));
}
