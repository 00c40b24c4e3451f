// Holds an object on the heap that is nobody else's. Not from <memory>, which takes a tenth of the time of a driver to compile.
#pragma once

#include "array.h"

template <class T> class Owned {
  public:
    Owned(T* object = nullptr) : object(object) {}
    Owned(Owned&& other) noexcept : object(other.object) { other.object = nullptr; }
    Owned& operator=(Owned&& other) noexcept {
        swap_values(object, other.object);
        return *this;
    }
    ~Owned() { delete object; }
    T& operator*() const { return *object; }
    T* operator->() const { return object; }
    explicit operator bool() const { return object; }

  private:
    T* object;
};
