// Draws increments of Brownian paths: a tree of bridges in each cell, of standard normal numbers that are functions of a key, a
// cell, a node and a unit, by Philox4x32-10 and Box and Muller. The same as discretize/noise/brownian.py and generator.py draw,
// to rounding. A function of a library of its own: it is the same for all programs.

#if defined(__SSE2__)
#include <immintrin.h>
#endif

#include "scratch.h"

namespace {

constexpr std::size_t ROOM = 64;  // evaluations at a time, of four numbers each
constexpr std::size_t WHOLE = 16;  // of which loops take so many

typedef std::uint32_t words __attribute__((vector_size(4 * LANES)));

// Words in lanes of 64 bits, of which products read the lower half.
typedef std::uint64_t wide __attribute__((vector_size(VECTOR_BYTES)));
typedef std::uint32_t narrow __attribute__((vector_size(VECTOR_BYTES / 2)));
constexpr std::size_t WIDE = VECTOR_BYTES / 8;

// By its own instruction where there is one: compilers take several for a product of all 64 bits.
inline wide product(wide a, std::uint32_t by) {
    const wide b = wide{} + by;
#if defined(__AVX512F__)
    return wide(_mm512_mul_epu32(__m512i(a), __m512i(b)));
#elif defined(__AVX2__)
    return wide(_mm256_mul_epu32(__m256i(a), __m256i(b)));
#elif defined(__SSE2__) && !defined(__AVX__)
    return wide(_mm_mul_epu32(__m128i(a), __m128i(b)));
#else
    return (a & 0xFFFFFFFF) * b;
#endif
}

// u from 0 to 1 of a word, both ends by rounding only.
inline vec uniform(const std::uint32_t* word) {
    words w;
    std::memcpy(&w, word, sizeof w);
    return __builtin_convertvector(w, vec) * real(0x1p-32) + real(0x1p-33);
}

struct Direction { vec cosine, sine; };

// cos and sin of 2 pi u: by quarters of a turn, which are taken off without rounding.
inline Direction direction(vec u) {
    constexpr real ROUNDER = DOUBLE ? real(6755399441055744.0) : real(12582912.0);
    constexpr int TOP = 8 * sizeof(real) - 1;
    const vec shifted = u * real(4) + ROUNDER, r = (u * real(4) - (shifted - ROUNDER)) * real(1.57079632679489661923), q = r * r;
    const vec over =
        DOUBLE ? polynomial(q, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120,
                            -1.0 / 6)
               : polynomial(q, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6);
    const vec under =
        DOUBLE ? polynomial(q, 1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720,
                            1.0 / 24, -0.5)
               : polynomial(q, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5);
    const vec sine = r + r * q * over, cosine = real(1) + q * under;
    const bits quarters = reread<bits>(shifted);
    const ivec odd = reread<ivec>(quarters << TOP) < 0;
    const vec along = odd ? sine : cosine, across = odd ? cosine : sine;
    return {reread<vec>(reread<bits>(along) ^ (((quarters + 1) >> 1) << TOP)),
            reread<vec>(reread<bits>(across) ^ ((quarters >> 1) << TOP))};
}

// Numbers of a row from a unit on, and where its evaluations lie in a block.
struct Part {
    real* to;
    std::size_t unit, place, size;
};

struct Block {
    alignas(64) std::uint32_t word[4][ROOM + WHOLE], key[2][ROOM + WHOLE];
    alignas(64) real radius[2][ROOM], way[4][ROOM];
    Part parts[ROOM];
    std::size_t count = 0, used = 0;

