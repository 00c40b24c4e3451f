// Functions of rows, and what all samples share, for passes that discretize/kernels/cpp writes. It is compiled anew with
// every field, so what drivers alone need is in driver.h.
#pragma once

#include "packed.h"
#include "scratch.h"

constexpr std::size_t MOST_ROWS = 64;  // at a time: beyond, their products leave the nearer caches

// Of shared_products.cpp.
using Multiply = void (*)(std::size_t, const Product*, const real* const* const*, const real* const*, real* const*);
using Outer = void (*)(std::size_t, std::size_t, std::size_t, const real*, std::size_t, const real*, std::size_t, real*, std::size_t);
// Of shared_noise.cpp.
using Draw = void (*)(std::size_t, std::size_t, std::size_t, bool, const real* const*, real* const*, const real**, const real**);

struct Shared;
struct Model;     // of written_model.h
struct Equation;  // of equation.h

// The passes of a program over rows, which it makes for drivers: steps.cpp, solves.cpp. Written out, in a library of its own.
struct Forward {
    virtual ~Forward() = default;
    virtual void run(std::size_t rows, const real* const* x, const real* const* h, const real* dt, real* const* kept,
                     real* const* next) = 0;
};

// Where a sum begins among the numbers of an area, and how far apart its rows are.
struct Place { std::size_t area, first, stride; };

struct SumsSoFar {
    Array<Numbers> areas;  // over samples: those of the same rows and columns side by side
    Array<Place> sums;
};

struct Backward : SumsSoFar {
    virtual ~Backward() = default;
    // What is to be summed over samples is collected from row `place` on, until it is summed up to a depth of so many rows.
    virtual void run(std::size_t rows, std::size_t place, const real* const* x, const real* const* h, const real* dt,
                     const real* const* kept, const real* const* cotangent, real* const* to_h, real* const* to_x,
                     real* to_dt) = 0;
    virtual void sum_up(std::size_t depth) = 0;
};

// Derivatives of one sample along each unit from `first` on, a row of h for each.
struct Columns {
    virtual ~Columns() = default;
    virtual void run(std::size_t rows, std::size_t first, const real* const* x, const real* const* h, real* const* next) = 0;
};

extern "C" {

struct CtrnnProgram;
struct CtrnnModel;

// A field of a few units over samples side by side: of `slots` of them number i is at [i * slots + s]. Its slopes; and their cotangents
// back to the state and the input, sums over samples added lane by lane.
typedef void LaneFlow(const CtrnnProgram*, std::size_t slots, const real* x, const real* h, real* slope);
typedef void LaneReturn(const CtrnnProgram*, std::size_t slots, const real* x, const real* h, const real* cotangent, real* to_h,
                        real* to_x, real* sums);

// Sizes that a program refers to, the widths of what it keeps, and weights: vectors, and matrices (depth, width). Products are
// described by numbers one after the other: how many maps, and for each its width, 1 + the vector that it starts from or 0, how many
// matrices, and for each which source it multiplies and which it is. `forth` of them are the forward pass's, the others the
// backward pass's.
struct CtrnnProgram {
    std::size_t sizes, kept_values, vectors, matrices, products, forth;
    const std::size_t *size, *kept_widths, *vector_widths, *depths, *widths, *product;
    const real *const *vector, *const *matrix;
    Multiply multiply;
    Outer outer;
    Draw increments;
    Forward* (*forward)(const Shared&, std::size_t rows);
    Backward* (*backward)(const Shared&, std::size_t rows, std::size_t together);
    Columns* (*columns)(const Shared&, std::size_t rows);  // null where a program has none
    // In place of all these for a field of a few units, and how many numbers its sums have.
    LaneFlow* lane_flow;
    LaneReturn* lane_return;
    std::size_t lane_sums;
    // Of equations u = a + tau F(u) that a step solves: F, and who solves them. Null where a program has none.
    const CtrnnModel* flow;
    Equation* (*equation)(const Model&);
};

// A field as solvers read it: x is the projected input, and there is no dt. For implicit methods its derivatives are written, too:
// along a direction v of the state, of [h, v]; of the input, of [x, v]; null where they are not asked for.
struct CtrnnModel {
    std::size_t state, columns;
    const CtrnnProgram *program, *by_state, *by_input;
};

// Where sums over samples go, (height, width) each.
struct CtrnnSums {
    std::size_t sums;
    const std::size_t *heights, *widths;
    real* const* sum;

    void write(const SumsSoFar& from) const {
        for (std::size_t k = 0; k < sums; ++k) {
            const Place& at = from.sums[k];
            const real* first = from.areas[at.area].data() + at.first;
            for (std::size_t row = 0; row < heights[k]; ++row)
                std::memcpy(sum[k] + row * widths[k], first + row * at.stride, widths[k] * sizeof(real));
        }
    }
};
}

