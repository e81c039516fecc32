/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * RSA-2048 signatures, X25519 agreement and ECDSA P-384 signatures with OpenSSL, by the first byte
 * of the payload. Keys are made at the start and signatures are checked in place, so the result is
 * whether it was right: 1.
 */
/* libraries: crypto */
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <string.h>

#include "nf_function.h"

static EVP_PKEY *rsa, *dsa, *ours, *theirs;

static int build(void)
{
    if (!theirs) {
        rsa = EVP_RSA_gen(2048);
        dsa = EVP_EC_gen("P-384");
        ours = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
        theirs = EVP_PKEY_Q_keygen(NULL, NULL, "X25519");
    }
    return rsa && dsa && ours && theirs;
}

static int sign(EVP_PKEY *key, const uint8_t *in, size_t length)
{
    uint8_t signature[512];
    size_t size = sizeof(signature);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    int good = context && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) > 0 &&
               EVP_DigestSign(context, signature, &size, in, length) > 0;

    EVP_MD_CTX_free(context);
    context = EVP_MD_CTX_new();
    good = good && context && EVP_DigestVerifyInit(context, NULL, EVP_sha256(), NULL, key) > 0 &&
           EVP_DigestVerify(context, signature, size, in, length) == 1;
    EVP_MD_CTX_free(context);
    return good;
}

static int derive(EVP_PKEY *own, EVP_PKEY *peer, uint8_t secret[32])
{
    size_t size = 32;
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(own, NULL);
    int good = context && EVP_PKEY_derive_init(context) > 0 &&
               EVP_PKEY_derive_set_peer(context, peer) > 0 &&
               EVP_PKEY_derive(context, secret, &size) > 0 && size == 32;

    EVP_PKEY_CTX_free(context);
    return good;
}

static int agree(void)
{
    uint8_t one[32], other[32];

    return derive(ours, theirs, one) && derive(theirs, ours, other) && !memcmp(one, other, 32);
}

uint32_t nf_function_run(const uint8_t *in, uint32_t length, uint8_t *out, uint32_t room)
{
    uint8_t kind = length ? in[0] % 3 : 0;

    if (room < 4 || !build())
        return 0;
    nf_put(out, (uint32_t)(kind == 0   ? sign(rsa, in, length)
                           : kind == 1 ? agree()
                                       : sign(dsa, in, length)));
    return 4;
}

int nf_function_check(void)
{
    uint8_t out[4];

    for (uint8_t kind = 0; kind < 3; kind++)
        if (nf_function_run(&kind, 1, out, 4) != 4 || out[0] != 1)
            return 0;
    return 1;
}
