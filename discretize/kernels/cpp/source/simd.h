// Vectors of the widest kind this processor has, and the functions of gates on them, each good to a few units in the last
// place. GNU vector extensions: gcc and clang, any processor. What is nan stays nan.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "array.h"

#if defined(__FAST_MATH__)
#error no -ffast-math: it takes nan and infinity for numbers, and cancels what rounds an exponent to a whole number
#endif

using real = REAL;

#if defined(__AVX512F__)
constexpr int VECTOR_BYTES = 64;
#elif defined(__AVX__)
constexpr int VECTOR_BYTES = 32;
#else
constexpr int VECTOR_BYTES = 16;
#endif

template <std::size_t bytes> struct IntegersOf;
template <> struct IntegersOf<4> { using plain = std::int32_t; using positive = std::uint32_t; };
template <> struct IntegersOf<8> { using plain = std::int64_t; using positive = std::uint64_t; };
using integer = IntegersOf<sizeof(real)>::plain;
using pattern = IntegersOf<sizeof(real)>::positive;

typedef real vec __attribute__((vector_size(VECTOR_BYTES)));
typedef integer ivec __attribute__((vector_size(VECTOR_BYTES)));
typedef pattern bits __attribute__((vector_size(VECTOR_BYTES)));

constexpr int LANES = VECTOR_BYTES / sizeof(real);
constexpr bool DOUBLE = sizeof(real) == 8;
constexpr int MANTISSA = DOUBLE ? 52 : 23;
constexpr pattern SIGN = pattern(1) << (8 * sizeof(real) - 1);
constexpr real INFINITE = real(__builtin_inf()), NO_NUMBER = real(__builtin_nan(""));
constexpr real LEAST_NORMAL = DOUBLE ? real(0x1p-1022) : real(0x1p-126);

// ln 2 in two parts, the first so short that multiples of it are exact
constexpr real LN2 = DOUBLE ? real(6.93147180369123816490e-01) : real(0.693359375);
constexpr real LN2_REST = DOUBLE ? real(1.90821492927058770002e-10) : real(-2.12194440e-4);

// Not from <algorithm>, which takes as long to compile as all of this.
constexpr std::size_t smaller(std::size_t a, std::size_t b) { return b < a ? b : a; }
constexpr std::size_t larger(std::size_t a, std::size_t b) { return a < b ? b : a; }

inline std::size_t padded(std::size_t n) { return (n + LANES - 1) / LANES * LANES; }

// Not s + vec{}, which is 0 where s is -0, nor a loop over lanes, which becomes as many instructions.
inline vec splat(real s) { return s - vec{}; }

inline vec load(const real* p) {
    vec v;
    std::memcpy(&v, p, sizeof v);
    return v;
}

inline void store(real* p, vec v) { std::memcpy(p, &v, sizeof v); }

using Numbers = Array<real>;

// The first n lanes, the rest 0.
inline vec load(const real* p, std::size_t n) {
    if (n >= std::size_t(LANES)) return load(p);
    vec v = {};
    std::memcpy(&v, p, n * sizeof(real));
    return v;
}

inline void store(real* p, vec v, std::size_t n) {
    if (n >= std::size_t(LANES)) return store(p, v);
    std::memcpy(p, &v, n * sizeof(real));
}

// At least k and at most 2 k numbers.
template <std::size_t k> inline void copy_few(const real* from, real* to, std::size_t n) {
    real first[k], last[k];
    std::memcpy(first, from, sizeof first);
    std::memcpy(last, from + (n - k), sizeof last);
    std::memcpy(to, first, sizeof first);
    std::memcpy(to + (n - k), last, sizeof last);
}

// n numbers, without a look beyond them. Not memcpy: rows are short, and a call takes longer than most of them.
inline void copy(const real* from, real* to, std::size_t n) {
    std::size_t i = 0;
    for (; i + LANES <= n; i += LANES) store(to + i, load(from + i));
    if (i == n) return;
    if (i) store(to + (n - LANES), load(from + (n - LANES)));
    else if (n >= 8) copy_few<8>(from, to, n);
    else if (n >= 4) copy_few<4>(from, to, n);
    else if (n >= 2) copy_few<2>(from, to, n);
    else *to = *from;
}

inline void fill(real* to, std::size_t n, real value) {
    for (std::size_t i = 0; i < n; ++i) to[i] = value;
}

// A row of n numbers into one padded with 0.
inline void widen(const real* from, real* to, std::size_t n) {
    for (std::size_t i = 0; i < n; i += LANES) store(to + i, load(from + i, n - i));
}

// to *= by, of a padded row
inline void scale(real* to, real by, std::size_t n) {
    for (std::size_t i = 0; i < n; i += LANES) store(to + i, by * load(to + i));
}

// to += from, of padded rows
inline void add_to(real* to, const real* from, std::size_t n) {
    for (std::size_t i = 0; i < n; i += LANES) store(to + i, load(to + i) + load(from + i));
}

