// What handlers use of the C library, for x32, for which there is none: strings, output, the ends
// of programs. Output knows %d %i %u %x %X %o %c %s %p %f and %%, with flags, width, precision and
// lengths.
#pragma GCC optimize("no-tree-loop-distribute-patterns")

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void nf_spin_print(const char *text, uint32_t bytes);

#undef memcpy
#undef memmove
#undef memset
#undef strcpy

void *memcpy(void *restrict to, const void *restrict from, size_t bytes)
{
    void *start = to;

    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes)::"memory");
    return start;
}

void *memmove(void *to, const void *from, size_t bytes)
{
    unsigned char *t = to;
    const unsigned char *f = from;

    if (t <= f || t >= f + bytes)
        return memcpy(to, from, bytes);
    while (bytes-- > 0)
        t[bytes] = f[bytes];
    return to;
}

void *memset(void *to, int value, size_t bytes)
{
    void *start = to;

    __asm__ volatile("rep stosb" : "+D"(to), "+c"(bytes) : "a"(value) : "memory");
    return start;
}

int memcmp(const void *one, const void *other, size_t bytes)
{
    const unsigned char *a = one, *b = other;

    for (; bytes > 0; bytes--, a++, b++)
        if (*a != *b)
            return *a - *b;
    return 0;
}

size_t strnlen(const char *text, size_t most)
{
    size_t length = 0;

    while (length < most && text[length])
        length++;
    return length;
}

size_t strlen(const char *text) { return strnlen(text, PTRDIFF_MAX); }

int strncmp(const char *one, const char *other, size_t most)
{
    for (; most > 0; most--, one++, other++)
        if (*one != *other || !*one)
            return (unsigned char)*one - (unsigned char)*other;
    return 0;
}

int strcmp(const char *one, const char *other) { return strncmp(one, other, PTRDIFF_MAX); }

char *strcpy(char *restrict to, const char *restrict from)
{
    return memcpy(to, from, strlen(from) + 1);
}

char *strncpy(char *restrict to, const char *restrict from, size_t most)
{
    size_t length = strnlen(from, most);

    memcpy(to, from, length);
    memset(to + length, 0, most - length);
    return to;
}

int abs(int value) { return value < 0 ? -value : value; }

// Text on its way: into memory, what does not fit is counted only; or, in pieces, out.
struct sink {
    char *to;
    size_t room, length;
    bool out;
};

static void put(struct sink *sink, char c)
{
    if (sink->out && sink->room == 0) {
        nf_spin_print(sink->to, 64);
        sink->room = 64;
    }
    if (sink->room > 0) {
        sink->to[sink->out ? 64 - sink->room : sink->length] = c;
        sink->room--;
    }
    sink->length++;
}

struct form {
    bool left, zero, sign, space, other;
    int width, precision;
};

static void pad(struct sink *sink, char with, int count)
{
    while (count-- > 0)
        put(sink, with);
}

// A number's sign or prefix, then at least `least` digits.
static void number(struct sink *sink, struct form form, const char *before, const char *digits,
                   int count, int least)
{
    int zeros = least > count ? least - count : 0,
        width = form.width - (int)strlen(before) - count - zeros;

    if (!form.left && !form.zero)
        pad(sink, ' ', width);
    while (*before)
        put(sink, *before++);
    if (!form.left && form.zero)
        pad(sink, '0', width);
    pad(sink, '0', zeros);
    for (int i = 0; i < count; i++)
        put(sink, digits[i]);
    if (form.left)
        pad(sink, ' ', width);
}

// Writes digits so that they end at `end`; gives how many there are.
static int digits_of(uint64_t value, unsigned base, const char *names, char *end)
{
    int count = 0;

    for (; value > 0; value /= base)
        end[-++count] = names[value % base];
    return count;
}

static void real(struct sink *sink, struct form form, double value, const char *sign)
{
    char digits[48], *end = digits + sizeof(digits);
    int places = form.precision < 0 ? 6 : form.precision > 15 ? 15 : form.precision;
    uint64_t scale = 1;

    for (int i = 0; i < places; i++)
        scale *= 10;
    if (!(value < 1e18)) {
        number(sink, form, sign, value != value ? "nan" : "large", value != value ? 3 : 5, 0);
        return;
    }
    uint64_t whole = (uint64_t)value,
             rest = (uint64_t)((value - (double)whole) * (double)scale + 0.5);
    if (rest >= scale) {
        whole++;
        rest -= scale;
    }
    int count = 0;
    if (places > 0) {
        for (; count < places; rest /= 10)
            end[-++count] = (char)('0' + rest % 10);
        end[-++count] = '.';
    }
    int before = digits_of(whole, 10, "0123456789", end - count);
    if (before == 0)
        end[-count - ++before] = '0';
    count += before;
    number(sink, form, sign, end - count, count, 0);
}

