"""Public files: found, downloaded once, checked, or a clear error."""

import hashlib
import http.server
import threading
from functools import partial

import pytest

from bellman_diffusion.data.fetch import PublicFile, find_file
from bellman_diffusion.errors import DataMissingError

CONTENT = b"a,b\n1,2\n"
DIGEST = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def server(tmp_path):
    """A server of ours on loopback: the published file and a count of requests."""
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "table.csv").write_bytes(CONTENT)
    (folder / "other.csv").write_bytes(b"changed")
    asked = []

    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *arguments):
            asked.append(self.path)

    with http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), partial(Handler, directory=str(folder))
    ) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}/", asked
        running.shutdown()
        thread.join()


@pytest.fixture(autouse=True)
def own_folders(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("BELLMAN_DATA_DIR", raising=False)


def test_a_file_is_downloaded_once(server):
    address, asked = server
    file = PublicFile("table.csv", DIGEST, address + "table.csv")
    first = find_file(file)
    assert first.read_bytes() == CONTENT
    assert find_file(file) == first
    assert len(asked) == 1


def test_the_data_directory_comes_first(server, tmp_path, monkeypatch):
    address, asked = server
    (tmp_path / "table.csv").write_bytes(CONTENT)
    monkeypatch.setenv("BELLMAN_DATA_DIR", str(tmp_path))
    assert find_file(PublicFile("table.csv", DIGEST, address + "table.csv")).parent == tmp_path
    assert not asked


def test_a_changed_download_is_not_kept(server, tmp_path):
    address, _ = server
    with pytest.raises(DataMissingError, match="SHA-256"):
        find_file(PublicFile("other.csv", DIGEST, address + "other.csv"))
    assert not list((tmp_path / "cache").rglob("*.csv"))


def test_a_changed_file_is_refused(tmp_path, monkeypatch):
    (tmp_path / "table.csv").write_bytes(b"edited")
    monkeypatch.setenv("BELLMAN_DATA_DIR", str(tmp_path))
    with pytest.raises(DataMissingError, match="not the published file"):
        find_file(PublicFile("table.csv", DIGEST, "http://127.0.0.1:9/table.csv"))


@pytest.mark.parametrize("address", ["http://127.0.0.1:9/t.csv", "nonsense"])
def test_without_a_network_the_error_says_where_to_put_the_file(address):
    with pytest.raises(DataMissingError, match=r"t\.csv.*BELLMAN_DATA_DIR"):
        find_file(PublicFile("t.csv", DIGEST, address))


def test_a_missing_page_is_an_error(server):
    address, _ = server
    with pytest.raises(DataMissingError, match="could not be downloaded"):
        find_file(PublicFile("none.csv", DIGEST, address + "none.csv"))


def test_a_download_that_breaks_off_is_told(tmp_path):
    """More bytes are announced than come."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(CONTENT)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        address = f"http://127.0.0.1:{running.server_port}/table.csv"
        with pytest.raises(DataMissingError, match="could not be downloaded"):
            find_file(PublicFile("table.csv", DIGEST, address))
        running.shutdown()
        thread.join()
