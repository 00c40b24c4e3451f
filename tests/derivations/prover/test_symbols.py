"""The letters and what is assumed of them."""

from derivations.prover import symbols


def test_assumptions_are_on_the_letters():
    assert symbols.alpha.is_positive
    assert symbols.r.is_positive
    assert symbols.s.is_nonnegative
    assert symbols.s.is_positive is None
    assert symbols.t.is_real
    assert all(h.is_real for h in symbols.state(3))
    assert symbols.h0.is_positive is None


def test_names_of_torch_parameters_are_theirs_counted_from_0_and_typeset():
    letter = symbols.entry("candidate.weight_h", (0, 1))
    assert letter.name == "candidate.weight_h[0,1]"
    assert letter.is_real
    assert symbols.latex_name(letter) == r"\mathtt{candidate.weight\_h}_{0,1}"
    assert symbols.latex_name(symbols.entry("rate.log_alpha", ())) == r"\mathtt{rate.log\_alpha}"
    assert symbols.latex_name(symbols.alpha) is None
    assert symbols.latex_name(symbols.weights("W_x", 1, 1)[0]) is None
