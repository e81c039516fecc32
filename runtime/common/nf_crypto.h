/*
 * nf_crypto.h (common) - ciphers and digests over bytes of a frame, for cores that have neither an
 * operating system nor its libraries, and OpenSSL's where NF_OPENSSL is defined. Whoever includes
 * it has u8, u32 and u64. Instructions of AES are not used; tables make times depend on data, so a
 * core that keeps a secret from its other programs wants OpenSSL.
 *
 * Every function takes the frame, the offset and the number of bytes that are asked for, then each
 * argument with its size, then where to write what it gives; what it returns says whether it did
 * it.
 */
#ifndef NF_CRYPTO_H
#define NF_CRYPTO_H

#define NF_CRYPTO static __attribute__((unused))
#define NF_FRAME_PART const u8 *data, const u8 *end, u64 off, u32 want

/* How many of the bytes that are asked for are there. */
NF_CRYPTO u32 nf_part(const u8 *data, const u8 *end, u64 off, u32 want)
{
    u64 n = (u64)(end - data) - off;
    return n < want ? (u32)n : want;
}

#ifdef NF_OPENSSL
#include <openssl/evp.h>
#include <openssl/hmac.h>

#define NF_BY_KEY(size, mode)                                                                      \
    ((size) == 16   ? EVP_aes_128_##mode()                                                         \
     : (size) == 24 ? EVP_aes_192_##mode()                                                         \
                    : EVP_aes_256_##mode())

/* One message at a time and one context for each thread, so none is made for a packet. */
NF_CRYPTO EVP_CIPHER_CTX *nf_cipher(void)
{
    static _Thread_local EVP_CIPHER_CTX *context;
    if (context == NULL)
        context = EVP_CIPHER_CTX_new();
    return context;
}

NF_CRYPTO bool nf_ciphered(const EVP_CIPHER *cipher, int encrypts, u8 *p, u32 n, const void *key,
                           const void *iv)
{
    EVP_CIPHER_CTX *context = nf_cipher();
    int done;
    return EVP_CipherInit_ex(context, cipher, NULL, key, iv, encrypts) == 1 &&
           EVP_CIPHER_CTX_set_padding(context, 0) == 1 &&
           EVP_CipherUpdate(context, p, &done, p, (int)n) == 1;
}

NF_CRYPTO bool nf_aes_ctr(NF_FRAME_PART, const void *key, u32 size, const void *iv, u32 iv_size)
{
    (void)iv_size;
    return nf_ciphered(NF_BY_KEY(size, ctr), 1, (u8 *)data + off, nf_part(data, end, off, want),
                       key, iv);
}

NF_CRYPTO bool nf_aes_cbc_encrypt(NF_FRAME_PART, const void *key, u32 size, const void *iv,
                                  u32 iv_size)
{
    u32 n = nf_part(data, end, off, want);
    (void)iv_size;
    return n % 16 == 0 && nf_ciphered(NF_BY_KEY(size, cbc), 1, (u8 *)data + off, n, key, iv);
}

NF_CRYPTO bool nf_aes_cbc_decrypt(NF_FRAME_PART, const void *key, u32 size, const void *iv,
                                  u32 iv_size)
{
    u32 n = nf_part(data, end, off, want);
    (void)iv_size;
    return n % 16 == 0 && nf_ciphered(NF_BY_KEY(size, cbc), 0, (u8 *)data + off, n, key, iv);
}

NF_CRYPTO bool nf_aes_gcm_seal(NF_FRAME_PART, const void *key, u32 size, const void *nonce,
                               u32 nonce_size, const void *beside, u32 beside_size, void *tag)
{
    EVP_CIPHER_CTX *context = nf_cipher();
    u8 *p = (u8 *)data + off;
    int done, n = (int)nf_part(data, end, off, want);
    (void)nonce_size;
    return EVP_EncryptInit_ex(context, NF_BY_KEY(size, gcm), NULL, key, nonce) == 1 &&
           EVP_EncryptUpdate(context, NULL, &done, beside, (int)beside_size) == 1 &&
           EVP_EncryptUpdate(context, p, &done, p, n) == 1 &&
           EVP_EncryptFinal_ex(context, p + done, &done) == 1 &&
           EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, 16, tag) == 1;
}

