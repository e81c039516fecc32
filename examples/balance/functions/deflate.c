/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * Deflate with zlib, level 9 and fixed Huffman codes, as the published function does it on the NIC;
 * the result is the compressed payload.
 */
/* libraries: z */
#include <string.h>
#include <zlib.h>

#include "nf_function.h"

enum { MOST = 4096 };

uint32_t nf_function_run(const uint8_t *in, uint32_t length, uint8_t *out, uint32_t room)
{
    z_stream stream = {
        .next_in = (Bytef *)in, .avail_in = length, .next_out = out, .avail_out = room};
    int status;

    if (deflateInit2(&stream, 9, Z_DEFLATED, -15, 8, Z_FIXED) != Z_OK)
        return 0;
    status = deflate(&stream, Z_FINISH);
    deflateEnd(&stream);
    return status == Z_STREAM_END ? room - stream.avail_out : 0;
}

int nf_function_check(void)
{
    uint8_t in[1024], packed[MOST], back[1024];
    z_stream stream = {.next_in = packed, .next_out = back, .avail_out = sizeof(back)};
    int status;

    for (unsigned i = 0; i < sizeof(in); i++)
        in[i] = (uint8_t)("balance "[i % 8] + i / 256);
    stream.avail_in = nf_function_run(in, sizeof(in), packed, MOST);
    if (!stream.avail_in || stream.avail_in > 200 || inflateInit2(&stream, -15) != Z_OK)
        return 0;
    status = inflate(&stream, Z_FINISH);
    inflateEnd(&stream);
    return status == Z_STREAM_END && !memcmp(in, back, sizeof(in));
}
