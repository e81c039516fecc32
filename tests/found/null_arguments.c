/* Pointers that may be left out of a call, and arrays of pointers that nothing changes. */
#include <nicforge.h>

struct told {
    uint32_t key;
    uint16_t code;
    uint8_t bytes[6];
    uint64_t sum;
};

struct stats {
    uint32_t seen;
    uint32_t odd;
};

static struct stats stats[4];
static const char *methods[] = {"GET ", "POST ", "DELETE "};
static const uint8_t first[4] = {1, 2, 3, 4}, second[4] = {9, 8, 7, 6};
static const uint8_t *const keys[] = {first, second, &first[2]};

#define COUNT(x) (sizeof(x) / sizeof((x)[0]))

static uint32_t parse(const struct told *told, uint32_t *hash, struct stats *counted)
{
    if (counted) {
        counted->seen++;
        if (told->key & 1)
            counted->odd++;
    }
    if (!hash)
        return told->key & 3;
    *hash = nf_hash(0, told->key);
    return hash && counted ? 1 : 2;
}

static uint32_t parse_without_2(void) { return 9; }

/* A pointer that is set where it is null. */
static uint32_t seen_of(const struct stats *counted, uint32_t more)
{
    static const struct stats none = {7, 8};
    if (!counted)
        counted = &none;
    return counted ? counted->seen + more : 1;
}

/* A pointer that is handed on, and read where it is never null (generated program 1130042). */
static uint32_t rate_of(const struct stats *counted, const uint8_t *bytes, bool is_known)
{
    static const struct stats none = {3, 4};
    const struct stats *of = &none;
    if (is_known)
        of = counted;
    uint32_t rate = is_known ? counted->odd + bytes[1] + *bytes : 5;
    return rate * 7 + of->seen;
}

void net_recv(nf_pkt pkt)
{
    struct told told;
    if (!nf_extract(pkt, &told)) {
        nf_drop(pkt, "short");
        return;
    }
    uint32_t hash = 0, number = parse(&told, NULL, NULL);
    struct stats *counted = told.code & 1 ? &stats[number] : NULL;
    told.sum += parse(&told, &hash, counted) + hash;
    for (unsigned i = 0; i < COUNT(methods); i++) {
        const char *method = methods[i];
        for (int j = 0; j < 4 && method[j]; j++)
            told.sum = told.sum * 31 + method[j];
        told.sum += methods[i][0] == (told.key & 0xff);
    }
    told.sum += keys[told.code % 3][told.key & 1];
    told.sum += parse(&told, NULL, &stats[number]) + parse_without_2();
    told.sum += seen_of(NULL, 1) + seen_of(&stats[number], 2) + seen_of(counted, 3);
    told.sum += rate_of(counted, counted ? told.bytes : NULL, counted != NULL);
    told.sum += rate_of(NULL, NULL, false) + rate_of(&stats[number], told.bytes, true);
    uint8_t *parts[2] = {told.bytes, (uint8_t *)&told.key};
    parts[told.code >> 3 & 1][1] ^= 5;
    nf_emit(pkt, &told);
    nf_send(pkt, 0);
}
