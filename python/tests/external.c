/* A function that programs in test_external.py call: it has state, so calls are counted. */
#include <stdint.h>

static uint32_t calls;

uint32_t numbered(uint32_t of)
{
    calls = calls + 1;
    return of * 1000 + calls;
}
