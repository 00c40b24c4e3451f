// Shares work among threads, and allocates memory for it. What an item computes never depends on which thread computes it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "simd.h"

// work(item) for all items; false where memory ran out.
template <class Work> bool in_parallel(std::size_t items, std::size_t threads, Work work) {
    std::atomic<std::size_t> next{0};
    std::atomic<bool> enough{true};
    auto go = [&] {
        try {
            for (std::size_t item = next++; item < items; item = next++) work(item);
        } catch (const std::bad_alloc&) {
            enough = false;
        }
    };
    std::vector<std::thread> others;
    for (std::size_t i = 1; i < threads && i < items; ++i) {
        try {
            others.emplace_back(go);
        } catch (const std::system_error&) {
            break;  // no thread to be had: those there are do it all
        }
    }
    go();
    for (auto& other : others) other.join();
    return enough;
}

// Large memory that is about to be written for the first time comes in large pages where the system has them: a fault for
// every 4 KiB costs more than the work on them.
inline void in_large_pages(void* memory, std::size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr std::uintptr_t PAGE = std::uintptr_t(1) << 21;
    std::uintptr_t first = (reinterpret_cast<std::uintptr_t>(memory) + PAGE - 1) & ~(PAGE - 1);
    std::uintptr_t last = (reinterpret_cast<std::uintptr_t>(memory) + bytes) & ~(PAGE - 1);
    if (memory && last > first) madvise(reinterpret_cast<void*>(first), last - first, MADV_HUGEPAGE);
#else
    (void)memory, (void)bytes;
#endif
}
