"""A cell acts on each sample of a batch by itself, the same way on each; code that does not is refused, with its line."""

import pytest
import torch
from sympy import symbols
from torch import nn
from torch.nn import functional as F  # noqa: N812 - its usual name

from derivations import UnknownOperation, symbolic, verify


class Custom(nn.Module):
    def __init__(self, code):
        super().__init__()
        self.code, self.input_size, self.hidden_size = code, 2, 3
        self.W = nn.Parameter(torch.zeros(3, 3))

    def forward(self, x, h):
        return self.code(self, x, h)


MIXING = {
    "sum over the batch": lambda self, x, h: h + h.sum(0),
    "all of it summed": lambda self, x, h: h.sum() * h,
    "mean over the batch": lambda self, x, h: h - h.mean(0, keepdim=True),
    "mean of constants": lambda self, x, h: h * torch.ones_like(h).sum(0),
    "softmax over the batch": lambda self, x, h: h.softmax(0),
    "logsumexp over the batch": lambda self, x, h: h - h.logsumexp(0, keepdim=True),
    "reversed batch": lambda self, x, h: h.flip(0),
    "rolled batch": lambda self, x, h: h.roll(2, 0),
    "the first sample": lambda self, x, h: h[0] + h,
    "the last sample": lambda self, x, h: h[-1:] * h,
    "a running sum": lambda self, x, h: h.cumsum(0),
    "products of samples": lambda self, x, h: h @ (h.T @ h),
    "samples against samples": lambda self, x, h: h @ h.T @ h,
    "einsum over the batch": lambda self, x, h: torch.einsum("bi,bj,bj->bi", h, h, h) * torch.einsum("bi->i", h),
    "a sample written over": lambda self, x, h: torch.select_scatter(h, h[1], 0, 0),
    "a sorted batch": lambda self, x, h: h.sort(0)[0],
    "the largest of a batch": lambda self, x, h: h * h.topk(1, 0)[0],
    "samples gathered": lambda self, x, h: h.gather(0, torch.zeros(1, 3, dtype=torch.long)) * h,
    "the first sample gathered": lambda self, x, h: h.gather(1, torch.zeros(1, 3, dtype=torch.long)) * h,
    "flattened": lambda self, x, h: h.reshape(-1).reshape(-1, 3),
    "normalized over the batch": lambda self, x, h: F.normalize(h, dim=0),
}


@pytest.mark.by_default(7)
@pytest.mark.parametrize("name", MIXING)
def test_code_that_mixes_samples_is_refused_with_its_line(name):
    with pytest.raises(ValueError, match=r"mixes the .*test_samples\.py"):
        symbolic(Custom(MIXING[name]))


COUNTING = {
    "times the size of the batch": lambda self, x, h: h * h.shape[0],
    "divided by the number of entries": lambda self, x, h: h / h.numel(),
    "filled with it": lambda self, x, h: h + torch.full_like(h, h.shape[0] - 2),
    "a range as long": lambda self, x, h: h + torch.arange(h.shape[0])[:, None],
    "a number of it": lambda self, x, h: h * float(len(h)),
    "an exponent": lambda self, x, h: h.abs() ** (h.shape[0] - 1),
    "a polynomial of it that is 0 at small sizes": lambda self, x, h: h * (1 + (h.shape[0] - 2) * (h.shape[0] - 3)),
}


@pytest.mark.parametrize("name", list(COUNTING))
def test_code_that_computes_with_the_size_of_the_batch_is_refused(name, all_settings):
    with pytest.raises(
        ValueError, match=r"size of the batch|of certain sizes.*\(.*test_samples.py|otherwise than one of several"
    ):
        verify(Custom(COUNTING[name]), symbols("h_1:4", real=True))


def test_code_that_treats_one_sample_otherwise_is_refused(all_settings):
    alone = Custom(lambda self, x, h: 2 * h if h.shape[0] == 1 else h)
    with pytest.raises(ValueError, match="one sample otherwise"):
        verify(alone, symbols("h_1:4", real=True))


def test_code_that_knows_certain_sizes_only_is_refused():
    with pytest.raises(ValueError, match="certain sizes"):
        symbolic(Custom(lambda self, x, h: 2 * h if h.shape[0] > 7 else h))


ONE_BY_ONE = {
    "weights first": lambda self, x, h: (self.W @ h.T).T + h @ self.W.T,
    "an axis moved and moved back": lambda self, x, h: h.T.unsqueeze(0).transpose(1, 2).squeeze(0),
    "a product for each sample": lambda self, x, h: torch.bmm(self.W.expand(h.shape[0], 3, 3), h[..., None])[..., 0],
    "shapes with the size in them": lambda self, x, h: h.view(h.shape[0], 3) + torch.zeros(h.shape[0], 3),
}


@pytest.mark.parametrize("name", list(ONE_BY_ONE))
def test_code_that_moves_the_batch_about_and_mixes_nothing_is_read(name):
    module = Custom(ONE_BY_ONE[name])
    assert len(symbolic(module)) == 3


REFUSED = {
    "random numbers": (lambda self, x, h: h + torch.randn_like(h), ValueError, r"random numbers.*test_samples"),
    "dropout": (lambda self, x, h: F.dropout(h, 0.5), ValueError, r"random numbers.*eval\(\)"),
    "a branch on values": (
        lambda self, x, h: h if h.sum() > 0 else -h,
        ValueError,
        r"branches on the values.*test_samples.*torch\.where",
    ),
    "an input changed in place": (lambda self, x, h: h.add_(1), ValueError, r"buffers, parameters or inputs: .*test_samples"),
    "a weight changed in place": (lambda self, x, h: h * self.W.detach().mul_(2).sum(), ValueError, "changes its buffers"),
    "integers": (lambda self, x, h: h.int() + h, UnknownOperation, "_to_copy"),
    "integers beyond the largest": (lambda self, x, h: h + torch.tensor(200, dtype=torch.uint8) * 2, UnknownOperation, "uint8"),
    "and below the least": (lambda self, x, h: h - (-torch.tensor(1, dtype=torch.uint8)), UnknownOperation, "uint8"),
    "and of 64 bits": (lambda self, x, h: h + (h > 0).sum(-1, keepdim=True) * 2**40 * 2**40, UnknownOperation, "int64"),
    "truth values added": (lambda self, x, h: ((h > 0) + (h > 1)) * h, UnknownOperation, "add"),
    "bits": (lambda self, x, h: h.view(torch.int32)[:, :3] * h, UnknownOperation, "view"),
    "positions of the largest": (lambda self, x, h: h * F.one_hot(h.argmax(-1), 3), UnknownOperation, "argmax"),
    "places by numbers": (lambda self, x, h: h.gather(-1, h.argsort(-1)), UnknownOperation, "gather"),
    "a long sort": (lambda self, x, h: torch.cat([x, h], -1).sort(-1)[0][:, :3], UnknownOperation, "sort"),
    "complex pairs": (lambda self, x, h: torch.complex(h, h).real, UnknownOperation, "complex"),
    "positions": (lambda self, x, h: h * h.max(-1)[1].unsqueeze(-1), UnknownOperation, "no reading"),
}


@pytest.mark.by_default(6)
@pytest.mark.parametrize("name", REFUSED)
def test_code_that_is_no_function_or_has_no_reading_is_refused_in_words(name):
    code, error, words = REFUSED[name]
    with pytest.raises(error, match=f"(?s){words}"):
        symbolic(Custom(code))
