r"""Lists published networks, where their weights are, and how they are run; reads them by `discretize.from_ctrnn`.

    v <- v + a (W r(v) + Wx x + b - v) + s noise      a = dt/tau, s as their scripts have it, outputs Wout r(v)

Files lie in `--data DIR`, published-networks/OWNER+REPOSITORY/PATH, as the commit has them; another file is refused.
"""

from __future__ import annotations

import hashlib
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

import ctrnn
import discretize
from ctrnn import LowRankReduction, VectorField
from discretize import SequenceModel
from experiments.studies.study import data_path

__all__ = ["FOLDER", "PUBLISHED", "PublishedNetwork", "reduced"]

FOLDER = "published-networks/"
LINT = "adrian-valente+lowrank_inference", "14bef71f733f66192944e074aeddbc41b132b7d0"  # Valente, Pillow and Ostojic 2022
POPULATIONS = "adrian-valente+populations_paper_code", "1bb6256f9cd4ebab2650fb03ad2b16f59b09d268"  # Dubreuil et al. 2022
PSYCHRNN = "murraylab+PsychRNN", "aff98e119d6f0ac780196ec50cc7166509d3938f"  # Ehrlich et al. 2021


@dataclass(frozen=True)
class PublishedNetwork:
    """Names a network: repository and commit, the file and its SHA-256, the task in trials.py, and its step and noise.

    `printed`: the accuracy that their notebook shows, where it shows one.
    """

    home: tuple[str, str]
    path: str
    digest: str
    task: str
    noise: float
    printed: float | None = None
    alpha: float = 0.2
    nonlinearity: Any = "tanh"

    def read(self) -> tuple[SequenceModel, torch.Tensor | None]:
        """Return the network without noise, in float64, and the state it starts in where that is not 0.

        Raises: ValueError for another file than that of the commit.
        """
        place = data_path(f"{FOLDER}{self.home[0]}/{self.path}")
        assert place is not None, "points() leaves out networks whose files are not there"
        if hashlib.sha256(place.read_bytes()).hexdigest() != self.digest:
            raise ValueError(f"{place} is not {self.path} of {self.home[0].replace('+', '/')} at commit {self.home[1]}.")
        arrays = _arrays(place)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # arrays have no code; outputs were compared once, see the study
            model = discretize.from_ctrnn(arrays, alpha=self.alpha, nonlinearity=self.nonlinearity)
        assert isinstance(model, SequenceModel)
        start = torch.as_tensor(arrays.get("h0", arrays.get("init_state"))).double().reshape(-1)
        return model.double().requires_grad_(False), start if bool((start != 0).any()) else None


def _arrays(place: Path) -> dict[str, Any]:
    if place.suffix == ".npz":
        with np.load(place) as file:
            names = [name for name in file.files if "/" not in name and name not in ("dale_ratio", "Dale_rec", "Dale_out")]
            return {name: file[name] for name in names}
    arrays: dict[str, Any] = torch.load(place, map_location="cpu", weights_only=True)
    return arrays


def reduced(field: VectorField) -> VectorField:
    """Return a network of low rank by its few variables, which are exact; any other as it is."""
    candidate: Any = field.candidate
    kept = getattr(candidate, "parametrizations", None)
    if kept is None or not isinstance(kept.weight_h[0], ctrnn.parts.LowRank):
        return field
    return LowRankReduction(field).requires_grad_(False)


PUBLISHED = {
    "rdm_lr_fig2": PublishedNetwork(
        POPULATIONS,
        "models/rdm_lr_fig2.pt",
        "4bf429668be00aad8eb84efc70fb661710431a713d73966dc1d5d45290ed30e5",
        "random-dots",
        0.05,
        1.0,
    ),
    "mante_lr_fig1": PublishedNetwork(
        POPULATIONS,
        "models/mante_lr_fig1.pt",
        "7f9c6ae33d89602da92a7da987494344e76add9b8ca7fd449497fe7b2872e786",
        "context",
        0.0,
        1.0,
    ),
    "mante_fr_fig1": PublishedNetwork(
        POPULATIONS,
        "models/mante_fr_fig1.pt",
        "20bb3795393042c25c9316a08279f560f1086ecb815fdfc5810e214765cc3997",
        "context",
        0.05,
        0.99,
    ),
    "raposo_lr_fig1": PublishedNetwork(
        POPULATIONS,
        "models/raposo_lr_fig1.pt",
        "99a774c3ccb27d581a9ead6d25499af31e08d5d55ac775df0461549d1e28954c",
        "modalities",
        0.0,
        0.995,
    ),
    "raposo_fr_fig1": PublishedNetwork(
        POPULATIONS,
        "models/raposo_fr_fig1.pt",
        "0efd6a9aff2640d14f6c9e629b289de812209a3eb9183254c4dbaaea2ebbbffb",
        "modalities",
        0.05,
    ),
    "romo_rank2_500": PublishedNetwork(
        POPULATIONS,
        "models/romo_rank2_500.pt",
        "12a34d62a19529eebcfea0cbafdc5c7579a293c03b5b2a5cd5ab83f87ffcc16f",
        "comparison",
        0.005,
        1.0,
    ),
    "dms_rank2_500": PublishedNetwork(
        POPULATIONS,
        "models/dms_rank2_500.pt",
        "77ab742072aa98ffc396275c230b8bb26b21567c9246a983eea8d90af3fa7864",
        "match",
        0.05,
        1.0,
    ),
    "rdm_rank1_512": PublishedNetwork(
        LINT,
        "models/rdm_rank1_512.pt",
        "dd417e48de25318bfd0978502ad93d810b1105e67168fe94ae33b01e53b751f8",
        "random-dots, weak",
        0.05,
        1.0,
    ),
    "romo_rank2_512": PublishedNetwork(
        LINT,
        "models/romo_rank2_512.pt",
        "4d8e2e6cbb778a573af6a547421bf9aafd8e655cb6423e068e6ca0bba898b7f9",
        "comparison, long",
        0.01,
        1.0,
    ),
    "dms_rank2_512": PublishedNetwork(
        LINT,
        "models/dms_rank2_512.pt",
        "c6a3885b39a5e1ed8de6c140ebcc1d2190f376c3e72243f0af7f9513e2ee215b",
        "match, long",
        0.05,
    ),
    "mante_rank1_512": PublishedNetwork(
        LINT,
        "models/mante_rank1_512.pt",
        "c36a2bbceef43101ae6032235ecc57b259d7e0cb8f75b3d40853a96de3054972",
        "context",
        0.03,
    ),
    "psychrnn": PublishedNetwork(
        PSYCHRNN,
        "docs/notebooks/weights/saved_weights.npz",
        "f3c2c34a03c870f1defb7f8a87a4382519a8a78ca5e49bd6536dd7c5bd9ead4f",
        "two-channels",
        0.0,
        alpha=0.1,
        nonlinearity="relu",
    ),
}
