/* C that the subset has no words for: pointers that move, variables that stay, a library. */
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct item {
    uint32_t source;
    uint16_t length;
    uint8_t ttl;
    uint8_t rest;
    uint8_t text[16];
};

uint32_t weigh(const struct item *item, uint16_t factor)
{
    uint32_t sum = 0;
    for (const uint8_t *at = (const uint8_t *)item; at < (const uint8_t *)(item + 1); at++)
        sum += *at * factor;
    return sum;
}

static int64_t calls;

int64_t count_calls(int32_t step) { return calls += step; }

void spell(struct item *item, const uint8_t *digits, uint32_t length)
{
    char *text = malloc(sizeof(item->text));
    uint32_t number = item->length;
    memset(text, 0, sizeof(item->text));
    for (char *at = text; number > 0; number /= length)
        *at++ = (char)digits[number % length];
    memcpy(item->text, text, sizeof(item->text));
    free(text);
}

bool is_odd(uint64_t number) { return number & 1; }

/* For tests: a function that does what it must not. */
uint32_t crash(const struct item *item)
{
    return *(volatile uint32_t *)(uintptr_t)(item->length - item->length);
}
