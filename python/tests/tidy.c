/* A function that test_memory.py calls: puts the eight words of a line in order. */
#include <stdint.h>

void tidy(void *line)
{
    uint64_t *words = line;
    for (int from = 1; from < 8; from++) {
        for (int at = from; at > 0 && words[at - 1] > words[at]; at--) {
            uint64_t word = words[at];
            words[at] = words[at - 1];
            words[at - 1] = word;
        }
    }
}
