/* Encrypts what comes: AES-128 in CBC mode (NIST SP 800-38A), by OpenSSL or by the processor's
 * instructions.
 *
 *     aes openssl|aes-ni RUN.sock    until the run ends; says what a block cost
 *     aes bench                      both on 1,024 bytes, in this process
 *
 * CBC of one packet is a chain: each block waits for the one before it, so a packet takes 10 rounds
 * of latency a block whatever the processor could do at once.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <wmmintrin.h>

#include <openssl/evp.h>

#include "aes_host.h"

#define BLOCKS 64

static const uint8_t key[16] = "sixteen byte key", start[16] = "an initial block";

typedef void (*cipher)(uint8_t *bytes, unsigned blocks);

static void by_openssl(uint8_t *bytes, unsigned blocks)
{
    static EVP_CIPHER_CTX *context;
    int length = 0;
    if (!context && (context = EVP_CIPHER_CTX_new()))
        EVP_EncryptInit_ex(context, EVP_aes_128_cbc(), NULL, key, NULL);
    /* The key's schedule stays; the chain begins anew. */
    if (!context || !EVP_EncryptInit_ex(context, NULL, NULL, NULL, start) ||
        !EVP_EncryptUpdate(context, bytes, &length, bytes, (int)(16 * blocks)) ||
        length != (int)(16 * blocks))
        abort();
}

#define STEP(i, constant)                                                                          \
    do {                                                                                           \
        __m128i word =                                                                             \
                    _mm_shuffle_epi32(_mm_aeskeygenassist_si128(round_keys[i], constant), 0xff),   \
                x = round_keys[i];                                                                 \
        x = _mm_xor_si128(x, _mm_slli_si128(x, 4));                                                \
        x = _mm_xor_si128(x, _mm_slli_si128(x, 8));                                                \
        round_keys[i + 1] = _mm_xor_si128(x, word);                                                \
    } while (0)

__attribute__((target("aes,sse2"))) static void by_instructions(uint8_t *bytes, unsigned blocks)
{
    static __m128i round_keys[11];
    static bool expanded;
    if (!expanded) {
        round_keys[0] = _mm_loadu_si128((const __m128i *)key);
        STEP(0, 0x01);
        STEP(1, 0x02);
        STEP(2, 0x04);
        STEP(3, 0x08);
        STEP(4, 0x10);
        STEP(5, 0x20);
        STEP(6, 0x40);
        STEP(7, 0x80);
        STEP(8, 0x1b);
        STEP(9, 0x36);
        expanded = true;
    }
    __m128i chain = _mm_loadu_si128((const __m128i *)start);
    for (unsigned i = 0; i < blocks; i++) {
        __m128i *at = (__m128i *)(bytes + 16 * i);
        chain = _mm_xor_si128(_mm_xor_si128(_mm_loadu_si128(at), chain), round_keys[0]);
        for (unsigned round = 1; round < 10; round++)
            chain = _mm_aesenc_si128(chain, round_keys[round]);
        chain = _mm_aesenclast_si128(chain, round_keys[10]);
        _mm_storeu_si128(at, chain);
    }
}

static uint64_t now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

static int bench(void)
{
    static uint8_t one[16 * BLOCKS], other[16 * BLOCKS];
    const cipher both[2] = {by_openssl, by_instructions};
    double best[2] = {1e18, 1e18};
    for (int turn = 0; turn < 40; turn++) {
        uint64_t before = now();
        for (int i = 0; i < 500; i++)
            both[turn % 2](turn % 2 ? other : one, BLOCKS);
        double ns = (double)(now() - before) / 500;
        best[turn % 2] = ns < best[turn % 2] ? ns : best[turn % 2];
    }
    if (memcmp(one, other, sizeof(one)))
        return 1;
    printf("1024 bytes: OpenSSL %.0f ns, instructions %.0f ns, ratio %.2f\n", best[0], best[1],
           best[1] / best[0]);
    return 0;
}

static void answer(struct nf_attach *run, const struct aes_tag *tag, const uint8_t *bytes,
                   unsigned blocks)
{
    for (unsigned done = 0; done < blocks; done += 8) {
        unsigned count = blocks - done < 8 ? blocks - done : 8;
        struct aes_part part = {.tag = *tag, .blocks = count, .last = done + count == blocks};
        memcpy(part.block, bytes + 16 * done, 16 * count);
        while (aes_send(run, &part) == -EAGAIN)
            poll(NULL, 0, 1);
    }
}

int main(int argc, char **argv)
{
    if (argc == 2 && !strcmp(argv[1], "bench"))
        return bench();
    cipher kernel = argc == 3 && !strcmp(argv[1], "openssl")  ? by_openssl
                    : argc == 3 && !strcmp(argv[1], "aes-ni") ? by_instructions
                                                              : NULL;
    if (!kernel || !__builtin_cpu_supports("aes")) {
        fprintf(stderr, kernel ? "this processor has no AES instructions\n"
                               : "usage: aes openssl|aes-ni RUN.sock\n");
        return kernel ? 3 : 2;
    }
    struct nf_attach run;
    int status = aes_attach(&run, argv[2]);
    if (status) {
        fprintf(stderr, "%s: %s\n", argv[2], strerror(-status));
        return 1;
    }
    uint64_t blocks = 0, spent = 0;
    uint8_t first[16] = {0};
    kernel(first, 1); /* tables and keys are made here, not in the first request */
    for (;;) {
        struct {
            struct aes_tag tag;
            uint8_t bytes[16 * BLOCKS];
        } request;
        enum nf_attach_kind kind;
        status = aes_receive(&run, &kind, &request, sizeof(request));
        if (status == -EAGAIN) {
            struct pollfd fd = {nf_attach_fd(&run), POLLIN, 0};
            poll(&fd, 1, -1);
            continue;
        }
        if (status < 0)
            break;
        unsigned count = ((unsigned)status - sizeof(request.tag)) / 16;
        if (kind != NF_ATTACH_PACKET || (unsigned)status <= sizeof(request.tag) || count > BLOCKS)
            continue;
        uint64_t before = now();
        kernel(request.bytes, count);
        spent += now() - before;
        blocks += count;
        answer(&run, &request.tag, request.bytes, count);
    }
    printf("%s: %llu blocks, %.1f ns each\n", argv[1], (unsigned long long)blocks,
           blocks ? (double)spent / (double)blocks : 0.0);
    return 0;
}