/* OpenSSL decrypts before it knows the tag, so what does not fit is encrypted again. */
NF_CRYPTO bool nf_aes_gcm_open(NF_FRAME_PART, const void *key, u32 size, const void *nonce,
                               u32 nonce_size, const void *beside, u32 beside_size, const void *tag,
                               u32 tag_size)
{
    EVP_CIPHER_CTX *context = nf_cipher();
    u8 *p = (u8 *)data + off, again[16];
    int done, n = (int)nf_part(data, end, off, want);
    if (EVP_DecryptInit_ex(context, NF_BY_KEY(size, gcm), NULL, key, nonce) == 1 &&
        EVP_DecryptUpdate(context, NULL, &done, beside, (int)beside_size) == 1 &&
        EVP_DecryptUpdate(context, p, &done, p, n) == 1 &&
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_SET_TAG, (int)tag_size, (void *)tag) == 1 &&
        EVP_DecryptFinal_ex(context, p + done, &done) == 1)
        return true;
    nf_aes_gcm_seal(data, end, off, want, key, size, nonce, nonce_size, beside, beside_size, again);
    return false;
}

NF_CRYPTO bool nf_sha256(NF_FRAME_PART, void *digest)
{
    return EVP_Digest(data + off, nf_part(data, end, off, want), digest, NULL, EVP_sha256(),
                      NULL) == 1;
}

NF_CRYPTO bool nf_hmac_sha256(NF_FRAME_PART, const void *key, u32 size, void *digest)
{
    u32 n = nf_part(data, end, off, want);
    return HMAC(EVP_sha256(), key, (int)size, data + off, n, digest, NULL) != NULL;
}

#else

/* ---- AES (FIPS 197)
 * --------------------------------------------------------------------------------------------- */

static const u8 nf_aes_box[256] = {
    0x63, 0x7c, 0x77, 0x7b, 0xf2, 0x6b, 0x6f, 0xc5, 0x30, 0x01, 0x67, 0x2b, 0xfe, 0xd7, 0xab, 0x76,
    0xca, 0x82, 0xc9, 0x7d, 0xfa, 0x59, 0x47, 0xf0, 0xad, 0xd4, 0xa2, 0xaf, 0x9c, 0xa4, 0x72, 0xc0,
    0xb7, 0xfd, 0x93, 0x26, 0x36, 0x3f, 0xf7, 0xcc, 0x34, 0xa5, 0xe5, 0xf1, 0x71, 0xd8, 0x31, 0x15,
    0x04, 0xc7, 0x23, 0xc3, 0x18, 0x96, 0x05, 0x9a, 0x07, 0x12, 0x80, 0xe2, 0xeb, 0x27, 0xb2, 0x75,
    0x09, 0x83, 0x2c, 0x1a, 0x1b, 0x6e, 0x5a, 0xa0, 0x52, 0x3b, 0xd6, 0xb3, 0x29, 0xe3, 0x2f, 0x84,
    0x53, 0xd1, 0x00, 0xed, 0x20, 0xfc, 0xb1, 0x5b, 0x6a, 0xcb, 0xbe, 0x39, 0x4a, 0x4c, 0x58, 0xcf,
    0xd0, 0xef, 0xaa, 0xfb, 0x43, 0x4d, 0x33, 0x85, 0x45, 0xf9, 0x02, 0x7f, 0x50, 0x3c, 0x9f, 0xa8,
    0x51, 0xa3, 0x40, 0x8f, 0x92, 0x9d, 0x38, 0xf5, 0xbc, 0xb6, 0xda, 0x21, 0x10, 0xff, 0xf3, 0xd2,
    0xcd, 0x0c, 0x13, 0xec, 0x5f, 0x97, 0x44, 0x17, 0xc4, 0xa7, 0x7e, 0x3d, 0x64, 0x5d, 0x19, 0x73,
    0x60, 0x81, 0x4f, 0xdc, 0x22, 0x2a, 0x90, 0x88, 0x46, 0xee, 0xb8, 0x14, 0xde, 0x5e, 0x0b, 0xdb,
    0xe0, 0x32, 0x3a, 0x0a, 0x49, 0x06, 0x24, 0x5c, 0xc2, 0xd3, 0xac, 0x62, 0x91, 0x95, 0xe4, 0x79,
    0xe7, 0xc8, 0x37, 0x6d, 0x8d, 0xd5, 0x4e, 0xa9, 0x6c, 0x56, 0xf4, 0xea, 0x65, 0x7a, 0xae, 0x08,
    0xba, 0x78, 0x25, 0x2e, 0x1c, 0xa6, 0xb4, 0xc6, 0xe8, 0xdd, 0x74, 0x1f, 0x4b, 0xbd, 0x8b, 0x8a,
    0x70, 0x3e, 0xb5, 0x66, 0x48, 0x03, 0xf6, 0x0e, 0x61, 0x35, 0x57, 0xb9, 0x86, 0xc1, 0x1d, 0x9e,
    0xe1, 0xf8, 0x98, 0x11, 0x69, 0xd9, 0x8e, 0x94, 0x9b, 0x1e, 0x87, 0xe9, 0xce, 0x55, 0x28, 0xdf,
    0x8c, 0xa1, 0x89, 0x0d, 0xbf, 0xe6, 0x42, 0x68, 0x41, 0x99, 0x2d, 0x0f, 0xb0, 0x54, 0xbb, 0x16,
};

