/*
 * crypto.c (oracle) - ciphers and digests by OpenSSL and zlib: the judge of the interpreter's and
 * of what targets compute. Built once, loaded beside the programs.
 */
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <zlib.h>

/* OpenSSL's name of a mode with a key of so many bytes. */
static const EVP_CIPHER *cipher(uint32_t key, const char *mode)
{
    char name[32];
    snprintf(name, sizeof(name), "aes-%u-%s", 8 * key, mode);
    return EVP_get_cipherbyname(name);
}

/* Padding is off, so the last call gives nothing: what is left over is no whole block. */
static bool ciphered(const EVP_CIPHER *of, int encrypts, uint8_t *bytes, uint32_t n,
                     const uint8_t *const *args)
{
    uint8_t out[65536 + 32];
    int some = 0, more = 0;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    bool ok = EVP_CipherInit(context, of, args[0], args[1], encrypts) &&
              EVP_CIPHER_CTX_set_padding(context, 0) &&
              EVP_CipherUpdate(context, out, &some, bytes, (int)n) &&
              EVP_CipherFinal(context, out + some, &more) && some + more == (int)n;
    if (ok)
        memcpy(bytes, out, n);
    EVP_CIPHER_CTX_free(context);
    return ok;
}

static bool gcm(int encrypts, uint8_t *bytes, uint32_t n, const uint8_t *const *args,
                const uint32_t *sizes, void *tag)
{
    uint8_t out[65536 + 32];
    int some = 0, more = 0;
    EVP_CIPHER_CTX *context = EVP_CIPHER_CTX_new();
    bool ok = EVP_CipherInit(context, cipher(sizes[0], "gcm"), args[0], args[1], encrypts) &&
              EVP_CipherUpdate(context, NULL, &some, args[2], (int)sizes[2]) &&
              EVP_CipherUpdate(context, out, &some, bytes, (int)n) &&
              (encrypts || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, 16, tag)) &&
              EVP_CipherFinal(context, out + some, &more) &&
              (!encrypts || EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, 16, tag));
    if (ok)
        memcpy(bytes, out, n);
    EVP_CIPHER_CTX_free(context);
    return ok;
}

/* In regex.c. */
uint32_t nf_regex_judge(const char *lines, const uint8_t *bytes, uint32_t n);

/* Does what `nf_` and this word mean to n bytes. Behind the arguments is where to write what it
 * gives. */
bool nf_judge(const char *word, uint8_t *bytes, uint32_t n, const uint8_t *const *args,
              const uint32_t *sizes)
{
    if (strcmp(word, "aes_ctr") == 0)
        return ciphered(cipher(sizes[0], "ctr"), 1, bytes, n, args);
    if (strcmp(word, "aes_cbc_encrypt") == 0)
        return ciphered(cipher(sizes[0], "cbc"), 1, bytes, n, args);
    if (strcmp(word, "aes_cbc_decrypt") == 0)
        return ciphered(cipher(sizes[0], "cbc"), 0, bytes, n, args);
    if (strcmp(word, "aes_gcm_seal") == 0)
        return gcm(1, bytes, n, args, sizes, (void *)args[3]);
    if (strcmp(word, "aes_gcm_open") == 0)
        return gcm(0, bytes, n, args, sizes, (void *)args[3]);
    if (strcmp(word, "sha256") == 0)
        return EVP_Digest(bytes, n, (void *)args[0], NULL, EVP_get_digestbyname("sha256"), NULL);
    if (strcmp(word, "hmac_sha256") == 0)
        return HMAC(EVP_get_digestbyname("sha256"), args[0], (int)sizes[0], bytes, n,
                    (void *)args[1], NULL) != NULL;
    if (strcmp(word, "regex") == 0) {
        uint32_t pattern = nf_regex_judge((const char *)args[0], bytes, n);
        memcpy((void *)args[1], &pattern, 4);
        return true;
    }
    uint32_t sum = (uint32_t)crc32(0, bytes, n);
    memcpy((void *)args[0], &sum, 4);
    return strcmp(word, "crc32") == 0;
}
