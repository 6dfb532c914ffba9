"""An nginx of one's own, at 127.0.0.1:port."""

import socket
import subprocess

from harness.ports import free_port
from harness.wait import until

FRAME = """
daemon off;
master_process off;
pid {folder}/pid;
error_log stderr;
events {{}}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    server {{
        listen 127.0.0.1:{port};
        {locations}
    }}
}}
"""


class Nginx:
    """`locations`: the body of its server."""

    def __init__(self, folder, locations):
        folder.mkdir()
        self.folder = folder
        self.port = free_port()
        self.address = ("127.0.0.1", self.port)
        self.url = f"http://127.0.0.1:{self.port}"
        path = folder / "nginx.conf"
        path.write_text(FRAME.format(folder=folder, port=self.port, locations=locations))
        with open(folder / "stderr", "wb") as log:
            self.process = subprocess.Popen(
                ["nginx", "-c", str(path), "-p", str(folder), "-e", "stderr"], stderr=log)
        until(self._listens, "nginx to listen")

    def _listens(self):
        assert self.process.poll() is None, (self.folder / "stderr").read_text()
        with socket.socket() as probe:
            return probe.connect_ex(self.address) == 0

    def stop(self):
        self.process.kill()
        self.process.wait()