static const u8 nf_aes_box_back[256] = {
    0x52, 0x09, 0x6a, 0xd5, 0x30, 0x36, 0xa5, 0x38, 0xbf, 0x40, 0xa3, 0x9e, 0x81, 0xf3, 0xd7, 0xfb,
    0x7c, 0xe3, 0x39, 0x82, 0x9b, 0x2f, 0xff, 0x87, 0x34, 0x8e, 0x43, 0x44, 0xc4, 0xde, 0xe9, 0xcb,
    0x54, 0x7b, 0x94, 0x32, 0xa6, 0xc2, 0x23, 0x3d, 0xee, 0x4c, 0x95, 0x0b, 0x42, 0xfa, 0xc3, 0x4e,
    0x08, 0x2e, 0xa1, 0x66, 0x28, 0xd9, 0x24, 0xb2, 0x76, 0x5b, 0xa2, 0x49, 0x6d, 0x8b, 0xd1, 0x25,
    0x72, 0xf8, 0xf6, 0x64, 0x86, 0x68, 0x98, 0x16, 0xd4, 0xa4, 0x5c, 0xcc, 0x5d, 0x65, 0xb6, 0x92,
    0x6c, 0x70, 0x48, 0x50, 0xfd, 0xed, 0xb9, 0xda, 0x5e, 0x15, 0x46, 0x57, 0xa7, 0x8d, 0x9d, 0x84,
    0x90, 0xd8, 0xab, 0x00, 0x8c, 0xbc, 0xd3, 0x0a, 0xf7, 0xe4, 0x58, 0x05, 0xb8, 0xb3, 0x45, 0x06,
    0xd0, 0x2c, 0x1e, 0x8f, 0xca, 0x3f, 0x0f, 0x02, 0xc1, 0xaf, 0xbd, 0x03, 0x01, 0x13, 0x8a, 0x6b,
    0x3a, 0x91, 0x11, 0x41, 0x4f, 0x67, 0xdc, 0xea, 0x97, 0xf2, 0xcf, 0xce, 0xf0, 0xb4, 0xe6, 0x73,
    0x96, 0xac, 0x74, 0x22, 0xe7, 0xad, 0x35, 0x85, 0xe2, 0xf9, 0x37, 0xe8, 0x1c, 0x75, 0xdf, 0x6e,
    0x47, 0xf1, 0x1a, 0x71, 0x1d, 0x29, 0xc5, 0x89, 0x6f, 0xb7, 0x62, 0x0e, 0xaa, 0x18, 0xbe, 0x1b,
    0xfc, 0x56, 0x3e, 0x4b, 0xc6, 0xd2, 0x79, 0x20, 0x9a, 0xdb, 0xc0, 0xfe, 0x78, 0xcd, 0x5a, 0xf4,
    0x1f, 0xdd, 0xa8, 0x33, 0x88, 0x07, 0xc7, 0x31, 0xb1, 0x12, 0x10, 0x59, 0x27, 0x80, 0xec, 0x5f,
    0x60, 0x51, 0x7f, 0xa9, 0x19, 0xb5, 0x4a, 0x0d, 0x2d, 0xe5, 0x7a, 0x9f, 0x93, 0xc9, 0x9c, 0xef,
    0xa0, 0xe0, 0x3b, 0x4d, 0xae, 0x2a, 0xf5, 0xb0, 0xc8, 0xeb, 0xbb, 0x3c, 0x83, 0x53, 0x99, 0x61,
    0x17, 0x2b, 0x04, 0x7e, 0xba, 0x77, 0xd6, 0x26, 0xe1, 0x69, 0x14, 0x63, 0x55, 0x21, 0x0c, 0x7d,
};

