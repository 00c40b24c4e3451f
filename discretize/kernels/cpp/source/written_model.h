// A field whose `flow` is written out, in a library of its own, as a solver reads it: x is the projected input, and there is no dt.
// For implicit methods its derivatives are, too: along a direction v of the state, of [h, v]; of the input, of [x, v].
#pragma once

#include "driver.h"
#include "parallel.h"

struct Model {
    const std::size_t width, columns, state;
    Shared shared;
    const Owned<Shared> by_state, by_input;
    const std::size_t kept;

    explicit Model(const CtrnnModel& given)
        : width(given.state), columns(given.columns), state(roomy(given.state)), shared(*given.program, 0),
          by_state(shared_of(given.by_state)), by_input(shared_of(given.by_input)), kept(shared.total) {}

  private:
    static Owned<Shared> shared_of(const CtrnnProgram* given) {
        return given ? new Shared(*given, 0) : nullptr;
    }
};

class Evaluator {
  public:
    Rows x;  // (stages rows): what was read

    Evaluator(const Model& model, std::size_t rows, std::size_t stages) : Evaluator(model.shared, model.columns, rows, stages) {}
    Evaluator(const Shared& program, std::size_t columns, std::size_t rows, std::size_t stages)
        : x(stages * rows, roomy(columns)), columns(columns), together(rows), dt(rows), step_of(forward_of(program, rows)) {}

    void read(std::size_t stage, std::size_t row, const real* projected) {
        std::memcpy(x[stage * together + row], projected, columns * sizeof(real));
    }

    void evaluate(std::size_t stage, std::size_t rows, real* const* h, real* const* kept, real* const* slope) {
        step_of->run(rows, at(stage), h, dt.data(), kept, slope);
    }

    real* const* at(std::size_t stage) const { return x.at.data() + stage * together; }

  private:
    const std::size_t columns, together;
    Array<real> dt;  // which a field's text takes, and does not read
    Owned<Forward> step_of;
};

class Pullback {
  public:
    Pullback(const Model& model, std::size_t rows, std::size_t stages)
        : Pullback(model.shared, model.columns, rows, stages) {}
    Pullback(const Shared& program, std::size_t columns, std::size_t rows, std::size_t stages)
        : of_x(rows, roomy(columns)), dt(rows), step_of(backward_of(program, rows, stages)) {}

    // The cotangents of a stage's slopes -> of_h, written over, and give(m, those of the projected input).
    template <class Give>
    void back(const Evaluator& read, std::size_t stage, std::size_t rows, real* const* h, real* const* kept,
              real* const* of_slope, real* const* of_h, Give give) {
        step_of->run(rows, stage * rows, read.at(stage), h, dt.data(), kept, of_slope, of_h, of_x.at.data(), nullptr);
        for (std::size_t m = 0; m < rows; ++m) give(m, of_x[m]);
    }

    // What the stages so far add to the weights' gradients.
    void sum_up(std::size_t depth, Rows&) { step_of->sum_up(depth); }

    void add(const Pullback& other) {
        for (std::size_t k = 0; k < step_of->areas.size(); ++k)
            add_to(step_of->areas[k].data(), other.step_of->areas[k].data(), step_of->areas[k].size());
    }

    void write(const CtrnnSums& to) const {
        to.write(*step_of);
    }

  private:
    Rows of_x;
    Array<real> dt;
    Owned<Backward> step_of;
};
