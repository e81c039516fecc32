/* SPDX-License-Identifier: Apache-2.0 OR MIT
 * Headers as Alkali's programs have them: IPv4 with one word of options. */
#ifndef ALKALI_HEADERS_H
#define ALKALI_HEADERS_H

#include <nicforge.h>

struct NF_PACKED ipv4_options {
    nf_be16 misc;
    nf_be16 length;
    nf_be16 id;
    nf_be16 frag;
    nf_be16 ttl_protocol;
    nf_be16 csum;
    nf_be32 src;
    nf_be32 dst;
    nf_be32 options;
};

#endif