struct nf_aes {
    u32 rounds;
    u32 keys[60]; /* words as they lie in memory: first byte lowest */
};

#define NF_ROTATE(x, n) (((x) >> (n)) | ((x) << (32 - (n))))

/* Four bytes times x in the field of AES. */
NF_CRYPTO u32 nf_aes_times(u32 x)
{
    return ((x & 0x7f7f7f7f) << 1) ^ (((x >> 7) & 0x01010101) * 0x1b);
}

/* A column times the matrix of MixColumns. */
NF_CRYPTO u32 nf_aes_mix(u32 x)
{
    u32 next = NF_ROTATE(x, 8);
    return nf_aes_times(x ^ next) ^ next ^ NF_ROTATE(x, 16) ^ NF_ROTATE(x, 24);
}

/* Four bytes of four words through a box. */
NF_CRYPTO u32 nf_aes_boxed(const u8 *box, u32 a, u32 b, u32 c, u32 d)
{
    return box[a & 0xff] | (u32)box[b >> 8 & 0xff] << 8 | (u32)box[c >> 16 & 0xff] << 16 |
           (u32)box[d >> 24] << 24;
}

NF_CRYPTO void nf_aes_expand(struct nf_aes *aes, const void *key, u32 size)
{
    u32 words = size / 4, constant = 1;
    aes->rounds = words + 6;
    __builtin_memcpy(aes->keys, key, size);
    for (u32 i = words; i < 4 * (aes->rounds + 1); i++) {
        u32 word = aes->keys[i - 1];
        if (i % words == 0) {
            word = NF_ROTATE(word, 8);
            word = nf_aes_boxed(nf_aes_box, word, word, word, word) ^ constant;
            constant = nf_aes_times(constant);
        } else if (words > 6 && i % words == 4) {
            word = nf_aes_boxed(nf_aes_box, word, word, word, word);
        }
        aes->keys[i] = aes->keys[i - words] ^ word;
    }
}

NF_CRYPTO void nf_aes_encrypt(const struct nf_aes *aes, u32 block[4])
{
    const u32 *key = aes->keys;
    u32 a = block[0] ^ key[0], b = block[1] ^ key[1], c = block[2] ^ key[2], d = block[3] ^ key[3];
    for (u32 round = 1;; round++) {
        u32 p = nf_aes_boxed(nf_aes_box, a, b, c, d), q = nf_aes_boxed(nf_aes_box, b, c, d, a);
        u32 r = nf_aes_boxed(nf_aes_box, c, d, a, b), s = nf_aes_boxed(nf_aes_box, d, a, b, c);
        key += 4;
        if (round == aes->rounds) {
            block[0] = p ^ key[0];
            block[1] = q ^ key[1];
            block[2] = r ^ key[2];
            block[3] = s ^ key[3];
            return;
        }
        a = nf_aes_mix(p) ^ key[0];
        b = nf_aes_mix(q) ^ key[1];
        c = nf_aes_mix(r) ^ key[2];
        d = nf_aes_mix(s) ^ key[3];
    }
}

