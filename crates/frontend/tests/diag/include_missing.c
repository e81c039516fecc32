// test: check
#include <nicforge.h>
#include "missing.h"
void net_recv(nf_pkt pkt) { nf_drop(pkt); }