static void format(struct sink *sink, const char *text, va_list list)
{
    for (; *text; text++) {
        struct form form = {.precision = -1};
        char digits[24], *end = digits + sizeof(digits);
        int length = 0;

        if (*text != '%') {
            put(sink, *text);
            continue;
        }
        for (text++; *text && strchr("-0+ #", *text); text++) {
            form.left |= *text == '-';
            form.zero |= *text == '0';
            form.sign |= *text == '+';
            form.space |= *text == ' ';
            form.other |= *text == '#';
        }
        for (int part = 0; part < 2; part++) {
            int value = 0;

            if (part == 1 && *text++ != '.') {
                text--;
                break;
            }
            if (*text == '*') {
                value = va_arg(list, int);
                text++;
            }
            for (; *text >= '0' && *text <= '9'; text++)
                value = value < 10000 ? value * 10 + (*text - '0') : value;
            if (part == 1)
                form.precision = value;
            else if (value < 0)
                form.left = true, form.width = -value;
            else
                form.width = value;
        }
        for (; *text && strchr("hlzjtL", *text); text++)
            length += *text == 'l' ? 1 : *text == 'h' ? -1 : *text == 'j' ? 2 : 0;
        bool wide = length >= 2, number_fixed = form.precision >= 0;
        int least = number_fixed ? form.precision : 1;
        form.zero &= !number_fixed || *text == 'f';
        switch (*text) {
        case 'd':
        case 'i': {
            int64_t value = wide ? va_arg(list, long long) : va_arg(list, int);

            value = length == -1 ? (short)value : length == -2 ? (signed char)value : value;
            uint64_t size = value < 0 ? -(uint64_t)value : (uint64_t)value;
            const char *sign = value < 0 ? "-" : form.sign ? "+" : form.space ? " " : "";
            int count = digits_of(size, 10, "0123456789", end);
            number(sink, form, sign, end - count, count, least);
            break;
        }
        case 'u':
        case 'x':
        case 'X':
        case 'o':
        case 'p': {
            uint64_t value = wide ? va_arg(list, unsigned long long) : va_arg(list, unsigned);

            value = length == -1   ? (unsigned short)value
                    : length == -2 ? (unsigned char)value
                                   : value;
            unsigned base = *text == 'u' ? 10 : *text == 'o' ? 8 : 16;
            const char *names = *text == 'X' ? "0123456789ABCDEF" : "0123456789abcdef";
            bool prefix = *text == 'p' || (form.other && base == 16 && value != 0);
            int count = digits_of(value, base, names, end);
            number(sink, form, prefix ? *text == 'X' ? "0X" : "0x" : "", end - count, count, least);
            break;
        }
        case 'f':
        case 'F':
        case 'g':
        case 'e': {
            double value = va_arg(list, double);
            const char *sign = value < 0 ? "-" : form.sign ? "+" : form.space ? " " : "";

            real(sink, form, value < 0 ? -value : value, sign);
            break;
        }
        case 'c':
            digits[0] = (char)va_arg(list, int);
            form.zero = false;
            number(sink, form, "", digits, 1, 0);
            break;
        case 's': {
            const char *string = va_arg(list, const char *);

            string = string ? string : "(null)";
            form.zero = false;
            number(sink, form, "", string,
                   (int)strnlen(string, form.precision < 0 ? PTRDIFF_MAX : (size_t)form.precision),
                   0);
            break;
        }
        case 0:
            return;
        default:
            put(sink, *text);
        }
    }
}

char *strchr(const char *text, int c)
{
    for (; *text != (char)c; text++)
        if (!*text)
            return NULL;
    return (char *)text;
}

int vsnprintf(char *to, size_t bytes, const char *text, va_list list)
{
    struct sink sink = {.to = to, .room = bytes > 0 ? bytes - 1 : 0};

    format(&sink, text, list);
    if (bytes > 0)
        to[sink.length < bytes ? sink.length : bytes - 1] = 0;
    return (int)sink.length;
}

int snprintf(char *to, size_t bytes, const char *text, ...)
{
    va_list list;

    va_start(list, text);
    int length = vsnprintf(to, bytes, text, list);
    va_end(list);
    return length;
}

int sprintf(char *to, const char *text, ...)
{
    va_list list;

    va_start(list, text);
    int length = vsnprintf(to, INT32_MAX, text, list);
    va_end(list);
    return length;
}

int vfprintf(FILE *file, const char *text, va_list list)
{
    char piece[64];
    struct sink sink = {.to = piece, .room = sizeof(piece), .out = true};

    (void)file;
    format(&sink, text, list);
    nf_spin_print(piece, sizeof(piece) - sink.room);
    return (int)sink.length;
}

int vprintf(const char *text, va_list list) { return vfprintf(stdout, text, list); }

int printf(const char *text, ...)
{
    va_list list;

    va_start(list, text);
    int length = vfprintf(stdout, text, list);
    va_end(list);
    return length;
}

int fprintf(FILE *file, const char *text, ...)
{
    va_list list;

    va_start(list, text);
    int length = vfprintf(file, text, list);
    va_end(list);
    return length;
}

#undef putchar
#undef putc

int fputs(const char *text, FILE *file)
{
    (void)file;
    nf_spin_print(text, strlen(text));
    return 0;
}

int puts(const char *text)
{
    fputs(text, stdout);
    nf_spin_print("\n", 1);
    return 0;
}

int fputc(int c, FILE *file)
{
    char character = (char)c;

    (void)file;
    nf_spin_print(&character, 1);
    return (unsigned char)c;
}

int putc(int c, FILE *file) { return fputc(c, file); }

int putchar(int c) { return fputc(c, stdout); }

static int put_through(char c, FILE *file) { return fputc(c, file); }

static FILE console = FDEV_SETUP_STREAM(put_through, NULL, NULL, _FDEV_SETUP_WRITE);
FILE *const stdout = &console;
FILE *const stderr = &console;

void init_printf(void *putp, void *putf)
{
    (void)putp;
    (void)putf;
}

__attribute__((noreturn)) void _exit(int status)
{
    (void)status;
    for (;;)
        __asm__ volatile("int3");
}

__attribute__((noreturn)) void exit(int status) { _exit(status); }

__attribute__((noreturn)) void abort(void) { _exit(1); }

__attribute__((noreturn)) void __assert_func(const char *file, int line, const char *function,
                                             const char *what)
{
    printf("%s:%d: %s: not true: %s\n", file, line, function ? function : "", what);
    abort();
}