/* A column times the inverse of the matrix of MixColumns: that matrix's fourth power is one. */
NF_CRYPTO u32 nf_aes_mix_back(u32 x)
{
    return nf_aes_mix(x ^ nf_aes_times(nf_aes_times(x ^ NF_ROTATE(x, 16))));
}

NF_CRYPTO void nf_aes_decrypt(const struct nf_aes *aes, u32 block[4])
{
    const u32 *key = aes->keys + 4 * aes->rounds;
    u32 a = block[0] ^ key[0], b = block[1] ^ key[1], c = block[2] ^ key[2], d = block[3] ^ key[3];
    for (u32 round = 1;; round++) {
        const u8 *box = nf_aes_box_back;
        key -= 4;
        u32 p = nf_aes_boxed(box, a, d, c, b) ^ key[0], q = nf_aes_boxed(box, b, a, d, c) ^ key[1];
        u32 r = nf_aes_boxed(box, c, b, a, d) ^ key[2], s = nf_aes_boxed(box, d, c, b, a) ^ key[3];
        if (round == aes->rounds) {
            block[0] = p;
            block[1] = q;
            block[2] = r;
            block[3] = s;
            return;
        }
        a = nf_aes_mix_back(p);
        b = nf_aes_mix_back(q);
        c = nf_aes_mix_back(r);
        d = nf_aes_mix_back(s);
    }
}

/* n bytes of a block into others. */
NF_CRYPTO void nf_block_xor(u8 *to, const u32 block[4], u32 n)
{
    for (u32 i = 0; i < n; i++)
        to[i] ^= (u8)(block[i / 4] >> 8 * (i % 4));
}

/* The last bytes bytes of a counter block plus one, in network order. */
NF_CRYPTO void nf_counter_next(u8 *counter, u32 bytes)
{
    for (u32 i = 16; i-- > 16 - bytes && ++counter[i] == 0;)
        ;
}

/* Counter mode from a counter block on, of which the last bytes count. */
NF_CRYPTO void nf_counted(const struct nf_aes *aes, u8 *p, u32 n, u8 *counter, u32 bytes)
{
    while (n > 0) {
        u32 block[4], some = n < 16 ? n : 16;
        __builtin_memcpy(block, counter, 16);
        nf_aes_encrypt(aes, block);
        nf_block_xor(p, block, some);
        nf_counter_next(counter, bytes);
        p += some;
        n -= some;
    }
}

NF_CRYPTO bool nf_aes_ctr(NF_FRAME_PART, const void *key, u32 size, const void *iv, u32 iv_size)
{
    struct nf_aes aes;
    u8 counter[16];
    (void)iv_size;
    nf_aes_expand(&aes, key, size);
    __builtin_memcpy(counter, iv, 16);
    nf_counted(&aes, (u8 *)data + off, nf_part(data, end, off, want), counter, 16);
    return true;
}

NF_CRYPTO bool nf_aes_cbc_encrypt(NF_FRAME_PART, const void *key, u32 size, const void *iv,
                                  u32 iv_size)
{
    struct nf_aes aes;
    u32 block[4], n = nf_part(data, end, off, want);
    (void)iv_size;
    if (n % 16 != 0)
        return false;
    nf_aes_expand(&aes, key, size);
    __builtin_memcpy(block, iv, 16);
    for (u8 *p = (u8 *)data + off; n > 0; p += 16, n -= 16) {
        nf_block_xor(p, block, 16);
        __builtin_memcpy(block, p, 16);
        nf_aes_encrypt(&aes, block);
        __builtin_memcpy(p, block, 16);
    }
    return true;
}

