// Networks that read symbols, over whole sequences: activities forwards, values and moduli backwards, sums for the metrics.
//
//     V_j <- carry V_j + tau_0jx + sum_i tau_ijx a_i,    a = centre + size tanh(V / width)
//
// All arrays are (time, batch, units); a weight stands for each symbol, unit and edge into it. One thread takes a sequence
// through all times, or the sums of a unit; sums are in double precision, so neither threads nor their number change them.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "parallel.h"
#include "simd.h"

namespace {

struct Graph {
    std::size_t units, edges, symbols;
    const std::int64_t* sources;  // (units, edges): who is at the other end of an edge
    const real *weight, *bias;    // (symbols, units, edges), (symbols, units)
    double carry, width, size, centre;

    real squashed(real v) const { return real(centre + size * std::tanh(v / real(width))); }
    const real* into(std::int64_t x, std::size_t unit) const { return weight + (std::size_t(x) * units + unit) * edges; }
};

}  // namespace

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT int ctrnn_symbols_size() { return int(sizeof(Graph)); }

// symbols (time, batch), start (units,) -> activity; from_v: the start is V, else the activity itself.
EXPORT int ctrnn_symbols_forwards(const Graph* graph, std::size_t time, std::size_t batch, std::size_t threads,
                                  const std::int64_t* symbols, const real* start, int from_v, real* activity) {
    const Graph& g = *graph;
    return in_parallel(batch, threads, [&](std::size_t sequence) {
        std::vector<real> v(start, start + g.units);
        for (std::size_t t = 0; t < time; ++t) {
            real* a = activity + (t * batch + sequence) * g.units;
            if (!t) {
                for (std::size_t j = 0; j < g.units; ++j) a[j] = from_v ? g.squashed(v[j]) : v[j];
                continue;
            }
            std::size_t before = (t - 1) * batch + sequence;
            const real* heard = activity + before * g.units;
            std::int64_t x = symbols[before];
            for (std::size_t j = 0; j < g.units; ++j) {
                const real* tau = g.into(x, j);
                const std::int64_t* from = g.sources + j * g.edges;
                real total = 0;
                for (std::size_t k = 0; k < g.edges; ++k) total += tau[k] * heard[from[k]];
                total += g.bias[std::size_t(x) * g.units + j];
                v[j] = g.carry ? real(total + g.carry * v[j]) : total;
                a[j] = g.squashed(v[j]);
            }
        }
    });
}

// Eqs. (22) and (24): slope s', surprise and variance -> values and moduli.
EXPORT int ctrnn_symbols_backwards(const Graph* graph, std::size_t time, std::size_t batch, std::size_t threads,
                                   const std::int64_t* symbols, const real* slope, const real* surprise,
                                   const real* variance, real* values, real* moduli) {
    const Graph& g = *graph;
    return in_parallel(batch, threads, [&](std::size_t sequence) {
        std::vector<real> of_values(g.units), of_moduli(g.units), loop(g.units);
        for (std::size_t t = time; t-- > 0;) {
            std::size_t now = t * batch + sequence, row = now * g.units, next = row + batch * g.units;
            bool last = t + 1 == time;
            for (auto part : {&of_values, &of_moduli, &loop}) std::fill(part->begin(), part->end(), real(0));
            for (std::size_t j = 0; !last && j < g.units; ++j) {
                const real* tau = g.into(symbols[now], j);
                const std::int64_t* from = g.sources + j * g.edges;
                real value = values[next + j], modulus = moduli[next + j];
                for (std::size_t k = 0; k < g.edges; ++k) {
                    std::size_t i = std::size_t(from[k]);
                    of_values[i] += tau[k] * value;
                    of_moduli[i] += tau[k] * tau[k] * modulus;
                    if (i == j) loop[j] += tau[k];
                }
            }
            for (std::size_t i = 0; i < g.units; ++i) {
                real s = slope[row + i], carry = real(g.carry);
                values[row + i] = s * (surprise[row + i] + of_values[i]);
                moduli[row + i] = s * s * (variance[row + i] + of_moduli[i]);
                if (last || !carry) continue;
                values[row + i] += carry * values[next + i];
                moduli[row + i] += carry * (carry + 2 * loop[i] * s) * moduli[next + i];
            }
        }
    });
}

