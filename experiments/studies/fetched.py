r"""Fetches what studies need, where it is known which file is the right one: its address, and its SHA-256, by pooch.

    mnist/                   four files, from where torchvision has them
    tinyshakespeare/         one, of karpathy/char-rnn at a commit
    published-networks/      twelve, of three repositories at a commit each, see claims/published/networks.py

They come to lie in `--data DIR`, under these names. Whatever else studies need is fetched by hand.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from ctrnn.extras import needed_by
from experiments.usage import UsageError

__all__ = ["FetchedFile", "fetch", "sources"]

MNIST = "https://ossci-datasets.s3.amazonaws.com/mnist/"
GITHUB = "https://raw.githubusercontent.com/"
OF_MNIST = {
    "train-images-idx3-ubyte.gz": "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    "train-labels-idx1-ubyte.gz": "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    "t10k-images-idx3-ubyte.gz": "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    "t10k-labels-idx1-ubyte.gz": "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
}


class FetchedFile(NamedTuple):
    """Says where a file is had from, and its SHA-256."""

    address: str
    digest: str


SHAKESPEARE = FetchedFile(
    f"{GITHUB}karpathy/char-rnn/370cbcd448eb7daf32f21a6be560b70e0b33c4e3/data/tinyshakespeare/input.txt",
    "86c4e6aa9db7c042ec79f339dcb96d42b0075e16b8fc2e86bf0ca57e2dc565ed",
)


def sources() -> dict[str, FetchedFile]:
    """Return all that can be fetched, by its place in `--data DIR`."""
    from experiments.studies.claims.published.networks import FOLDER, PUBLISHED  # noqa: PLC0415 (torch)

    found = {f"mnist/{name}": FetchedFile(f"{MNIST}{name}", digest) for name, digest in OF_MNIST.items()}
    found["tinyshakespeare/input.txt"] = SHAKESPEARE
    for one in PUBLISHED.values():
        home, commit = one.home
        found[f"{FOLDER}{home}/{one.path}"] = FetchedFile(f"{GITHUB}{home.replace('+', '/')}/{commit}/{one.path}", one.digest)
    return found


def fetch(needs: Sequence[str], folder: Path) -> Iterator[tuple[str, bool]]:
    r"""Fetch the files that are missing; yield a line for each, and whether it is there now.

    Args:    needs: files and folders of a study, as `Study.needs` has them; folder: `--data DIR`.
    Raises:  UsageError where a host does not answer or has another file, and for another file of that name in the folder, which
             is kept.
    """
    known = sources()
    for need in needs:
        files = [name for name in known if name == need or (need.endswith("/") and name.startswith(need))]
        if not files:
            has = (folder / need).exists()
            yield f"{need}: {'is there' if has else 'put it there by hand; no checksum is known of the originals'}.", has
        for name in files:
            place = folder / name
            had = place.exists()
            if had and hashlib.sha256(place.read_bytes()).hexdigest() != known[name].digest:
                raise UsageError(f"{place} is another file than that of {known[name].address}; move it away, and ask again.")
            if not had:
                _fetch(known[name], place)
            yield f"{name}: {'is there' if had else f'from {urlsplit(known[name].address).hostname}'}.", True


def _fetch(source: FetchedFile, place: Path) -> None:
    with needed_by("ctrnn study fetch"):
        import pooch  # noqa: PLC0415
        import requests  # noqa: PLC0415 (which pooch brings)

    pooch.get_logger().setLevel("ERROR")
    try:
        pooch.retrieve(source.address, f"sha256:{source.digest}", place.name, place.parent, progressbar=sys.stderr.isatty())
    except requests.RequestException as error:
        raise UsageError(
            f"{source.address} cannot be had ({type(error).__name__}); where there is a network fetch it to {place}."
        ) from None
    except ValueError:
        raise UsageError(f"{source.address} has become another file: its SHA-256 is not {source.digest}.") from None
