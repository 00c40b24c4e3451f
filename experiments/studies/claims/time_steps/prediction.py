r"""Predicts, before anything is trained, what a linear oscillator keeps of its rhythm when its step is taken away.

    R(lambda dt) = e^(i omega dt)      trained by a step, a mode neither grows nor fades under that step and has the right period
    e^(lambda t)                       so this is what its equation does, lambda = a + i w, and a < 0 for Euler's step

    Euler    lambda = (e^(i omega dt) - 1)/dt: a = -(1 - cos(omega dt))/dt, about -dt omega^2/2; w = sin(omega dt)/dt

That a step's stability function makes a damped mode of one that neither grows nor fades is in Lu and Tsai 2025.

There is no number to fit. Cycles that a nonlinearity keeps in size are beyond it: those whose rest point repels in the equation
fade less, and at dt = tau, where a mode loses a third of its size in a time constant, the expansion in dt has no meaning.
"""

from __future__ import annotations

import cmath
import math

import torch

import discretize.steps
from discretize import Step
from experiments.models.integrators import EXACT, INTEGRATORS
from experiments.tasks.cognitive import Rhythm

__all__ = ["eigenvalue", "predicted_r2"]

PERIODS, NEAR = 201, 1e-6


def eigenvalue(step: Step, dt: float, period: float) -> complex:
    """Find the eigenvalue that the step turns once in a period, neither growing nor fading, of units of time constant 1."""
    wanted, leak = cmath.exp(2j * math.pi * dt / period), torch.tensor(dt, dtype=torch.float64)

    def factor(z: complex) -> complex:
        return complex(step.stability(torch.tensor(z, dtype=torch.complex128), leak))

    z = 2j * math.pi * dt / period
    for _ in range(50):
        off = factor(z) - wanted
        z -= off * 2 * NEAR / (factor(z + NEAR) - factor(z - NEAR))
        if abs(off) < 1e-13:
            break
    return z / dt


def predicted_r2(name: str, dt: float, task: Rhythm) -> float:
    """Compute R^2 of the equation's sines against those of the step, over the periods of the task, at its samples."""
    if name == EXACT:
        return 1.0
    step = getattr(discretize.steps, INTEGRATORS[name])()
    t = dt * torch.arange(1, round(task.length / dt) + 1, dtype=torch.float64)
    wanted, found = [], []
    for held in torch.linspace(0, 1, PERIODS).tolist():
        period = task.shortest + held * (task.longest - task.shortest)
        rate = eigenvalue(step, dt, period)
        wanted.append(torch.sin(2 * math.pi / period * t))
        found.append(torch.exp(rate.real * t) * torch.sin(rate.imag * t))
    targets, off = torch.stack(wanted), torch.stack(found) - torch.stack(wanted)
    return float(1 - off.square().mean() / (targets - targets.mean()).square().mean())
