/* What sign.c calls: a library with pointers, lengths and allocations of its own, which the subset
 * knows nothing of. */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

struct block {
    uint8_t b[32];
};

struct tag {
    uint8_t b[16];
};

static const char key[] = "a key for an example";

bool hmac_tag(const struct block *block, struct tag *tag)
{
    uint8_t digest[EVP_MAX_MD_SIZE];
    unsigned length = 0;
    if (!HMAC(EVP_sha256(), key, sizeof(key) - 1, block->b, sizeof(block->b), digest, &length) ||
        length < sizeof(tag->b))
        return false;
    memcpy(tag->b, digest, sizeof(tag->b));
    return true;
}
