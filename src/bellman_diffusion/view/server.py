"""The page on loopback."""

import contextlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from bellman_diffusion.errors import InvalidInputError

_HTTP = 80


def make_server(page: str, port: int = 0) -> ThreadingHTTPServer:
    """A server of one page on 127.0.0.1; port 0 takes a free one."""
    content = page.encode()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if not self._is_asked_by_name():
                self.send_error(403)
                return
            found = self.path.split("?")[0] == "/"
            # A browser asks for an icon whether there is one or not: 204 is no error.
            status = 200 if found else 204 if self.path == "/favicon.ico" else 404
            self.send_response(status)
            self.send_header("Content-Type", "text/html; charset=utf-8")
            self.send_header("Content-Length", str(len(content) if found else 0))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if found:
                self.wfile.write(content)

        def _is_asked_by_name(self) -> bool:
            """A page of another host, whose name was made to lead here, must not read this one."""
            names = {f"{host}:{bound()}" for host in ("127.0.0.1", "localhost")}
            names |= {"127.0.0.1", "localhost"} if bound() == _HTTP else set()
            return self.headers.get("Host", "") in names

        def handle(self) -> None:
            # A browser that reloads lets go of what it was being sent.
            with contextlib.suppress(ConnectionError):
                super().handle()

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: the terminal is the user's."""

    def bound() -> int:
        return server.server_port

    try:
        server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    except OSError as error:
        raise InvalidInputError(
            f"port {port} cannot be used ({error.strerror}): give another one by --port, or 0"
        ) from error
    return server