// Numbers of a row with room for what is read and written beyond its width.
inline std::size_t roomy(std::size_t width) { return padded(width) + LANES; }

// A row is a sample, or of an attempt `slots` of them side by side, number i of the one in slot s at [i * slots + s]: `size` is then
// the program's sizes times `slots`.
struct Shared {
    const CtrnnProgram program;
    const std::size_t slots, across;      // samples of a row; from a number of theirs to the next, or from a vector of a row's to the next
    Array<std::size_t> size, kept;  // that the text refers to; where the values that are kept of a row begin
    std::size_t total;                    // numbers that are kept of a row
    Array<Numbers> vectors;         // padded
    Array<Product> products;
    Array<const std::size_t*> product_numbers;  // those that describe each product
    const Model* flow = nullptr;    // of equations
    mutable bool unsolved = false;  // whether one of these has no solution that was found

    // `first`: numbers before those that are kept; the products of which passes are laid out.
    Shared(const CtrnnProgram& p, std::size_t first, bool forth = true, bool back = true, std::size_t slots = 1);  // of driver.h
};

inline vec truth(ivec condition) { return condition ? splat(1) : splat(0); }
inline vec positive_part(vec a) { return a <= real(0) ? splat(0) : a; }
inline vec sign_of(vec a) { return a > real(0) ? splat(1) : a < real(0) ? splat(-1) : splat(0); }  // of nan too
inline vec larger(vec a, vec b) { return (a > b) | (a != a) ? a : b; }
inline vec smaller(vec a, vec b) { return (a < b) | (a != a) ? a : b; }

inline vec natural_exponential(vec a) { return a < LEAST ? splat(0) : unbounded_exponential(a); }

inline vec logistic(vec a) { return real(1) / (real(1) + natural_exponential(-a)); }

inline vec natural_exponential_less_1(vec a) {
    return a > MOST ? splat(INFINITE) : exponential_less_1(a);
}

inline vec natural_logarithm(vec a) {
    const vec beyond = a == real(0) ? splat(-INFINITE)
                                    : a > real(0) ? a : splat(NO_NUMBER);
    return (a > real(0)) & (a < INFINITE) ? logarithm(a) : beyond;
}

// log(1 + a): the rounding of 1 + a is taken back
inline vec natural_logarithm_of_1_and(vec a) {
    const vec whole = real(1) + a, over = whole - real(1);
    const vec found = natural_logarithm(whole);
    return (over == real(0)) ? a : whole < INFINITE ? found * (a / over) : found;
}

template <class Function, class... Vectors> inline vec by_lane(Function f, Vectors... v) {
    vec out;
    for (int lane = 0; lane < LANES; ++lane) out[lane] = f(v[lane]...);
    return out;
}

// of the sign of b
inline vec remainder_of(vec a, vec b) {
    // Without <cmath>, which takes as long to read as all of this; of two floats, too, what remains is a float.
    const vec rest = by_lane([](real v, real w) { return real(__builtin_fmod(v, w)); }, a, b);
    return (rest != real(0)) & ((rest < real(0)) ^ (b < real(0))) ? rest + b : rest;
}

typedef double wide __attribute__((vector_size(LANES * sizeof(double))));

inline wide widened(vec v) { return __builtin_convertvector(v, wide); }

inline vec narrowed(wide v) { return __builtin_convertvector(v, vec); }

inline void add_units(real* to, const real* from, std::size_t n) {
    for (std::size_t i = 0; i < n; i += LANES) store(to + i, load(to + i) + load(from + i));
}

inline real sum_of(const real* from, std::size_t n) {
    vec total = {};
    std::size_t i = 0;
    for (; i + LANES <= n; i += LANES) total += load(from + i);
    if (i < n) total += load(from + i, n - i);
    return sum(total);
}

inline real largest_of(const real* from, std::size_t n, std::size_t stride) {
    real found = from[0];
    for (std::size_t i = 1; i < n; ++i) {
        const real next = from[i * stride];
        found = next > found || next != next ? next : found;
    }
    return found;
}

