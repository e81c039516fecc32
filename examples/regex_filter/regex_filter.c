/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * regex_filter: drops TCP and UDP packets of which the payload matches a rule, counts what each
 * rule matched, and only counts the last one. All else passes between two ports unchanged.
 */
#include <nicforge.h>

/* Bytes of a payload that are searched. */
#define DEPTH 1460

/* One a line; nf_regex tells which matched. */
#define RULES                                                                                      \
    "^(GET|POST) /admin[/ ]\n"                                                                     \
    "(?i)cmd[.]exe\n"                                                                              \
    "\\x90{16}\n"                                                                                  \
    "(?i)union\\s+select"
enum { NONE, ADMIN, SHELL, SLED, INJECTION };

NF_TABLE(array, hits, uint32_t, uint64_t, 5);

/* Moves the cursor behind a transport header; false if there is none. */
static bool payload(nf_pkt pkt, uint8_t protocol)
{
    struct nf_tcp tcp;
    if (protocol == NF_IP_UDP)
        return nf_strip(pkt, sizeof(struct nf_udp));
    if (protocol != NF_IP_TCP || !nf_extract(pkt, &tcp) || tcp.offset < 5)
        return false;
    return nf_strip(pkt, 4 * (tcp.offset - 5));
}

void net_recv(nf_pkt pkt)
{
    struct nf_eth eth;
    struct nf_ipv4 ip;
    uint32_t rule = NONE;
    if (nf_extract(pkt, &eth) && eth.type == nf_htons(NF_ETH_IPV4) && nf_extract(pkt, &ip) &&
        ip.ihl >= 5 && nf_strip(pkt, 4 * (ip.ihl - 5)) && payload(pkt, ip.protocol))
        rule = nf_regex(pkt, DEPTH, RULES);
    if (rule != NONE)
        nf_add_value(&hits, rule, 1);
    if (rule != NONE && rule != INJECTION) {
        nf_drop(pkt, "matches a rule");
        return;
    }
    nf_reset(pkt);
    nf_send(pkt, 1 - (nf_port(pkt) & 1));
}
