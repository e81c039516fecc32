/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * AES-256-GCM and then SHA-256 of the ciphertext, with OpenSSL: the result is the tag and the
 * digest. Key and nonce are fixed, so that results can be compared; a real service would not do
 * that.
 */
/* libraries: crypto */
#include <openssl/evp.h>
#include <string.h>

#include "nf_function.h"

enum { TAG = 16, DIGEST = 32, MOST = 4096 };

static uint32_t seal(const uint8_t *in, uint32_t length, uint8_t *text, uint8_t *tag)
{
    static const uint8_t key[32], nonce[12];
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int size = 0, rest = 0;
    int good = context && EVP_EncryptInit_ex(context, EVP_aes_256_gcm(), NULL, key, nonce) &&
               EVP_EncryptUpdate(context, text, &size, in, (int)length) &&
               EVP_EncryptFinal_ex(context, text + size, &rest) &&
               EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, TAG, tag);

    EVP_CIPHER_CTX_free(context);
    return good ? (uint32_t)(size + rest) : UINT32_MAX;
}

uint32_t nf_function_run(const uint8_t *in, uint32_t length, uint8_t *out, uint32_t room)
{
    uint8_t text[MOST];
    unsigned size = DIGEST;

    if (length > MOST || room < TAG + DIGEST || seal(in, length, text, out) != length)
        return 0;
    if (!EVP_Digest(text, length, out + TAG, &size, EVP_sha256(), NULL))
        return 0;
    return TAG + DIGEST;
}

int nf_function_check(void)
{
    /* Test case 14 of the GCM specification: zero key, nonce and block. */
    static const uint8_t want[TAG] = {0xd0, 0xd1, 0xc8, 0xa7, 0x99, 0x99, 0x6b, 0xf0,
                                      0x26, 0x5b, 0x98, 0xb5, 0xd4, 0x8a, 0xb9, 0x19};
    static const uint8_t block[16];
    uint8_t out[TAG + DIGEST];

    return nf_function_run(block, 16, out, sizeof(out)) == sizeof(out) && !memcmp(out, want, TAG);
}