NF_CRYPTO bool nf_aes_cbc_decrypt(NF_FRAME_PART, const void *key, u32 size, const void *iv,
                                  u32 iv_size)
{
    struct nf_aes aes;
    u32 before[4], block[4], next[4], n = nf_part(data, end, off, want);
    (void)iv_size;
    if (n % 16 != 0)
        return false;
    nf_aes_expand(&aes, key, size);
    __builtin_memcpy(before, iv, 16);
    for (u8 *p = (u8 *)data + off; n > 0; p += 16, n -= 16) {
        __builtin_memcpy(block, p, 16);
        __builtin_memcpy(next, p, 16);
        nf_aes_decrypt(&aes, block);
        __builtin_memcpy(p, block, 16);
        nf_block_xor(p, before, 16);
        __builtin_memcpy(before, next, 16);
    }
    return true;
}

/* ---- Galois/counter mode (NIST SP 800-38D): products by four bits at a time
 * --------------------------------------------------------------------------------------------- */

struct nf_ghash {
    u64 high[16], low[16]; /* the key times each four bits */
    u64 sum[2];
};

static const u16 nf_ghash_falls[16] = {
    0x0000, 0x1c20, 0x3840, 0x2460, 0x7080, 0x6ca0, 0x48c0, 0x54e0,
    0xe100, 0xfd20, 0xd940, 0xc560, 0x9180, 0x8da0, 0xa9c0, 0xb5e0,
};

NF_CRYPTO u64 nf_word_of(const u8 *p)
{
    u64 word;
    __builtin_memcpy(&word, p, 8);
    return __builtin_bswap64(word);
}

NF_CRYPTO void nf_ghash_begin(struct nf_ghash *hash, const struct nf_aes *aes)
{
    u32 block[4] = {0};
    nf_aes_encrypt(aes, block);
    u64 high = nf_word_of((u8 *)block), low = nf_word_of((u8 *)(block + 2));
    hash->high[0] = hash->low[0] = hash->sum[0] = hash->sum[1] = 0;
    for (u32 at = 8; at > 0; at /= 2) {
        hash->high[at] = high;
        hash->low[at] = low;
        u64 falls = -(low & 1) & 0xe100000000000000;
        low = low >> 1 | high << 63;
        high = high >> 1 ^ falls;
    }
    for (u32 at = 2; at < 16; at *= 2) {
        for (u32 i = 1; i < at; i++) {
            hash->high[at + i] = hash->high[at] ^ hash->high[i];
            hash->low[at + i] = hash->low[at] ^ hash->low[i];
        }
    }
}

/* Adds a block of n bytes, 16 at most; zeros stand for the others. */
NF_CRYPTO void nf_ghash_block(struct nf_ghash *hash, const u8 *p, u32 n)
{
    u8 block[16] = {0};
    for (u32 i = 0; i < n; i++)
        block[i] = p[i];
    u64 x[2] = {hash->sum[0] ^ nf_word_of(block), hash->sum[1] ^ nf_word_of(block + 8)};
    u64 high = 0, low = 0;
    for (u32 i = 0; i < 32; i++) {
        u32 four = x[i < 16] >> 4 * (i % 16) & 15;
        u64 falls = (u64)nf_ghash_falls[low & 15] << 48;
        low = low >> 4 | high << 60;
        high = high >> 4 ^ falls;
        high ^= hash->high[four];
        low ^= hash->low[four];
    }
    hash->sum[0] = high;
    hash->sum[1] = low;
}

NF_CRYPTO void nf_ghash_bytes(struct nf_ghash *hash, const u8 *p, u32 n)
{
    for (; n > 16; p += 16, n -= 16)
        nf_ghash_block(hash, p, 16);
    if (n > 0)
        nf_ghash_block(hash, p, n);
}

/* The tag of n encrypted bytes and what is authenticated beside them. */
NF_CRYPTO void nf_gcm_tag(const struct nf_aes *aes, const u8 *p, u32 n, const void *nonce,
                          const void *beside, u32 beside_size, u8 tag[16])
{
    struct nf_ghash hash;
    u64 bits[2] = {__builtin_bswap64(8 * (u64)beside_size), __builtin_bswap64(8 * (u64)n)};
    u32 block[4];
    nf_ghash_begin(&hash, aes);
    nf_ghash_bytes(&hash, beside, beside_size);
    nf_ghash_bytes(&hash, p, n);
    nf_ghash_block(&hash, (const u8 *)bits, 16);
    __builtin_memcpy(block, nonce, 12);
    block[3] = __builtin_bswap32(1);
    nf_aes_encrypt(aes, block);
    u64 sum[2] = {__builtin_bswap64(hash.sum[0]), __builtin_bswap64(hash.sum[1])};
    __builtin_memcpy(tag, sum, 16);
    nf_block_xor(tag, block, 16);
}