    void add(real* to, const real* address, std::uint32_t node, std::size_t width) {
        const auto whole = [&](int k) { return std::uint64_t(std::int64_t(address[k])); };
        const std::uint64_t number = whole(0) + (whole(1) << 21) + (whole(2) << 42), cell = whole(3);
        const std::size_t quarter = (width + 3) / 4;
        for (std::size_t unit = 0, size; unit < quarter; unit += size) {
            size = smaller(quarter - unit, ROOM - used);
            for (std::size_t first = 0; first < size; first += WHOLE)
                for (std::size_t i = 0; i < WHOLE; ++i) {
                    const std::size_t at = used + first + i;
                    word[0][at] = std::uint32_t(unit + first + i), word[1][at] = std::uint32_t(cell);
                    word[2][at] = node, word[3][at] = 0;
                    key[0][at] = std::uint32_t(number), key[1][at] = std::uint32_t(number >> 32);
                }
            parts[count++] = {to, unit, used, size};
            used += size;
            if (used == ROOM) draw(width);
        }
    }

    // Numbers k of units go to the k-th quarter of a row.
    void draw(std::size_t width) {
        if (!used) return;
        const std::size_t n = (used + WHOLE - 1) / WHOLE * WHOLE, quarter = (width + 3) / 4;
        for (std::size_t i = 0; i < n; i += 2 * WIDE) philox(i);
        for (std::size_t k = 0; k < 2; ++k)
            for (std::size_t i = 0; i < n; i += LANES) {
                const Direction of = direction(uniform(word[2 * k + 1] + i));
                store(radius[k] + i, root(real(-2) * logarithm(uniform(word[2 * k] + i))));
                store(way[2 * k] + i, of.cosine), store(way[2 * k + 1] + i, of.sine);
            }
        for (std::size_t p = 0; p < count; ++p)
            for (std::size_t k = 0; k < 4; ++k) {
                const std::size_t at = parts[p].place, first = k * quarter + parts[p].unit, most = width - smaller(width, first);
                multiply(radius[k / 2] + at, way[k] + at, parts[p].to + first, smaller(most, parts[p].size));
            }
        count = used = 0;
    }

  private:
    // Of two vectors of evaluations, whose products do not wait for one another.
    void philox(std::size_t at) {
        wide a[2], b[2], c[2], d[2], low[2], high[2];
        for (std::size_t v = 0; v < 2; ++v) {
            const std::size_t i = at + v * WIDE;
            a[v] = widened(word[0] + i), b[v] = widened(word[1] + i), c[v] = widened(word[2] + i), d[v] = widened(word[3] + i);
            low[v] = widened(key[0] + i), high[v] = widened(key[1] + i);
        }
        for (int round = 0; round < 10; ++round)
            for (std::size_t v = 0; v < 2; ++v) {
                const wide one = product(a[v], 0xD2511F53), two = product(c[v], 0xCD9E8D57);
                a[v] = (two >> 32) ^ b[v] ^ low[v], c[v] = (one >> 32) ^ d[v] ^ high[v];
                b[v] = two, d[v] = one;
                low[v] += 0x9E3779B9, high[v] += 0xBB67AE85;
            }
        for (std::size_t v = 0; v < 2; ++v) {
            const std::size_t i = at + v * WIDE;
            narrowed(a[v], word[0] + i), narrowed(b[v], word[1] + i), narrowed(c[v], word[2] + i), narrowed(d[v], word[3] + i);
        }
    }

    static wide widened(const std::uint32_t* from) {
        narrow found;
        std::memcpy(&found, from, sizeof found);
        return __builtin_convertvector(found, wide);
    }
    static void narrowed(wide from, std::uint32_t* to) {
        const narrow found = __builtin_convertvector(from, narrow);
        std::memcpy(to, &found, sizeof found);
    }
    // Not a copy of numbers multiplied before: of a loop that copies, gcc makes instructions that take longer than all others.
    static void multiply(const real* a, const real* b, real* to, std::size_t n) {
        std::size_t i = 0;
        for (; i + LANES <= n; i += LANES) store(to + i, load(a + i) * load(b + i));
        for (; i < n; ++i) to[i] = a[i] * b[i];
    }
};

// A row's memo, as `memo_of` has it: w and h of the cell, of each halving z and n, and w and h of the half that the part is in;
// and the integral over the part.
struct Cell {
    real* const memo;
    const std::size_t apart, levels;
    real* const of;  // a key in three parts, the cell, the part, and 1

