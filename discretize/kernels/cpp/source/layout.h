// Lays weights out for products.
#pragma once

#include "packed.h"

// Which source is multiplied, and by which matrix.
struct MapPart {
    std::size_t source;
    const real* matrix;
};

// Affine maps of rows side by side, each of the sum of products of some sources with matrices (depth, width): laid out in panels
// of up to TILE_VECTORS vectors of columns, which stay in registers while all of their sources are summed up.
struct Affine {
    std::size_t width;
    const real* start;  // (width,), or null
    Array<MapPart> parts;
};

struct Layout : Product {
    // `depths`: of each source
    Layout(const Array<Affine>& maps, const Array<std::size_t>& depths) {
        for (const Affine& map : maps) width += padded(map.width);
        start.resize(width);
        for (std::size_t k = 0, column = 0; k < maps.size();) {
            std::size_t end = k;  // maps of the same sources share panels
            while (end < maps.size() && of_the_same(maps[end], maps[k])) ++end;
            std::size_t across = 0;
            for (std::size_t i = k; i < end; ++i) across += padded(maps[i].width);
            for (std::size_t first = 0; first < across; first += TILE_VECTORS * LANES)
                add_panel(&maps[k], column, first, smaller(across - first, std::size_t(TILE_VECTORS * LANES)), depths);
            for (; k < end; ++k) {
                if (maps[k].start) std::memcpy(start.data() + column, maps[k].start, maps[k].width * sizeof(real));
                column += padded(maps[k].width);
            }
        }
    }

  private:
    static constexpr std::size_t DEPTH = 128;  // of a pass, about

    static bool of_the_same(const Affine& one, const Affine& other) {
        if (one.parts.size() != other.parts.size()) return false;
        for (std::size_t i = 0; i < one.parts.size(); ++i)
            if (one.parts[i].source != other.parts[i].source) return false;
        return true;
    }

    // Columns of maps that begin at `column`, from the `offset`-th on.
    void add_panel(const Affine* maps, std::size_t column, std::size_t offset, std::size_t across, const Array<std::size_t>& depths) {
        panels.push_back({column + offset, int(across / LANES), {}});
        Panel& panel = panels.back();
        std::size_t total = 0, room = 0;
        for (const MapPart& part : maps->parts) total += depths[part.source];
        const std::size_t passes = larger(1, (total + DEPTH - 1 - DEPTH / 4) / DEPTH);
        for (std::size_t i = 0; i < maps->parts.size(); ++i) {
            const std::size_t source = maps->parts[i].source, depth = depths[source];
            for (std::size_t first = 0; first < depth;) {
                if (!room) panel.passes.emplace_back(), room = (total + passes - 1) / passes;
                const std::size_t units = smaller(room, depth - first);
                panel.passes.back().push_back({source, first, units, values.size()});
                lay_out(maps, i, first, units, offset, across);
                first += units;
                room -= units;
            }
        }
        if (panel.passes.empty()) panel.passes.emplace_back();  // the start alone
    }

    // Behind the values so far: rows of so many units, of the columns `across` from `offset` on.
    void lay_out(const Affine* map, std::size_t part, std::size_t first, std::size_t units, std::size_t offset, std::size_t across) {
        const std::size_t at = values.size();
        values.resize(at + units * across);
        for (std::size_t begin = 0; begin < offset + across; begin += padded((map++)->width)) {
            const std::size_t from = larger(begin, offset), end = smaller(begin + map->width, offset + across);
            for (std::size_t unit = 0; from < end && unit < units; ++unit)
                std::memcpy(values.data() + at + unit * across + (from - offset),
                            map->parts[part].matrix + (first + unit) * map->width + (from - begin), (end - from) * sizeof(real));
        }
    }
};
