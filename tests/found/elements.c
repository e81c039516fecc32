/* Pointers that move and are indexed, and memory that functions get from their callers. */
#include <nicforge.h>

struct pair {
    uint8_t kind;
    uint8_t size;
    uint16_t value;
};

struct header {
    uint8_t mac[6];
    uint16_t length;
    uint8_t data[24];
    struct pair pairs[4];
};

static const uint16_t weights[16] = {1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610, 987, 1};

static uint32_t mixed(const uint8_t *mac)
{
    uint32_t sum = 0;
    if (!mac)
        return 0;
    for (int i = 0; i < 6; i++)
        sum = sum * 31 + mac[i];
    return sum;
}

static uint32_t of_array(const uint8_t mac[6]) { return mixed(mac) ^ *mac ^ mac[5]; }

static void copy_mac(uint8_t *to, const uint8_t *from)
{
    for (int i = 0; i < 6; i++)
        *to++ = *from++;
}

static uint16_t checksum(const void *data, int len)
{
    const uint16_t *word = data;
    uint32_t sum = 0;
    while (len > 1) {
        sum += *word++;
        len -= 2;
    }
    if (len)
        sum += *(const uint8_t *)word;
    sum = (sum >> 16) + (sum & 0xffff);
    sum += sum >> 16;
    return (uint16_t)~sum;
}

static uint32_t word_at(const uint8_t *bytes, uint32_t at)
{
    return *(const uint32_t *)(bytes + at);
}

static void put_word(uint8_t *bytes, uint32_t at, uint32_t word) { *(uint32_t *)&bytes[at] = word; }

static uint16_t weight(const uint16_t *of, uint32_t number) { return of[number & 7]; }

static uint32_t position(const uint8_t *bytes, uint32_t count, uint8_t wanted)
{
    const uint8_t *start = bytes, *end = bytes + count;
    for (int i = 0; i < 24 && bytes != end; i++, bytes++)
        if (*bytes == wanted)
            return (uint32_t)(bytes - start);
    return 99;
}

static void sort(struct pair *pairs, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++)
        for (struct pair *at = &pairs[i], *end = pairs; at > end; at--) {
            if (at[-1].value <= at->value)
                break;
            struct pair kept = *at;
            *at = at[-1];
            *(at - 1) = kept;
        }
}

static uint32_t second_half(uint8_t *bytes, uint32_t count)
{
    uint8_t *half = bytes + count / 2;
    half[0] ^= 0x55;
    copy_mac(half + 1, bytes);
    return mixed(half);
}

static uint32_t between(const uint8_t *at, const uint8_t *end)
{
    uint32_t sum = 0;
    while (at < end) {
        NF_BOUND(24);
        sum += *at++;
    }
    return sum + (at == end ? end - at : 7);
}

union word {
    uint32_t all;
    uint16_t half[2];
};

static void add_twice(uint32_t *all, const uint16_t *half)
{
    *all += *half;
    *all += *half;
}

static void clear(void *memory) { memset(memory, 0, 4); }

void net_recv(nf_pkt pkt)
{
    struct header header;
    uint8_t copy[6];
    if (!nf_extract(pkt, &header)) {
        nf_drop(pkt, "short");
        return;
    }
    copy_mac(copy, header.mac);
    header.length ^= checksum(&header, sizeof header) ^ checksum(header.data, 5);
    header.length += weight(weights, header.length) + weight(&weights[8], header.length);
    uint32_t sum = mixed(copy) ^ of_array(header.mac) ^ word_at(header.data, header.length % 20);
    sum ^= word_at((uint8_t *)&header, 3) + word_at(header.data + 4, sum % 17);
    put_word(header.data, sum % 20, sum);
    uint8_t *cursor = header.data, *end = header.data + sizeof header.data;
    while (cursor < end) {
        if (*cursor == 7) {
            cursor += 2;
            continue;
        }
        *cursor ^= 1;
        cursor++;
    }
    cursor = header.data + 3;
    cursor[-1] += cursor[sum % 19];
    sum += position(header.data, 24, 5) + *cursor + cursor[1] + mixed(&header.data[sum % 16]);
    sort(header.pairs, 4);
    sum += second_half(header.data, 16);
    const struct pair *pair;
    pair = &header.pairs[sum & 1];
    uint32_t steps = 0;
    for (; pair < header.pairs + 4 && steps < 4; steps++) {
        if (pair->kind & 1)
            pair++;
        pair += 1 + (pair->size & 1);
        sum += pair - header.pairs;
    }
    sum ^=
        between(header.data, header.data + 9) + between(&header.data[sum % 24], &header.data[24]);
    union word word = {sum};
    add_twice(&word.all, &word.half[1]);
    add_twice(&sum, (uint16_t *)&sum);
    add_twice((uint32_t *)header.pairs, &header.pairs[0].value);
    sum ^= word.all;
    clear(&header.pairs[3]);
    clear(copy);
    header.mac[0] ^= (uint8_t)sum + copy[5];
    put_word((void *)header.pairs, 5, sum);
    nf_emit(pkt, &header);
    nf_send(pkt, sum & 1);
}