    Cell(real* memo, std::size_t width, std::size_t levels)
        : memo(memo), apart(padded(width)), levels(levels), of(memo + (3 + 4 * levels) * apart) {}

    real* w(std::size_t level) const { return memo + (level ? 4 * level : 0) * apart; }
    real* h(std::size_t level) const { return w(level) + apart; }
    real* z(std::size_t level) const { return w(level) - 2 * apart; }
    real* n(std::size_t level) const { return w(level) - apart; }
    real* integral() const { return memo + (2 + 4 * levels) * apart; }
};

// The first level at which another half is wanted than the last time, which is kept in place of it.
inline std::size_t first_other(const Cell& at, const real* columns, std::size_t part) {
    const bool same = at.of[5] == 1 && std::memcmp(columns, at.of, 4 * sizeof(real)) == 0;
    std::size_t other = same ? part ^ std::size_t(at.of[4]) : 0, level = at.levels + 1;
    std::memcpy(at.of, columns, 4 * sizeof(real));
    at.of[4] = real(part), at.of[5] = 1;
    if (!same) return 0;
    for (; other; other >>= 1) --level;
    return level;
}

constexpr real ROOT_12 = real(0.28867513459481288), ROOT_HALF = real(0.70710678118654752);

// The bridge: of a cell of this length, at the level before.
inline void halve(const Cell& at, std::size_t level, bool later, real root) {
    const real of_z = root / 4, of_n = root * ROOT_12 / 2, side = later ? real(-1) : real(1);
    for (std::size_t i = 0; i < at.apart; i += LANES) {
        const vec w = load(at.w(level - 1) + i), h = load(at.h(level - 1) + i);
        const vec z = load(at.z(level) + i) * of_z, n = load(at.n(level) + i) * of_n;
        store(at.w(level) + i, real(0.5) * w + side * (real(1.5) * h + z));
        store(at.h(level) + i, real(0.25) * h - real(0.5) * z + side * n);
    }
}

}  // namespace

// Increments of the parts that columns name, for a key and a cell where they are kept in memos, and of their integrals.
extern "C" __attribute__((visibility("default"))) void ctrnn_increments(std::size_t rows, std::size_t width, std::size_t parts,
                                                                       bool integral, const real* const* columns,
                                                                       real* const* memo, const real** w, const real** z) {
    Block block;
    std::size_t levels = 0, other[64], part[64];
    while (std::size_t(1) << levels < parts) ++levels;
    for (std::size_t m = 0; m < rows; ++m) {
        const Cell at(memo[m], width, levels);
        part[m] = std::size_t(std::int64_t(columns[m][4])) & (parts - 1);
        const std::size_t from = other[m] = first_other(at, columns[m], part[m]);
        if (from == 0) {
            block.add(at.w(0), at.of, 0, width);
            if (levels || integral) block.add(at.h(0), at.of, 1, width);
        }
        // Both halves of a cell are made of the same numbers.
        for (std::size_t level = from == 0 ? 1 : from + 1; level <= levels; ++level) {
            const std::uint32_t node = std::uint32_t((parts | part[m]) >> (levels - level + 1));
            block.add(at.z(level), at.of, 2 * node, width);
            if (level < levels || integral) block.add(at.n(level), at.of, 2 * node + 1, width);
        }
    }
    block.draw(width);
    for (std::size_t m = 0; m < rows; ++m) {
        const Cell at(memo[m], width, levels);
        if (other[m] == 0 && (levels || integral)) scale(at.h(0), ROOT_12, at.apart);
        real root = 1;
        for (std::size_t level = 1; level <= levels; ++level, root *= ROOT_HALF)
            if (level >= other[m]) halve(at, level, part[m] >> (levels - level) & 1, root);
        if (integral && other[m] <= levels)
            for (std::size_t i = 0; i < at.apart; i += LANES)
                store(at.integral() + i, (real(0.5) * load(at.w(levels) + i) + load(at.h(levels) + i)) / real(parts));
        w[m] = at.w(levels), z[m] = at.integral();
    }
}
