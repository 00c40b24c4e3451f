// Goes back through a few steps of a method that is written out as a program.
#pragma once

namespace {

// Back through a few steps at once: of_projected (like projected, added to).
class StepsBack : FieldCalls {
  public:
    StepsBack(const Solve& solve, real* of_projected)
        : solve(solve), n(solve.model), method(solve.method.given), count(method.calls_back),
          pullback(n, SLOTS, larger(method.pulled, 1)), of_projected(of_projected), field(solve, SLOTS, larger(count, 1)),
          text(method.attempt_return(solve.method.shared, SLOTS)), y(SLOTS * count, n.state), k(SLOTS * count, n.state),
          kept(SLOTS * count, n.kept), of_y(SLOTS * count, n.state), of_k(SLOTS * count, n.state), to_h(SLOTS, n.state), dt(SLOTS),
          starts(SLOTS), cotangents(SLOTS) {
        for (std::size_t call = 0; call < count; ++call) {
            states.push_back(y.at.data() + call * SLOTS), slopes.push_back(k.at.data() + call * SLOTS);
            of_states.push_back(of_y.at.data() + call * SLOTS), of_slopes.push_back(of_k.at.data() + call * SLOTS);
        }
    }

    void run(const std::vector<TakenStep>& taken) {
        on = &taken;
        const std::size_t rows = taken.size();
        for (std::size_t m = 0; m < rows; ++m) dt[m] = real(taken[m].step.dt), starts[m] = taken[m].h, cotangents[m] = taken[m].of_h;
        text->run(rows, starts.data(), dt.data(), *this, cotangents.data(), to_h.at.data());
        pullback.sum_up(method.pulled * rows, y);
        for (std::size_t m = 0; m < rows; ++m) std::memcpy(taken[m].of_h, to_h[m], n.state * sizeof(real));
    }

    void add(const StepsBack& other) { pullback.add(other.pullback); }
    void write(const CtrnnSums* to) const { pullback.write(*to); }

  private:
    const Solve& solve;
    const Model& n;
    const CtrnnMethod& method;
    const std::size_t count;
    Pullback pullback;
    real* of_projected;
    Field field;
    std::unique_ptr<AttemptReturn> text;
    Rows y, k, kept, of_y, of_k, to_h;
    std::vector<real> dt;
    std::vector<const real*> starts, cotangents;
    const std::vector<TakenStep>* on = nullptr;

    double time(std::size_t call, std::size_t m) const { return (*on)[m].step.tau + method.nodes_back[call] * (*on)[m].step.dt; }

    // Times the clock's speed there.
    void hasten(std::size_t call, std::size_t rows, real* const* values) const {
        if (!solve.given.speed_terms) return;
        for (std::size_t m = 0; m < rows; ++m)
            scale(values[m], solve.speed((*on)[m].step.segment, (*on)[m].sample, time(call, m)), n.state);
    }

    void evaluate(std::size_t call, std::size_t rows) override {
        for (std::size_t m = 0; m < rows; ++m) field.read(call, m, (*on)[m].step.segment, (*on)[m].sample, time(call, m));
        field.evaluator.evaluate(call, rows, states[call], kept.at.data() + call * SLOTS, slopes[call]);
        hasten(call, rows, slopes[call]);
    }

    void pull(std::size_t call, std::size_t rows) override {
        hasten(call, rows, of_slopes[call]);
        pullback.back(field.evaluator, call, rows, states[call], kept.at.data() + call * SLOTS, of_slopes[call], of_states[call],
                      [&](std::size_t m, const real* of) {
                          solve.give((*on)[m].step.segment, (*on)[m].sample, time(call, m), of, of_projected);
                      });
    }
};

}  // namespace
