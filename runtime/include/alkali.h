/* SPDX-License-Identifier: 0BSD
 *
 * alkali.h - the interface of Alkali's C programs (NSDI'25), for programs that exist in it.
 *
 * New programs use nicforge.h. docs/alkali.md says what each call becomes and what Alkali leaves
 * open.
 */
#ifndef ALKALI_H
#define ALKALI_H

#include <nicforge.h>

/* A packet, or one that a handler makes with bufinit. */
struct buf_tag {
    int buf_tag;
};
typedef struct buf_tag *buf_t;

/* A member of N bits, right behind the one before; the first is the least significant of its byte.
 */
#define BITS_FIELD(N, name) AK_MEMBER_##N(name)

/* A variable, key or value of N bits: 8, 16, 32 or 64. Bits have no sign. */
#define BITS(N) AK_BITS_##N
#define AK_BITS_8 uint8_t
#define AK_BITS_16 uint16_t
#define AK_BITS_32 uint32_t
#define AK_BITS_64 uint64_t

/* ak_TABLE(entries, key type, value type, options) name: finds the same key; a miss reads zero. */
#define ak_TABLE(entries, key_type, value_type, ...)                                               \
    struct {                                                                                       \
        char (*nf_kind_hash)[1];                                                                   \
        key_type *key;                                                                             \
        value_type *value;                                                                         \
        char (*capacity)[entries];                                                                 \
        __VA_ARGS__                                                                                \
    } *

/* At most num replicas have a part of the table. */
#define anno_MAX_REPLICA(num) char(*max_replicas)[num];

/* A table by its name or address, key and value by address. */
void table_lookup(const void *table, const void *key, void *value);
void table_update(const void *table, const void *key, const void *value);

/* A packet without bytes. */
buf_t bufinit(void);
/* Reads sizeof(*data) bytes and moves on. */
void bufextract(buf_t packet, void *data);
/* Puts *data, or the unread rest of another packet, behind what was emitted before. */
void bufemit(buf_t packet, const void *data);

/* The network, as in programs without generic_handlers.h. */
void send_packet(buf_t packet);

/* An event of the program's own: its handler is `void EVENT__name(buf_t packet, ...)`, and `event`
 * says its full name or what stands before the two underscores. Structs go by address. */
void generate(const char *event, ...);

#define AK_BITS(N, name) uint64_t name : N __attribute__((packed))
#define AK_WHOLE(N, name) uint##N##_t name : N __attribute__((packed))
#define AK_MEMBER_8(name) AK_WHOLE(8, name)
#define AK_MEMBER_16(name) AK_WHOLE(16, name)
#define AK_MEMBER_32(name) AK_WHOLE(32, name)
#define AK_MEMBER_64(name) AK_WHOLE(64, name)
#define AK_MEMBER_1(name) AK_BITS(1, name)
#define AK_MEMBER_2(name) AK_BITS(2, name)
#define AK_MEMBER_3(name) AK_BITS(3, name)
#define AK_MEMBER_4(name) AK_BITS(4, name)
#define AK_MEMBER_5(name) AK_BITS(5, name)
#define AK_MEMBER_6(name) AK_BITS(6, name)
#define AK_MEMBER_7(name) AK_BITS(7, name)
#define AK_MEMBER_9(name) AK_BITS(9, name)
#define AK_MEMBER_10(name) AK_BITS(10, name)
#define AK_MEMBER_11(name) AK_BITS(11, name)
#define AK_MEMBER_12(name) AK_BITS(12, name)
#define AK_MEMBER_13(name) AK_BITS(13, name)
#define AK_MEMBER_14(name) AK_BITS(14, name)
#define AK_MEMBER_15(name) AK_BITS(15, name)
#define AK_MEMBER_17(name) AK_BITS(17, name)
#define AK_MEMBER_18(name) AK_BITS(18, name)
#define AK_MEMBER_19(name) AK_BITS(19, name)
#define AK_MEMBER_20(name) AK_BITS(20, name)
#define AK_MEMBER_21(name) AK_BITS(21, name)
#define AK_MEMBER_22(name) AK_BITS(22, name)
#define AK_MEMBER_23(name) AK_BITS(23, name)
#define AK_MEMBER_24(name) AK_BITS(24, name)
#define AK_MEMBER_25(name) AK_BITS(25, name)
#define AK_MEMBER_26(name) AK_BITS(26, name)
#define AK_MEMBER_27(name) AK_BITS(27, name)
#define AK_MEMBER_28(name) AK_BITS(28, name)
#define AK_MEMBER_29(name) AK_BITS(29, name)
#define AK_MEMBER_30(name) AK_BITS(30, name)
#define AK_MEMBER_31(name) AK_BITS(31, name)
#define AK_MEMBER_33(name) AK_BITS(33, name)
#define AK_MEMBER_34(name) AK_BITS(34, name)
#define AK_MEMBER_35(name) AK_BITS(35, name)
#define AK_MEMBER_36(name) AK_BITS(36, name)
#define AK_MEMBER_37(name) AK_BITS(37, name)
#define AK_MEMBER_38(name) AK_BITS(38, name)
#define AK_MEMBER_39(name) AK_BITS(39, name)
#define AK_MEMBER_40(name) AK_BITS(40, name)
#define AK_MEMBER_41(name) AK_BITS(41, name)
#define AK_MEMBER_42(name) AK_BITS(42, name)
#define AK_MEMBER_43(name) AK_BITS(43, name)
#define AK_MEMBER_44(name) AK_BITS(44, name)
#define AK_MEMBER_45(name) AK_BITS(45, name)
#define AK_MEMBER_46(name) AK_BITS(46, name)
#define AK_MEMBER_47(name) AK_BITS(47, name)
#define AK_MEMBER_48(name) AK_BITS(48, name)
#define AK_MEMBER_49(name) AK_BITS(49, name)
#define AK_MEMBER_50(name) AK_BITS(50, name)
#define AK_MEMBER_51(name) AK_BITS(51, name)
#define AK_MEMBER_52(name) AK_BITS(52, name)
#define AK_MEMBER_53(name) AK_BITS(53, name)
#define AK_MEMBER_54(name) AK_BITS(54, name)
#define AK_MEMBER_55(name) AK_BITS(55, name)
#define AK_MEMBER_56(name) AK_BITS(56, name)
#define AK_MEMBER_57(name) AK_BITS(57, name)
#define AK_MEMBER_58(name) AK_BITS(58, name)
#define AK_MEMBER_59(name) AK_BITS(59, name)
#define AK_MEMBER_60(name) AK_BITS(60, name)
#define AK_MEMBER_61(name) AK_BITS(61, name)
#define AK_MEMBER_62(name) AK_BITS(62, name)
#define AK_MEMBER_63(name) AK_BITS(63, name)

#endif
