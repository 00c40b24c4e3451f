"""Files that studies need, fetched from a host of our own: the right ones only, once, and over nothing that is there."""

import hashlib
import re
import socket
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from ctrnn.extras import BROUGHT_BY
from experiments.__main__ import main
from experiments.studies import fetched
from experiments.studies.fetched import FetchedFile, fetch, sources
from experiments.usage import UsageError

RIGHT = b"the right file"
DIGEST = hashlib.sha256(RIGHT).hexdigest()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *words):
        self.server.asked.append(self.path)


@pytest.fixture
def host(tmp_path, monkeypatch):
    """A host with one file, and what it is asked for."""
    pytest.importorskip("pooch", reason=f"pip install -c constraints.txt '.[{BROUGHT_BY['pooch'][1]}]'")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    (tmp_path / "host").mkdir()
    (tmp_path / "host" / "file").write_bytes(RIGHT)
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(tmp_path / "host"))) as server:
        server.asked = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def knows(monkeypatch, address, digest=DIGEST):
    monkeypatch.setattr(fetched, "sources", lambda: {"mnist/a": FetchedFile(address, digest)})


def test_a_file_is_fetched_once(host, tmp_path, monkeypatch, capsys):
    knows(monkeypatch, f"http://127.0.0.1:{host.server_port}/file")
    command = ["study", "fetch", "tallec-fig6", "--data", str(tmp_path / "data")]
    assert (main(command), main(command)) == (0, 0)
    assert (tmp_path / "data" / "mnist" / "a").read_bytes() == RIGHT
    assert capsys.readouterr() == ("mnist/a: from 127.0.0.1.\nmnist/a: is there.\n", "")
    assert host.asked == ["/file"]


def test_another_file_is_refused_and_one_that_is_there_is_kept(host, tmp_path, monkeypatch):
    address, there = f"http://127.0.0.1:{host.server_port}/file", tmp_path / "mnist" / "a"
    knows(monkeypatch, address, digest="0" * 64)
    with pytest.raises(UsageError, match=f"{address} has become another file: its SHA-256 is not 0000"):
        list(fetch(["mnist/"], tmp_path))
    assert not list(tmp_path.glob("mnist/*"))
    there.parent.mkdir(exist_ok=True)
    there.write_bytes(b"my own")
    with pytest.raises(UsageError, match=r"a is another file than that of .*; move it away"):
        list(fetch(["mnist/"], tmp_path))
    assert there.read_bytes() == b"my own"


@pytest.fixture
def silent():
    """A port at which nobody listens, and that nobody else is given."""
    with socket.socket() as kept:
        kept.bind(("127.0.0.1", 0))
        yield kept.getsockname()[1]


@pytest.mark.parametrize(("answers", "words"), [(False, "ConnectionError"), (True, "HTTPError")])
def test_without_the_file_it_says_where_to_have_it(host, silent, answers, words, tmp_path, monkeypatch, capsys):
    address = f"http://127.0.0.1:{host.server_port if answers else silent}/no"
    knows(monkeypatch, address)
    assert main(["study", "fetch", "tallec-fig6", "--data", str(tmp_path)]) == 2
    where = tmp_path / "mnist" / "a"
    expected = f"{address} cannot be had ({words}); where there is a network fetch it to {where}.\n"
    assert capsys.readouterr().err == f"ctrnn study fetch: {expected}"


def test_what_has_no_checksum_is_put_there_by_hand(tmp_path, capsys):
    command = ["study", "fetch", "ohno-har", "--data", str(tmp_path)]
    assert main(command) == 1
    (tmp_path / "uci_har").mkdir()
    assert main(command) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first == "uci_har/: put it there by hand; no checksum is known of the originals."
    assert second == "uci_har/: is there."


def test_files_of_repositories_are_those_of_a_commit():
    known = sources()
    assert len(known) == 4 + 1 + 12
    for name, source in known.items():
        assert re.fullmatch("[0-9a-f]{64}", source.digest), name
        at_a_commit = re.match(r"https://raw\.githubusercontent\.com/[^/]+/[^/]+/[0-9a-f]{40}/", source.address)
        assert name.startswith("mnist/") or at_a_commit, name
