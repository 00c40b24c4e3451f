"""Error bars of a fitted equation hold the truth as often as they say: predator and prey, 300 recordings fitted at once.

    x' = a x - b x y,   y' = c x y - d y        seen at 12 irregular times, with errors of 10 %

Rates and starts of each recording are a row of one solve, and least squares goes from values up to 30 % off. The interval
of a rate, 1.96 standard errors to both sides, must hold the true value in 95 of 100 recordings. The control fits Euler's steps.
"""

import torch
from gallery import Found, show

from ctrnn_experiments import generator, plots
from discretize import integrate

RIGHT, TIMES, NOISE = torch.tensor([10.0, 5.0, 1.0, 0.1, 0.075, 1.5]).double().log(), 12, 0.1


def pair(t: torch.Tensor, h: torch.Tensor) -> torch.Tensor:
    x, y, a, b, c, d = h.unbind(-1)
    return torch.stack([a * x - b * x * y, c * x * y - d * y, *4 * [0 * x]], -1)


def seen(q: torch.Tensor, ts: torch.Tensor, method: str = "dopri5") -> torch.Tensor:
    """Return the logarithms of both numbers at times of their own, in NOISE, for those of starts and rates: (batch, 2 TIMES)."""
    return integrate(pair, None, q.exp(), ts, method=method, max_step=0.1).hs[1:, :, :2].log().movedim(1, 0).flatten(1) / NOISE


def fitted(data: torch.Tensor, ts: torch.Tensor, q: torch.Tensor, method: str) -> tuple[torch.Tensor, float]:
    """Return by how many standard errors each estimate is off, (recordings, 6), and the mean square of what is left."""
    for k in range(9):  # damped steps of Gauss and Newton; copy j of a recording has the gradient of number j
        copies = q.repeat_interleave(2 * TIMES, 0).requires_grad_()
        answers = seen(copies, ts.repeat_interleave(2 * TIMES, 1), method).unflatten(0, (-1, 2 * TIMES)).diagonal(dim1=1, dim2=2)
        jacobian, off = torch.autograd.grad(answers.sum(), copies)[0].view(-1, 2 * TIMES, 6), answers.detach() - data
        square, slope = jacobian.mT @ jacobian, (jacobian.mT @ off[..., None])[..., 0]
        q = q - torch.linalg.solve(square * (1 + 10.0 ** (1 - k) * torch.eye(6)), slope)
    return (q - RIGHT) / square.inverse().diagonal(dim1=1, dim2=2).sqrt(), float(off.square().sum(1).median()) / (2 * TIMES - 6)


def main(small: bool = False) -> Found:
    (count, end), dice, numbers = (1, 5) if small else (300, 8), generator(0, "prey"), {}
    ts = torch.cat([torch.zeros(1, count), end * torch.rand(TIMES, count, generator=dice).sort(0).values]).double()
    data = seen(RIGHT.expand(count, 6), ts) + torch.randn(count, 2 * TIMES, generator=dice)
    guess, at = RIGHT + 0.3 * (2 * torch.rand(count, 6, generator=dice) - 1), torch.linspace(-6, 6, 200)
    with plots.style():
        figure, (ax,) = plots.panels(1, 3.4)
        ax.plot(at, (-(at**2) / 2).exp() / (2 * torch.pi) ** 0.5, color=plots.INK, linestyle=plots.DASHES[1], label="normal")
        for name, method, colour in (("solved", "dopri5", plots.BLUE), ("Euler's step of 0.1", "euler", plots.ORANGE)):
            z, numbers[f"misfit, {name}"] = fitted(data, ts, guess, method)
            for what, mine in (("starts", z[:, :2]), ("rates", z[:, 2:])):
                numbers[f"{what} in their intervals, {name}"] = float((mine.abs() < 1.96).double().mean())
            ax.hist(z.flatten().numpy(), 24, range=(-6, 6), density=True, histtype="step", color=colour, label=name)
        ax.set(xlabel="estimate minus truth, in standard errors", ylabel="density")
        plots.legend(figure, ax, columns=3)
    (misfit, *inside), wrong = list(numbers.values())[:3], numbers["starts in their intervals, Euler's step of 0.1"]
    return numbers, abs(misfit - 1) < 0.1 and all(abs(share - 0.95) < 0.03 for share in inside) and wrong < 0.8, figure


if __name__ == "__main__":
    show(main)