NF_CRYPTO void nf_gcm_counted(const struct nf_aes *aes, u8 *p, u32 n, const void *nonce)
{
    u8 counter[16] = {[15] = 2};
    __builtin_memcpy(counter, nonce, 12);
    nf_counted(aes, p, n, counter, 4);
}

NF_CRYPTO bool nf_aes_gcm_seal(NF_FRAME_PART, const void *key, u32 size, const void *nonce,
                               u32 nonce_size, const void *beside, u32 beside_size, void *tag)
{
    struct nf_aes aes;
    u8 *p = (u8 *)data + off;
    u32 n = nf_part(data, end, off, want);
    (void)nonce_size;
    nf_aes_expand(&aes, key, size);
    nf_gcm_counted(&aes, p, n, nonce);
    nf_gcm_tag(&aes, p, n, nonce, beside, beside_size, tag);
    return true;
}

NF_CRYPTO bool nf_aes_gcm_open(NF_FRAME_PART, const void *key, u32 size, const void *nonce,
                               u32 nonce_size, const void *beside, u32 beside_size, const void *tag,
                               u32 tag_size)
{
    struct nf_aes aes;
    u8 *p = (u8 *)data + off, should[16], differs = 0;
    u32 n = nf_part(data, end, off, want);
    (void)nonce_size;
    nf_aes_expand(&aes, key, size);
    nf_gcm_tag(&aes, p, n, nonce, beside, beside_size, should);
    for (u32 i = 0; i < tag_size; i++)
        differs |= should[i] ^ ((const u8 *)tag)[i];
    if (differs != 0)
        return false;
    nf_gcm_counted(&aes, p, n, nonce);
    return true;
}

/* ---- SHA-256 (FIPS 180-4) and HMAC (RFC 2104)
 * --------------------------------------------------------------------------------------------- */

static const u32 nf_sha_constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

struct nf_sha {
    u32 state[8];
    u8 block[64];
    u32 total; /* bytes so far */
};

NF_CRYPTO void nf_sha_begin(struct nf_sha *sha)
{
    static const u32 first[8] = {
        0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
        0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19,
    };
    __builtin_memcpy(sha->state, first, sizeof(first));
    sha->total = 0;
}

/* The next word of the schedule, in the place of the one sixteen before. */
NF_CRYPTO u32 nf_sha_word(u32 words[16], u32 i)
{
    u32 far = words[(i + 1) % 16], near = words[(i + 14) % 16];
    if (i >= 16)
        words[i % 16] += (NF_ROTATE(far, 7) ^ NF_ROTATE(far, 18) ^ far >> 3) + words[(i + 9) % 16] +
                         (NF_ROTATE(near, 17) ^ NF_ROTATE(near, 19) ^ near >> 10);
    return words[i % 16];
}

/* A round; the next one takes the variables one further on. */
#define NF_SHA_ROUND(a, b, c, d, e, f, g, h, i)                                                    \
    do {                                                                                           \
        h += (NF_ROTATE(e, 6) ^ NF_ROTATE(e, 11) ^ NF_ROTATE(e, 25)) + (g ^ (e & (f ^ g))) +       \
             nf_sha_constants[i] + nf_sha_word(words, i);                                          \
        d += h;                                                                                    \
        h += (NF_ROTATE(a, 2) ^ NF_ROTATE(a, 13) ^ NF_ROTATE(a, 22)) + ((a & b) ^ (c & (a ^ b)));  \
    } while (0)

