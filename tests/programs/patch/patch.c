/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * patch: what comes in by one port goes out by the other, as it is.
 */
#include <nicforge.h>

NF_PORTS(2);

void net_recv(nf_pkt pkt) { nf_send(pkt, 1 - nf_port(pkt)); }
