"""The fused step of liquid time-constant networks, as ncps has it, is the frozen backward Euler step of their field."""

import torch
from cases import each
from ncps.torch import LTCCell
from ncps.wirings import AutoNCP, FullyConnected
from torch.testing import assert_close

import ctrnn
import discretize


class LiquidTimeConstant(ctrnn.VectorField):
    r"""cm dh/dt = gleak (vleak - h) + sum_j w_j sigma(sigma_j (v_j - mu_j)) (erev_j - h), over units and inputs v_j.

    With the weights of an ncps cell. Source: Hasani et al. 2021, eqs. (1) and (2), as ncps 1.0.1 writes them.
    """

    def __init__(self, cell: LTCCell) -> None:
        super().__init__(cell.sensory_size, cell.state_size)
        self.cell = cell

    def project(self, x):
        return self._currents(self.cell._map_inputs(x), "sensory_", self.cell.sensory_sparsity_mask)

    def flow(self, projected, h):
        written, lost = self._driven(projected, h)
        return (written - lost * h) / self.cell.cm

    def leak(self, projected, h):
        return self._driven(projected, h)[1] / self.cell.cm

    def _driven(self, projected, h):
        both = projected + self._currents(h, "", self.cell.sparsity_mask)
        written, lost = both.chunk(2, -1)
        return written + self.cell.gleak * self.cell.vleak, lost + self.cell.gleak

    def _currents(self, v, kind, mask):
        weight, mu, sigma, erev = (getattr(self.cell, kind + name) for name in ("w", "mu", "sigma", "erev"))
        open_ = weight * torch.sigmoid(sigma * (v.unsqueeze(-1) - mu)) * mask
        return torch.cat([(open_ * erev).sum(-2), open_.sum(-2)], -1)


@each("wiring", [lambda: FullyConnected(7), lambda: AutoNCP(8, 2)])
@each("elapsed", [0.3, 1.0, 4.0])
@torch.no_grad()
def test_the_linearly_implicit_step_is_the_fused_step_of_ncps(wiring, elapsed):
    torch.set_default_dtype(torch.float32)
    cell = LTCCell(wiring(), 3)
    field = LiquidTimeConstant(cell)
    rnn = discretize.DiscreteRNN(field, discretize.FrozenBackwardEuler(), dt=elapsed, substeps=6)
    for _ in range(4):  # one sample at a time: with a time for each of a batch, ncps gives shapes that do not fit
        xs, theirs = torch.randn(5, 1, 3), torch.zeros(1, cell.state_size)
        for x, ours in zip(xs, rnn(xs)[0], strict=True):
            theirs = cell(x, theirs, elapsed)[1]
            assert_close(ours, theirs, rtol=0, atol=1e-5)


@torch.no_grad()
def test_their_step_tends_to_the_solution_as_it_is_unfolded_more_often():
    torch.set_default_dtype(torch.float32)
    cell = LTCCell(FullyConnected(7), 3).double()
    x, h0 = torch.randn(1, 3, dtype=torch.float64), torch.zeros(1, 7, dtype=torch.float64)
    path, ends = ctrnn.HeldPath(x[None]), torch.tensor([0.0, 1.0])
    exact = discretize.integrate(LiquidTimeConstant(cell), path, h0, ends, rtol=1e-10, atol=1e-12).hs[-1]
    errors = []
    for cell._ode_unfolds in (6, 24, 96):
        errors.append(float((cell(x, h0)[1] - exact).abs().max()))
    assert errors[0] > 3 * errors[1] > 9 * errors[2] > 0
