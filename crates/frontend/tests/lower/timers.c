// test: lower
#include <nicforge.h>

#define PERIOD 250

NF_TABLE(array, seen, uint32_t, uint32_t, 2);

NF_TIMER(NF_US(PERIOD))
NF_MAX_REPLICAS(1)
void often(void) { nf_add_value(&seen, 0, 1); }

NF_TIMER(NF_SEC(1))
void seldom(void) { nf_add_value(&seen, 1, 1); }