// Over the middle one of three axes.
inline void sums_over(const real* from, real* to, std::size_t outer, std::size_t size, std::size_t inner) {
    for (std::size_t o = 0; o < outer; ++o, from += size * inner, to += inner) {
        if (inner == 1) to[0] = sum_of(from, size);
        else
            for (std::size_t i = 0; i < inner; i += LANES) {
                vec total = {};
                for (std::size_t k = 0; k < size; ++k) total += load(from + k * inner + i, inner - i);
                store(to + i, total, inner - i);
            }
    }
}

inline void largest_over(const real* from, real* to, std::size_t outer, std::size_t size, std::size_t inner) {
    for (std::size_t o = 0; o < outer; ++o)
        for (std::size_t i = 0; i < inner; ++i) to[o * inner + i] = largest_of(from + o * size * inner + i, size, inner);
}

struct Axis {
    std::size_t size;
    std::ptrdiff_t stride;
};

// Numbers by steps along axes, the last one fastest, are written one after the other. Returns the place after them.
inline real* strided(const real* from, real* to, const Axis* axis, std::size_t axes) {
    const auto [size, stride] = *axis;
    if (axes == 1 && stride == 1) copy(from, to, size);
    else if (axes == 1 && stride == 0) for (std::size_t i = 0; i < size; i += LANES) store(to + i, splat(*from), size - i);
    else if (axes == 1) for (std::size_t i = 0; i < size; ++i) to[i] = from[std::ptrdiff_t(i) * stride];
    else for (std::size_t i = 0; i < size; ++i) to = strided(from + std::ptrdiff_t(i) * stride, to, axis + 1, axes - 1);
    return axes == 1 ? to + size : to;
}

// to(m) = start(m) + the maps of from(m), ...
template <class To, class Start, class... From>
inline void product_from(const Shared& shared, std::size_t which, std::size_t rows, To to, Start start, From... from) {
    const real *begin[MOST_ROWS], *a[sizeof...(From) + 1][MOST_ROWS];
    real* y[MOST_ROWS];
    const auto fill = [rows](const real** at, auto place) { for (std::size_t m = 0; m < rows; ++m) at[m] = place(m); };
    for (std::size_t m = 0; m < rows; ++m) y[m] = to(m), begin[m] = start(m);
    std::size_t k = 0;
    (fill(a[k++], from), ...);
    const real* const* sources[sizeof...(From) + 1];
    for (k = 0; k < sizeof...(From); ++k) sources[k] = a[k];
    shared.program.multiply(rows, &shared.products[which], sources, begin, y);
}

// The same from what the maps start with themselves.
template <class To, class... From>
inline void product(const Shared& shared, std::size_t which, std::size_t rows, To to, From... from) {
    const real* start = shared.products[which].start.data();
    product_from(shared, which, rows, to, [=](std::size_t) { return start; }, from...);
}

// The same for vectors a_m that are 1 at their number first + m - offset and 0 elsewhere: a row of what lies there by depth.
template <class To>
inline void column_of_each(const Shared& shared, std::size_t matrix, std::size_t rows, std::size_t first, std::size_t offset, To to) {
    const std::size_t depth = shared.program.depths[matrix], width = shared.program.widths[matrix];
    for (std::size_t m = offset > first ? offset - first : 0; m < rows && first + m < offset + depth; ++m) {
        const real* from = shared.program.matrix[matrix] + (first + m - offset) * width;
        real* y = to(m);
        for (std::size_t i = 0; i < width; i += LANES) store(y + i, load(y + i) + load(from + i, width - i));
    }
}

// Increments of a Brownian path over a part of a cell of length 1 for each row, and those of its integral, kept from one call to the
// next: columns(m) are a key in three parts, a cell, and which of so many parts.
struct Increments {
    const std::size_t width, parts;
    const bool integral;
    Rows memo;
    Array<const real*> w, z;

    Increments(std::size_t rows, std::size_t width, std::size_t parts, bool integral)
        : width(width), parts(parts), integral(integral), memo(rows, memo_of(width, parts)), w(rows), z(rows) {}

    template <class Columns> void draw(const Shared& shared, std::size_t rows, Columns columns) {
        const real* at[MOST_ROWS];
        for (std::size_t m = 0; m < rows; ++m) at[m] = columns(m);
        shared.program.increments(rows, width, parts, integral, at, memo.at.data(), w.data(), z.data());
    }
};
