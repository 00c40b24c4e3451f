// Increments of Brownian paths: a tree of bridges in each cell, of standard normal numbers that are functions of a key, a cell, a node
// and a unit, by Philox4x32-10 and Box and Muller. The same as discretize/noise/brownian.py and generator.py draw, to rounding.
// A function of a library of its own: it is the same for all programs.

#include <algorithm>

#include "scratch.h"

namespace {

constexpr std::size_t ROOM = 64;  // evaluations at a time, of four numbers each
constexpr std::size_t WHOLE = 16;  // of which the loops take so many

typedef std::uint32_t words __attribute__((vector_size(4 * LANES)));

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
    const vec over = DOUBLE ? polynomial(q, -1.0 / 1307674368000, 1.0 / 6227020800, -1.0 / 39916800, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6)
                            : polynomial(q, 1.0 / 362880, -1.0 / 5040, 1.0 / 120, -1.0 / 6);
    const vec under = DOUBLE ? polynomial(q, 1.0 / 20922789888000, -1.0 / 87178291200, 1.0 / 479001600, -1.0 / 3628800, 1.0 / 40320, -1.0 / 720, 1.0 / 24, -0.5)
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
    alignas(64) std::uint32_t word[4][ROOM] = {}, key[2][ROOM] = {};
    alignas(64) real number[4][ROOM];
    Part parts[ROOM];
    std::size_t count = 0, used = 0;

    void add(real* to, const real* address, std::uint32_t node, std::size_t width) {
        const auto whole = [&](int k) { return std::uint64_t(std::int64_t(address[k])); };
        const std::uint64_t number = whole(0) + (whole(1) << 21) + (whole(2) << 42), cell = whole(3);
        const std::size_t quarter = (width + 3) / 4;
        for (std::size_t unit = 0, size; unit < quarter; unit += size) {
            size = std::min(quarter - unit, ROOM - used);
            for (std::size_t i = used; i < used + size; ++i) {
                word[0][i] = std::uint32_t(unit + i - used), word[1][i] = std::uint32_t(cell), word[2][i] = node, word[3][i] = 0;
                key[0][i] = std::uint32_t(number), key[1][i] = std::uint32_t(number >> 32);
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
        philox(n);
        for (int k = 0; k < 4; k += 2)
            for (std::size_t i = 0; i < n; i += LANES) {
                const vec size = root(real(-2) * logarithm(uniform(word[k] + i)));
                const Direction way = direction(uniform(word[k + 1] + i));
                store(number[k] + i, size * way.cosine), store(number[k + 1] + i, size * way.sine);
            }
        for (std::size_t p = 0; p < count; ++p)
            for (std::size_t k = 0; k < 4; ++k) {
                const std::size_t first = k * quarter + parts[p].unit, most = width - std::min(width, first);
                copy_some(number[k] + parts[p].place, parts[p].to + first, std::min(most, parts[p].size));
            }
        count = used = 0;
    }

  private:
    // Loops over evaluations that the compiler makes vectors of; rounds outside, so that products do not wait for one another.
    void philox(std::size_t n) {
        for (std::uint32_t round = 0; round < 10; ++round)
            for (std::size_t i = 0; i < n; ++i) {
                const std::uint64_t one = word[0][i] * std::uint64_t(0xD2511F53), two = word[2][i] * std::uint64_t(0xCD9E8D57);
                word[0][i] = std::uint32_t(two >> 32) ^ word[1][i] ^ (key[0][i] + round * 0x9E3779B9);
                word[2][i] = std::uint32_t(one >> 32) ^ word[3][i] ^ (key[1][i] + round * 0xBB67AE85);
                word[1][i] = std::uint32_t(two), word[3][i] = std::uint32_t(one);
            }
    }
    static void copy_some(const real* from, real* to, std::size_t n) {
        if (n) copy(from, to, n);
    }
};

// A row's memo, as `memo_of` has it: w and h of the cell, of each halving z and n, and w and h of the half that the part is in; and
// the integral over the part.
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
    const bool same = at.of[5] == 1 && std::equal(columns, columns + 4, at.of);
    std::size_t other = same ? part ^ std::size_t(at.of[4]) : 0, level = at.levels + 1;
    std::copy(columns, columns + 4, at.of);
    at.of[4] = real(part), at.of[5] = 1;
    if (!same) return 0;
    for (; other; other >>= 1) --level;
    return level;
}

inline real root_of(real x) { return DOUBLE ? real(__builtin_sqrt(x)) : real(__builtin_sqrtf(float(x))); }

// The bridge: of a cell of this length, at the level before.
inline void halve(const Cell& at, std::size_t level, bool later, real length) {
    const real of_z = root_of(length) / 4, of_n = root_of(length / 12) / 2, side = later ? real(-1) : real(1);
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
        if (other[m] == 0) scale(at.h(0), root_of(real(1) / 12), at.apart);
        real length = 1;
        for (std::size_t level = 1; level <= levels; ++level, length /= 2)
            if (level >= other[m]) halve(at, level, part[m] >> (levels - level) & 1, length);
        if (integral && other[m] <= levels)
            for (std::size_t i = 0; i < at.apart; i += LANES)
                store(at.integral() + i, length * (real(0.5) * load(at.w(levels) + i) + load(at.h(levels) + i)));
        w[m] = at.w(levels), z[m] = at.integral();
    }
}
