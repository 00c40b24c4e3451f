r"""Lists prior work: who published each result of this project first, or what was searched for in vain.

The key of a result is the longest one that its label begins with: "step maps, fused step" has a line of its own, "step maps, R of
Euler" takes that of "step maps". "None found" says what was looked for, in stored copies of public pages and repositories; it is
no proof that there is none. docs/references.md says what of each paper was read.
"""

from __future__ import annotations

from derivations.claim import Source

__all__ = ["PRIOR_WORK", "own"]

TEXTBOOK = "Textbook: Hairer, Nørsett and Wanner 1993; Hairer and Wanner 1996."
EXPONENTIAL = "Of exponential steps: Cox and Matthews 2002; Hochbruck and Ostermann 2010."
LIE_AND_STRANG = "Strang 1968; MacNamara and Strang 2016 for splittings that miss what a system rests at."
PRIOR_WORK = {
    "inverse": "The chain rule; Tallec and Ollivier 2018, footnote 2.",
    "composition": "The chain rule; Tallec and Ollivier 2018, footnote 2.",
    "warp": "Tallec and Ollivier 2018, eq. (6), for the plain field; the others follow in the same way.",
    "below eq. 3": "Taylor's formula; Tallec and Ollivier 2018, eq. (8), take its first order.",
    "footnote 3": "Taylor's formula; Tallec and Ollivier 2018, footnote 3.",
    "eq. 10": "None found for what gates per unit are not (looked for: gates per unit and one change of time). Tallec and "
    "Ollivier 2018, sec. 1, introduce them as a generalization.",
    "sigmoid": "Elementary.",
    "torch.nn.GRU": "De Brouwer et al. 2019; Jordan, Sokół and Park 2021: the GRU as a step of h' = (1 - z) (n - h).",
    "eq. 21": "A separable equation; Ohno and Kumagai 2021, sec. V, whose print lacks a factor.",
    "half-life": "A separable equation; Ohno and Kumagai 2021, sec. V.",
    "closure": "Tallec and Ollivier 2018, sec. 1, for plain, leaky and gated fields. None found for the others, nor for a "
    "class that is refuted (looked for: closed under time warping, recurrent cell).",
    "result 1": "Gu and Dao 2023, Theorem 1: h_t = (1 - g_t) h_{t-1} + g_t x_t with g_t = sigma(z_t) is the exact step, input "
    "held, of h' = -h + x over the time softplus(z_t). It improves Gu et al. 2021, Lemma 3.1, by their words. What is "
    "added: any target f, and what it says of Tallec and Ollivier's limit g < 1.",
    "result 2": "Tallec and Ollivier 2018, sec. 2, for the bias -log(T - 1). None found for the exact bias and for the mean "
    "of a gate (looked for: chrono initialization, exact bias, mean of the gate); the steps are Jensen's inequality and "
    "expansions.",
    "result 3": TEXTBOOK + " Of recurrent networks: Miller and Hardt 2019 and Erichson et al. 2021 have conditions of "
    "stability, Hahne et al. 2017 the largest stable steps of Euler's and exponential Euler in rate networks.",
    "result 4": TEXTBOOK + " " + EXPONENTIAL + " None found for the terms of a gate (looked for: local error, gated cell).",
    "result 5": "A separable equation; Ohno and Kumagai 2021, sec. V. Chien et al. 2021 make memory fall by a power law with "
    "another forget gate.",
    "result 6": "None found for this map (looked for: power decay, Euler, 2-cycle). That steps have 2-cycles and fixed "
    "points of their own is in Iserles and Stuart 1992 and Yee and Sweby 1992.",
    "result 7": "The inequality is that of the p-Laplacian with p = r + 2 and the constant 2^(2 - p), in Lindqvist's notes.",
    "result 8": "Wang, Li and Li 2023 prove that what nonlinear recurrent networks approximate stably has exponential "
    "memory. None found for this decay (looked for: polynomial memory, driven, nonlinear decay); density and derivative are "
    "the Fokker-Planck equation's and the variational one's.",
    "result 9": "None found (looked for: slow forgetting, instability, r below 1). Ohno and Kumagai 2021, sec. VI-D, see the "
    "instability and suspect U.",
    "result 10": "Tallec and Ollivier 2018, sec. 1, for blanks; Campos et al. 2018 copy a cell's state while a binary gate "
    "is shut. None found for which cells wait exactly by their gates (looked for: skipped updates, repeated symbols).",
    "result 11": "None found (looked for: repeated symbols, discrete time warping, gate).",
    "result 12": "That exponentials of spread rates average to a power law is known of forgetting: Anderson and Tweney "
    "1997, Kahana and Adler 2002, Murre and Chessa 2011. Of recurrent networks: Mahto et al. 2021, with inverse-gamma "
    "times; gates uniform on (0, 1), Gu et al. 2020, are the Pareto law with p = 1. What is added: the laws of chrono "
    "initialization, with their errors.",
    "result 13": "Kunstner, Balles and Hennig 2019 part the Fisher matrix, whose targets the model draws, from the "
    "empirical one. None found for RBPM (looked for: backpropagated metric, expectation).",
    "additive and rate form": "Miller and Fumarola 2012.",
    "Beer's network": "Beer 1995, eq. (1).",
    "Beer's biases": "Mathayomchan and Beer 2002.",
    "Wilson and Cowan": "Wilson and Cowan 1972.",
    "supralinear network": "Rubin, Van Hooser and Miller 2015.",
    "result 19": TEXTBOOK + " Modified equations: Hairer, Lubich and Wanner 2006, ch. IX. Of learning: Zhu et al. 2022 have "
    "the equation that is learned in place of the true one, and Lu and Tsai 2025 that a damped oscillator is read as one "
    "that grows.",
    "result 20": "That a clock of speed k makes k of a drift and sqrt(k) of a noise is the time change of textbooks. None "
    "found for gated classes with noise (looked for: time change, gated diffusion, neural SDE).",
    "result 21": "Abel's transformation, by which a delay that varies becomes constant (cited by arXiv:2603.15948). None "
    "found for warped networks (looked for: time transformation, delay equation).",
    "result 22": "Monotone maps of an interval are not chaotic: textbook. Laurent and von Brecht 2017 have a gated network "
    "of no chaos.",
    "result 23": "For linear layers Gu et al. 2021, whose step is an argument. Carson et al. 2024 run trained networks at "
    "other sampling rates. None found for the speed of the softplus clock (looked for: sampling rate, trained network).",
    "noise": "Kloeden and Platen 1992; of stationary variances Schurz 1994, for implicit Euler steps.",
    "noise, an exact step": "Uhlenbeck and Ornstein 1930.",
    "noise, halves of a cell": "Lévy 1948; Foster, Lyons and Oberhauser 2020.",
    "noise, inside of the last cells": "Lévy 1948; Foster, Lyons and Oberhauser 2020.",
    "noise, inside of a nonlinearity": "None found for the limit of short steps (looked for: white noise inside of a "
    "nonlinearity). Eckstein and Srinivasan 2026 find networks with noise there that need it afterwards; programs scale it "
    "by sqrt(2 / alpha), as the code of Yang et al. 2019.",
    "noise, its scale in Euler's step": "Song, Yang and Wang 2016 for sqrt(2 alpha); the variance of an autoregression is "
    "textbook.",
    "slow directions": EXPONENTIAL + " That they have another speed near rest points than the equation: none found (looked "
    "for: exponential Euler, slow mode, speed). Exponential fitting: Liniger and Willoughby 1970.",
    "step maps": TEXTBOOK + " " + EXPONENTIAL,
    "step maps, gate of Lie's splitting": LIE_AND_STRANG,
    "step maps, gate of Strang's splitting": LIE_AND_STRANG,
    "step maps, fixed point of Lie's splitting": LIE_AND_STRANG,
    "step maps, fixed point of Strang's splitting": LIE_AND_STRANG,
    "step maps, row bound": "Gershgorin's bound by sums of rows.",
    "step maps, sigmoid gate as backward Euler": "Gu et al. 2021, Lemma 3.1; their code lists the gates of forward, backward, "
    "trapezoidal and exact steps.",
    "step maps, fused step": "Hasani et al. 2021, for their step; that it is backward Euler with frozen rates is elementary.",
    "step maps, GRU": "De Brouwer et al. 2019; Jordan, Sokół and Park 2021, for Euler's step.",
    "step maps, LSTM's cell by Euler": "Niu, Horesh and Chuang 2019 read the LSTM as a step of an equation; none found for "
    "steps of other lengths (looked for: LSTM, exponential Euler, forget gate).",
    "step maps, LSTM's cell by exponential Euler": "None found (looked for: LSTM, exponential Euler).",
    "step maps, LSTM's output": "None found (looked for: LSTM, exponential Euler).",
    "step maps, power decay": "None found for steps of this decay (looked for: power decay, exponential Euler, Rosenbrock).",
    "step maps, gate on a power decay": "None found (looked for: power decay, softplus rate).",
    "step maps, splitting a driven power decay": "Strang 1968, for the orders.",
    "unit": TEXTBOOK
    + " That a step flips where the equation rests: Iserles and Stuart 1992, Yee and Sweby 1992. None found for gated units "
    "(looked for: Euler, gated unit, period doubling).",
    "code": "George et al. 2026 (TorchLean) prove statements of networks that are written in Lean. None found that reads "
    "torch's code of a cell and proves it equal to a printed equation (looked for: proof, code, equations, recurrent cell).",
}
own = Source("this project", PRIOR_WORK)
