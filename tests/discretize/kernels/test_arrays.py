"""Arrays of kernels hold what std::vector holds after the same calls, begin at cache lines, and leave no object behind."""

import pytest

from discretize.kernels.build import CppSource, Unavailable, library
from discretize.kernels.cpp.programs import SOURCES

PROBE = r"""
#include <cstdint>
#include <vector>

#include "array.h"

int alive = 0;

// An object that knows where it is, so that none is moved as bytes.
struct Thing {
    double value = 0;
    const Thing* self = this;

    Thing() { ++alive; }
    Thing(double value) : value(value) { ++alive; }
    Thing(const Thing& other) : value(other.value) { ++alive; }
    Thing(Thing&& other) noexcept : value(other.value) { other.value = -1, ++alive; }
    Thing& operator=(const Thing& other) = delete;
    ~Thing() { self = nullptr, --alive; }
    bool operator!=(const Thing& other) const { return value != other.value || self != this; }
};

template <class T> int differences(unsigned seed, int calls) {
    Array<T> mine;
    std::vector<T> theirs;
    int found = 0;
    for (int call = 0; call < calls; ++call) {
        seed = seed * 1664525u + 1013904223u;
        const std::size_t count = (seed >> 8) % 23;
        switch (seed >> 29) {
            case 0: mine.resize(count), theirs.resize(count); break;
            case 1: mine.reserve(count), theirs.reserve(count); break;
            case 2: mine = Array<T>(count, T(call)), theirs = std::vector<T>(count, T(call)); break;
            case 3: { Array<T> copy(mine); mine.clear(), mine = static_cast<Array<T>&&>(copy); break; }
            case 4: mine = Array<T>(theirs.data(), theirs.data() + theirs.size()); break;
            case 5: mine.emplace_back(call), theirs.emplace_back(call); break;
            default: mine.push_back(T(call)), theirs.push_back(T(call));
        }
        found += mine.size() != theirs.size() || mine.empty() != theirs.empty() || std::uintptr_t(mine.data()) % 64 != 0;
        for (std::size_t i = 0; i < mine.size() && i < theirs.size(); ++i) found += mine[i] != theirs[i];
        if (!mine.empty()) found += mine.front() != theirs.front() || mine.back() != theirs.back();
    }
    return found;
}

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int numbers(unsigned seed) { return differences<double>(seed, 2000); }
EXPORTED int objects(unsigned seed) { return differences<Thing>(seed, 2000); }
EXPORTED int left() { return alive; }
"""


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    path = tmp_path_factory.mktemp("arrays") / "arrays.cpp"
    path.write_text(PROBE)
    try:
        return library(CppSource(path, headers=SOURCES), {"REAL": "double"})
    except Unavailable as error:
        pytest.skip(str(error).splitlines()[0])


@pytest.mark.parametrize("of", ["numbers", "objects"])
def test_arrays_are_those_of_the_library_after_the_same_calls(probe, of):
    assert [probe[of](seed) for seed in range(3)] == [0, 0, 0]
    assert probe.left() == 0
