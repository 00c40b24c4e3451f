// Shares work among threads. What an item computes never depends on which thread computes it.
#pragma once

#include <cstddef>
#include <new>

#include <pthread.h>  // not <thread>, <atomic> and <system_error>, which take as long to compile as a driver's own code

struct Items {
    std::size_t number;
    void (*work)(const void*, std::size_t);
    const void* given;
    std::size_t next = 0;
    bool enough = true;  // memory
};

inline void* work_on(void* given) {
    Items& items = *static_cast<Items*>(given);
    const auto next = [&] { return __atomic_fetch_add(&items.next, 1, __ATOMIC_RELAXED); };
    try {
        for (std::size_t item = next(); item < items.number; item = next()) items.work(items.given, item);
    } catch (const std::bad_alloc&) {
        __atomic_store_n(&items.enough, false, __ATOMIC_RELAXED);
    }
    return nullptr;
}

inline bool in_parallel(Items items, std::size_t threads) {
    constexpr std::size_t MOST = 1024;
    pthread_t others[MOST];
    std::size_t begun = 0;  // where no thread is to be had, those there are do it all
    while (begun < MOST && begun + 1 < threads && begun + 1 < items.number &&
           pthread_create(&others[begun], nullptr, work_on, &items) == 0)
        ++begun;
    work_on(&items);
    while (begun > 0) pthread_join(others[--begun], nullptr);
    return items.enough;
}

// work(item) for all items; false where memory ran out.
template <class Work> bool in_parallel(std::size_t items, std::size_t threads, const Work& work) {
    const auto call = [](const void* given, std::size_t item) { (*static_cast<const Work*>(given))(item); };
    return in_parallel({items, call, &work}, threads);
}