// Of each symbol and unit, over the samples at which that symbol was read, with u = [1, a of the edges]:
// sum m; sum B u; and centred: sum m (u - mean)(u - mean)^T, sum B (u - mean); else sum m u, sum m u^2, sum B^2 u^2,
// and how often u is not 0.
// a (samples, units) is what was heard, values and moduli what came of it. Sums are (symbols, units) and what a row names.
EXPORT int ctrnn_symbols_sums(const Graph* graph, std::size_t samples, std::size_t threads, const std::int64_t* symbols,
                              const real* activity, const real* values, const real* moduli, int centred, real* total,
                              real* first, real* slopes, real* squares, real* gradients, real* often) {
    const Graph& g = *graph;
    std::size_t k = g.edges + 1;
    return in_parallel(g.units, threads, [&](std::size_t j) {
        std::size_t wide = centred ? k * k : k;
        std::vector<double> m0(g.symbols), m1(g.symbols * k), b1(g.symbols * k), m2(g.symbols * wide), b2(g.symbols * k),
            n(g.symbols * k), u(k);
        const std::int64_t* from = g.sources + j * g.edges;
        auto read = [&](std::size_t s) {
            u[0] = 1;
            for (std::size_t i = 1; i < k; ++i) u[i] = activity[s * g.units + from[i - 1]];
            return std::size_t(symbols[s]);
        };
        for (std::size_t s = 0; s < samples; ++s) {
            std::size_t x = read(s);
            double m = moduli[s * g.units + j], b = values[s * g.units + j];
            m0[x] += m;
            for (std::size_t i = 0; i < k; ++i) {
                m1[x * k + i] += m * u[i];
                if (centred) continue;
                b1[x * k + i] += b * u[i];
                m2[x * k + i] += m * u[i] * u[i];
                b2[x * k + i] += b * b * u[i] * u[i];
                n[x * k + i] += u[i] != 0;
            }
        }
        if (centred) {  // from here on m1 is the mean, that of unit 0 left out
            for (std::size_t x = 0; x < g.symbols; ++x)
                for (std::size_t i = 0; i < k; ++i) m1[x * k + i] = i && m0[x] > 0 ? m1[x * k + i] / m0[x] : 0;
            for (std::size_t s = 0; s < samples; ++s) {
                std::size_t x = read(s);
                double m = moduli[s * g.units + j], b = values[s * g.units + j];
                for (std::size_t i = 0; i < k; ++i) u[i] -= m1[x * k + i];
                for (std::size_t i = 0; i < k; ++i) {
                    b1[x * k + i] += b * u[i];
                    double weighted = m * u[i], *row = &m2[(x * k + i) * k];
                    for (std::size_t other = 0; other <= i; ++other) row[other] += weighted * u[other];
                }
            }
            for (std::size_t x = 0; x < g.symbols; ++x)
                for (std::size_t i = 0; i < k; ++i)
                    for (std::size_t other = i + 1; other < k; ++other) m2[(x * k + i) * k + other] = m2[(x * k + other) * k + i];
        }
        for (std::size_t x = 0; x < g.symbols; ++x) {
            std::size_t row = x * g.units + j;
            total[row] = real(m0[x]);
            for (std::size_t i = 0; i < k; ++i) {
                first[row * k + i] = real(m1[x * k + i]);
                slopes[row * k + i] = real(b1[x * k + i]);
                gradients[row * k + i] = real(b2[x * k + i]);
                often[row * k + i] = real(n[x * k + i]);
            }
            for (std::size_t i = 0; i < wide; ++i) squares[row * wide + i] = real(m2[x * wide + i]);
        }
    });
}