template <class To, class From> inline To reread(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

inline vec absolute(vec v) { return reread<vec>(reread<bits>(v) & ~SIGN); }

inline vec with_sign_of(vec size, vec sign) {
    return reread<vec>((reread<bits>(size) & ~SIGN) | (reread<bits>(sign) & SIGN));
}

// Written so that nan fails the comparison and stays.
inline vec at_most(vec v, real bound) { return v > bound ? splat(bound) : v; }
inline vec at_least(vec v, real bound) { return v < bound ? splat(bound) : v; }

inline real sum(vec v) {
    real total = 0;
    for (int i = 0; i < LANES; ++i) total += v[i];
    return total;
}

// A loop over numbers in memory, which compilers make one instruction of; over lanes of a vector they do not.
inline vec root(vec v) {
    real of[LANES];
    store(of, v);
    for (int i = 0; i < LANES; ++i) of[i] = DOUBLE ? real(__builtin_sqrt(of[i])) : real(__builtin_sqrtf(float(of[i])));
    return load(of);
}

// From the highest coefficient to the lowest, by Horner's rule.
template <class... Rest> inline vec polynomial(vec q, double highest, Rest... rest) {
    vec total = splat(real(highest));
    ((total = total * q + real(rest)), ...);
    return total;
}

// x = k ln 2 + r with |r| <= ln(2)/2: what e^x and e^x - 1 are put together from.
struct Reduced {
    vec scale;   // 2^k
    vec excess;  // e^r - 1
};

constexpr real MOST = DOUBLE ? real(709) : real(88), LEAST = DOUBLE ? real(-708) : real(-87);

inline Reduced reduced(vec x) {
    // Added to a number, this leaves its nearest integer in the last bits of the mantissa.
    constexpr real ROUNDER = DOUBLE ? real(6755399441055744.0) : real(12582912.0);
    constexpr pattern BIAS = DOUBLE ? 1023 : 127;
    x = at_least(at_most(x, MOST), LEAST);
    vec shifted = x * real(1.4426950408889634074) + ROUNDER;
    vec k = shifted - ROUNDER;
    vec r = (x - k * LN2) - k * LN2_REST;
    vec q = r * r;
    // sum of r^n / n!, up to n = 13 in double precision, of which the next is 4e-18
    const vec even = DOUBLE ? polynomial(q, 1.0 / 479001600, 1.0 / 3628800, 1.0 / 40320, 1.0 / 720, 1.0 / 24, 0.5)
                            : polynomial(q, 1.0 / 720, 1.0 / 24, 0.5);
    const vec odd = DOUBLE ? polynomial(q, 1.0 / 6227020800.0, 1.0 / 39916800, 1.0 / 362880, 1.0 / 5040, 1.0 / 120, 1.0 / 6)
                           : polynomial(q, 1.0 / 5040, 1.0 / 120, 1.0 / 6);
    Reduced out;
    out.excess = r + q * (even + r * odd);
    out.scale = reread<vec>((reread<bits>(shifted) + BIAS) << MANTISSA);
    return out;
}

// e^x, where it is neither larger nor smaller than can be: e^MOST, e^LEAST beyond
inline vec exponential(vec x) {
    Reduced e = reduced(x);
    return e.scale + e.scale * e.excess;
}

// e^x for gates, infinite where it is
inline vec unbounded_exponential(vec x) {
    return x > MOST ? splat(INFINITE) : exponential(x);
}

// e^x - 1 without cancellation near 0
inline vec exponential_less_1(vec x) {
    Reduced e = reduced(x);
    return e.scale * e.excess + (e.scale - real(1));
}

inline vec hyperbolic_tangent(vec x) {
    vec y = exponential_less_1(absolute(x) * real(-2));
    return with_sign_of(y / (y + real(2)), x);
}

// 2 artanh(s), |s| <= 1/3
inline vec twice_artanh(vec s, int terms) {
    vec q = s * s, total = splat(real(1) / real(2 * terms + 1));
    for (int n = terms - 1; n >= 0; --n) total = total * q + real(1) / real(2 * n + 1);
    return s * total * real(2);
}

// log x for x > 0; x below the smallest normal number counts as that
inline vec logarithm(vec x) {
    x = at_least(x, LEAST_NORMAL);
    // The exponent of x / sqrt(1/2), so that what is left is within a factor sqrt(2) of 1.
    const ivec half_root = reread<ivec>(splat(real(0.70710678118654752440)));
    ivec k = (reread<ivec>(x) - half_root) >> MANTISSA;
    vec m = reread<vec>(reread<bits>(x) - (reread<bits>(k) << MANTISSA));
    vec steps = __builtin_convertvector(k, vec);
    vec fraction = twice_artanh((m - real(1)) / (m + real(1)), DOUBLE ? 11 : 5);
    return steps * LN2 + (fraction + steps * LN2_REST);
}
