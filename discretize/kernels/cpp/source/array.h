// Arrays, of a length that is known or that grows at the end. Not from <vector>, <array> and <utility>, which take half of the time that
// a field's program takes to compile.
#pragma once

#include <cstddef>
#include <cstring>
#include <new>

template <class T> void swap_values(T& a, T& b) {
    T held = static_cast<T&&>(a);
    a = static_cast<T&&>(b);
    b = static_cast<T&&>(held);
}

template <class T, std::size_t length> struct FixedArray {
    T values[length];

    T* data() { return values; }
    T& operator[](std::size_t i) { return values[i]; }
    const T& operator[](std::size_t i) const { return values[i]; }
};

template <class T> class Array {
  public:
    Array() = default;
    explicit Array(std::size_t size) : Array() { resize(size); }
    Array(std::size_t size, const T& value) : Array() { assign(size, value); }
    Array(const T* first, const T* end) : Array() { assign(first, end); }
    Array(const Array& other) : Array() { assign(other.begin(), other.end()); }
    Array(Array&& other) noexcept { swap(other); }
    Array& operator=(Array other) noexcept {
        swap(other);
        return *this;
    }
    ~Array() {
        clear();
        ::operator delete(values, LINE);
    }

    T* data() { return values; }
    const T* data() const { return values; }
    T* begin() { return values; }
    const T* begin() const { return values; }
    T* end() { return values + count; }
    const T* end() const { return values + count; }
    T& operator[](std::size_t i) { return values[i]; }
    const T& operator[](std::size_t i) const { return values[i]; }
    T& front() { return *values; }
    const T& front() const { return *values; }
    T& back() { return values[count - 1]; }
    std::size_t size() const { return count; }
    bool empty() const { return !count; }

    void clear() {
        if constexpr (!__is_trivially_copyable(T))
            while (count) values[--count].~T();
        count = 0;
    }

    void reserve(std::size_t least) {
        if (least <= room) return;
        T* more = static_cast<T*>(::operator new(least * sizeof(T), LINE));
        if constexpr (__is_trivially_copyable(T)) {
            if (count) std::memcpy(static_cast<void*>(more), values, count * sizeof(T));
        } else
            for (std::size_t i = 0; i < count; ++i) {
                new (more + i) T(static_cast<T&&>(values[i]));
                values[i].~T();
            }
        ::operator delete(values, LINE);
        values = more;
        room = least;
    }

    // New ones are 0, or made of nothing.
    void resize(std::size_t size) {
        make_room(size);
        if constexpr (__is_trivially_copyable(T) && __is_trivially_constructible(T)) {
            if (size > count) std::memset(static_cast<void*>(values + count), 0, (size - count) * sizeof(T));
            count = size;
        } else {
            while (count > size) values[--count].~T();
            for (; count < size; ++count) new (values + count) T();
        }
    }

    void assign(std::size_t size, const T& value) {
        clear();
        reserve(size);
        for (; count < size; ++count) new (values + count) T(value);
    }

    // Of another array.
    void assign(const T* first, const T* end) {
        clear();
        reserve(std::size_t(end - first));
        for (; first != end; ++first, ++count) new (values + count) T(*first);
    }

    void push_back(T value) { emplace_back(static_cast<T&&>(value)); }

    template <class... Given> void emplace_back(Given&&... given) {
        make_room(count + 1);
        new (values + count) T(static_cast<Given&&>(given)...);
        ++count;
    }

  private:
    // A cache line, so that no vector of numbers lies across two of them.
    static constexpr std::align_val_t LINE{64};

    T* values = nullptr;
    std::size_t count = 0, room = 0;

    // Twice as much as there was, so that what comes one by one is moved seldom.
    void make_room(std::size_t least) {
        if (least > room) reserve(least > 2 * room ? least : 2 * room);
    }

    void swap(Array& other) noexcept {
        swap_values(values, other.values), swap_values(count, other.count), swap_values(room, other.room);
    }
};