NF_CRYPTO void nf_sha_block(struct nf_sha *sha)
{
    u32 words[16], *s = sha->state;
    u32 a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
    for (u32 i = 0; i < 16; i++) {
        __builtin_memcpy(&words[i], sha->block + 4 * i, 4);
        words[i] = __builtin_bswap32(words[i]);
    }
    for (u32 i = 0; i < 64; i += 8) {
        NF_SHA_ROUND(a, b, c, d, e, f, g, h, i);
        NF_SHA_ROUND(h, a, b, c, d, e, f, g, i + 1);
        NF_SHA_ROUND(g, h, a, b, c, d, e, f, i + 2);
        NF_SHA_ROUND(f, g, h, a, b, c, d, e, i + 3);
        NF_SHA_ROUND(e, f, g, h, a, b, c, d, i + 4);
        NF_SHA_ROUND(d, e, f, g, h, a, b, c, i + 5);
        NF_SHA_ROUND(c, d, e, f, g, h, a, b, i + 6);
        NF_SHA_ROUND(b, c, d, e, f, g, h, a, i + 7);
    }
    u32 more[8] = {a, b, c, d, e, f, g, h};
    for (u32 i = 0; i < 8; i++)
        s[i] += more[i];
}

NF_CRYPTO void nf_sha_bytes(struct nf_sha *sha, const u8 *p, u32 n)
{
    while (n > 0) {
        u32 at = sha->total % 64, some = n < 64 - at ? n : 64 - at;
        for (u32 i = 0; i < some; i++)
            sha->block[at + i] = p[i];
        sha->total += some;
        p += some;
        n -= some;
        if (at + some == 64)
            nf_sha_block(sha);
    }
}

NF_CRYPTO void nf_sha_end(struct nf_sha *sha, void *digest)
{
    u64 bits = __builtin_bswap64(8 * (u64)sha->total);
    u8 next = 0x80;
    do {
        nf_sha_bytes(sha, &next, 1);
        next = 0;
    } while (sha->total % 64 != 56);
    nf_sha_bytes(sha, (const u8 *)&bits, 8);
    for (u32 i = 0; i < 8; i++) {
        u32 word = __builtin_bswap32(sha->state[i]);
        __builtin_memcpy((u8 *)digest + 4 * i, &word, 4);
    }
}

NF_CRYPTO bool nf_sha256(NF_FRAME_PART, void *digest)
{
    struct nf_sha sha;
    nf_sha_begin(&sha);
    nf_sha_bytes(&sha, data + off, nf_part(data, end, off, want));
    nf_sha_end(&sha, digest);
    return true;
}

NF_CRYPTO bool nf_hmac_sha256(NF_FRAME_PART, const void *key, u32 size, void *digest)
{
    struct nf_sha sha;
    u8 pad[64] = {0};
    nf_sha_begin(&sha);
    if (size > 64) {
        nf_sha_bytes(&sha, key, size);
        nf_sha_end(&sha, pad);
    } else {
        for (u32 i = 0; i < size; i++)
            pad[i] = ((const u8 *)key)[i];
    }
    for (u32 i = 0; i < 64; i++)
        pad[i] ^= 0x36;
    nf_sha_begin(&sha);
    nf_sha_bytes(&sha, pad, 64);
    nf_sha_bytes(&sha, data + off, nf_part(data, end, off, want));
    nf_sha_end(&sha, digest);
    for (u32 i = 0; i < 64; i++)
        pad[i] ^= 0x36 ^ 0x5c;
    nf_sha_begin(&sha);
    nf_sha_bytes(&sha, pad, 64);
    nf_sha_bytes(&sha, digest, 32);
    nf_sha_end(&sha, digest);
    return true;
}
#endif

/* ---- CRC-32 (IEEE 802.3), four bits at a time
 * --------------------------------------------------------------------------------------------- */

NF_CRYPTO bool nf_crc32(NF_FRAME_PART, void *sum)
{
    static const u32 four[16] = {
        0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
        0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
        0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
    };
    u32 crc = ~0u;
    for (u32 i = 0, n = nf_part(data, end, off, want); i < n; i++) {
        crc ^= data[off + i];
        crc = crc >> 4 ^ four[crc & 15];
        crc = crc >> 4 ^ four[crc & 15];
    }
    crc = ~crc;
    __builtin_memcpy(sum, &crc, 4);
    return true;
}

#endif
