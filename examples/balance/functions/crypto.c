/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * crypto.c - OpenSSL on packets: `sha256` (digest), `aes` (AES-128 in counter mode; the packet's first 16 bytes are the
 * counter's start), `rsa` (signature, 2048 bits, PKCS #1), `dh` (X25519 with the public key in the packet's first 32
 * bytes), `dsa` (ECDSA signature, P-384). Keys are in files beside the program, which `make` had made.
 */
#include <limits.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "function.h"

static const uint8_t aes_key[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

struct engine {
    enum { SHA256_DIGEST, AES, RSA_SIGN, X25519_AGREE, DSA_SIGN } kind;
    EVP_PKEY *key;
};

static EVP_PKEY *read_key(const char *name)
{
    char path[PATH_MAX];
    ssize_t size = readlink("/proc/self/exe", path, sizeof path - 64);
    path[size > 0 ? size : 0] = 0;
    char *slash = strrchr(path, '/');
    if (!slash)
        return NULL;
    snprintf(slash, sizeof path - (size_t)(slash - path), "/keys/%s.pem", name);
    FILE *file = fopen(path, "r");
    if (!file) {
        perror(path);
        return NULL;
    }
    EVP_PKEY *key = PEM_read_PrivateKey(file, NULL, NULL, NULL);
    fclose(file);
    if (!key)
        ERR_print_errors_fp(stderr);
    return key;
}

static void *crypto_make(const char *config, struct arena *arena)
{
    (void)arena;
    static const char *const names[] = {"sha256", "aes", "rsa", "dh", "dsa"};
    int kind = 0;
    while (config && kind < 5 && strcmp(names[kind], config) != 0)
        kind++;
    if (kind == 5) {
        fprintf(stderr, "crypto: `%s` is not one of sha256, aes, rsa, dh, dsa\n", config);
        return NULL;
    }
    struct engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return NULL;
    engine->kind = kind;
    if (kind >= RSA_SIGN && !(engine->key = read_key(names[kind])))
        return NULL;
    return engine;
}

static ssize_t encrypt(const uint8_t *packet, size_t size, uint8_t *result, size_t room)
{
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    int length = -1;
    if (!context || size < 16 || room < size ||
        !EVP_EncryptInit_ex(context, EVP_aes_128_ctr(), NULL, aes_key, packet) ||
        !EVP_EncryptUpdate(context, result, &length, packet, (int)size))
        length = -1;
    EVP_CIPHER_CTX_free(context);
    return length;
}

static ssize_t sign(EVP_PKEY *key, const uint8_t *packet, size_t size, uint8_t *result, size_t room)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    size_t length = room;
    bool fine = context && EVP_DigestSignInit(context, NULL, EVP_sha256(), NULL, key) == 1 &&
                EVP_DigestSign(context, result, &length, packet, size) == 1;
    EVP_MD_CTX_free(context);
    return fine ? (ssize_t)length : -1;
}

static ssize_t agree(EVP_PKEY *key, const uint8_t *packet, size_t size, uint8_t *result, size_t room)
{
    size_t length = room;
    if (size < 32)
        return -1;
    EVP_PKEY *peer = EVP_PKEY_new_raw_public_key(EVP_PKEY_X25519, NULL, packet, 32);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new(key, NULL);
    bool fine = peer && context && EVP_PKEY_derive_init(context) == 1 && EVP_PKEY_derive_set_peer(context, peer) == 1 &&
                EVP_PKEY_derive(context, result, &length) == 1;
    EVP_PKEY_CTX_free(context);
    EVP_PKEY_free(peer);
    return fine ? (ssize_t)length : -1;
}

static ssize_t crypto_serve(void *state, uint8_t *packet, size_t size, uint8_t *result, size_t room)
{
    const struct engine *engine = state;
    unsigned length = 0;
    switch (engine->kind) {
    case SHA256_DIGEST:
        if (room < 32 || EVP_Digest(packet, size, result, &length, EVP_sha256(), NULL) != 1)
            return -1;
        return (ssize_t)length;
    case AES:
        return encrypt(packet, size, result, room);
    case X25519_AGREE:
        return agree(engine->key, packet, size, result, room);
    default:
        return sign(engine->key, packet, size, result, room);
    }
}

static size_t crypto_packet(const void *state, uint64_t number, uint8_t *packet)
{
    const struct engine *engine = state;
    size_t size = engine->kind == X25519_AGREE ? 32 : 1024;
    for (size_t at = 0; at < size; at += 8)
        store64(packet + at, mix(number * 1024 + at));
    if (engine->kind == X25519_AGREE)
        packet[31] &= 0x7f;
    return size;
}

const struct function crypto = {
    .name = "crypto",
    .what = "OpenSSL: sha256 (or aes, rsa, dh, dsa)",
    .make = crypto_make,
    .serve = crypto_serve,
    .packet = crypto_packet,
};
