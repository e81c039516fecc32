/* defined.h - what C leaves open and the language of packet programs does not, for programs that
 * are both.
 *
 * Nicforge reads the plain operators. As plain C the same operations are written out, as
 * docs/language.md says.
 */
#ifndef NF_DEFINED_H
#define NF_DEFINED_H

#ifdef __NICFORGE__
#define DIV(a, b) ((a) / (b))
#define REM(a, b) ((a) % (b))
#define SHL(a, n) ((a) << (n))
#define SHR(a, n) ((a) >> (n))
#define GET(array, i) ((array)[i])
#define PUT(array, i, x) ((array)[i] = (x))
#define TRIPS(n)
#define TRIP(n)
#else
#define SIGNED(type) ((type) - 1 < (type)1)
#define DIV(a, b) DIVIDE(a, b, 0, -x_, x_ / y_)
#define REM(a, b) DIVIDE(a, b, x_, 0, x_ % y_)
/* By zero; the least number by -1, for which the machine traps; else. */
#define DIVIDE(a, b, zero, least, other)                                                           \
    ({                                                                                             \
        __typeof__((a) / (b)) x_ = (a), y_ = (b);                                                  \
        (__typeof__(x_))(y_ == 0                              ? (zero)                             \
                         : SIGNED(__typeof__(x_)) && y_ == -1 ? (least)                            \
                                                              : (other));                          \
    })
#define SHL(a, n) SHIFT(a, n, 0, x_ << n_)
#define SHR(a, n) SHIFT(a, n, x_ < 0 ? -1 : 0, x_ >> n_)
#define SHIFT(a, n, far, near)                                                                     \
    ({                                                                                             \
        __typeof__(+(a)) x_ = (a);                                                                 \
        uint64_t n_ = (uint64_t)(n);                                                               \
        (__typeof__(x_))(n_ >= 8 * sizeof x_ ? (far) : (near));                                    \
    })
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define GET(array, i)                                                                              \
    ({                                                                                             \
        __typeof__(({ (array)[0]; })) e_ = {};                                                     \
        uint64_t i_ = (uint64_t)(i);                                                               \
        if (i_ < COUNT(array))                                                                     \
            e_ = (array)[i_];                                                                      \
        e_;                                                                                        \
    })
#define PUT(array, i, x)                                                                           \
    ({                                                                                             \
        uint64_t i_ = (uint64_t)(i);                                                               \
        __typeof__(({ (array)[0]; })) e_ = (x);                                                    \
        if (i_ < COUNT(array))                                                                     \
            (array)[i_] = e_;                                                                      \
    })
/* A loop's count of trips, and the end of the one that is too many. */
#define TRIPS(n) uint32_t trips_##n = 0;
#define TRIP(n)                                                                                    \
    if (trips_##n++ == (n))                                                                        \
        break;
#endif

#endif
