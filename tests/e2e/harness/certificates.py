"""An authority of one's own, and certificates that it signs."""

import subprocess


def _openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


class Authority:
    """Files in `folder`: ca.pem, and NAME.pem with NAME.key of each that was asked for."""

    def __init__(self, folder):
        folder.mkdir()
        self.folder = folder
        self.certificate = folder / "ca.pem"
        _openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", 2, "-subj", "/CN=ca",
                 "-keyout", folder / "ca.key", "-out", self.certificate)

    def sign(self, name, alternatives):
        """The files of a certificate for `alternatives`, such as IP:127.0.0.1, and of its key."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        request, extensions = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extensions.write_text(f"subjectAltName={alternatives}\n")
        _openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", key,
                 "-out", request)
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey",
                 self.folder / "ca.key", "-CAcreateserial", "-days", 2, "-extfile", extensions,
                 "-out", certificate)
        return certificate, key
