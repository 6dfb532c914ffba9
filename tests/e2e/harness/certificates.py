"""An authority of one's own, and certificates that it signs."""

import copy
import subprocess


EC, RSA = ("ec", "-pkeyopt", "ec_paramgen_curve:P-256"), ("rsa:2048",)  # kinds of key; an RSA key takes 300 ms to make


def _openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def make_crl(path, issuer, issuer_key, revoked=()):
    """The list of certificates that `issuer` has revoked, files in `revoked`, valid for a day."""
    config, index = path.with_suffix(".cnf"), path.with_suffix(".index")
    config.write_text(f"[ca]\ndefault_ca=own\n[own]\ndatabase={index}\ndefault_md=sha256\n")
    index.write_text("")
    words = ["-config", config, "-cert", issuer, "-keyfile", issuer_key]
    for certificate in revoked:
        _openssl("ca", *words, "-revoke", certificate)
    _openssl("ca", *words, "-gencrl", "-crldays", 1, "-out", path)


class Authority:
    """Files in `folder`: ca.pem, and NAME.pem with NAME.key of each that was asked for."""

    def __init__(self, folder, days=2, name="ca", kind=EC):
        folder.mkdir()
        self.folder = folder
        self.certificate, self.key = folder / "ca.pem", folder / "ca.key"
        self.days, self.kind = days, kind
        _openssl("req", "-x509", "-newkey", *kind, "-nodes", "-days", days, "-subj", f"/CN={name}",
                 "-addext", "keyUsage=critical,keyCertSign,cRLSign", "-keyout", self.key, "-out", self.certificate)

    def below(self, name, folder):
        """An authority whose certificate this one has signed as `name`."""
        authority = copy.copy(self)
        authority.folder = folder
        authority.certificate, authority.key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        return authority

    def sign(self, name, alternatives, extensions=""):
        """The files of a certificate for `alternatives`, such as IP:127.0.0.1, and of its key."""
        certificate, key = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        request, extension_file = self.folder / f"{name}.csr", self.folder / f"{name}.ext"
        extension_file.write_text(f"subjectAltName={alternatives}\nauthorityKeyIdentifier=keyid\n{extensions}")
        _openssl("req", "-newkey", *self.kind, "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
        _openssl("x509", "-req", "-in", request, "-CA", self.certificate, "-CAkey",
                 self.key, "-CAcreateserial", "-days", self.days, "-extfile", extension_file,
                 "-out", certificate)
        return certificate, key


def dated(folder, name, alternatives, begin, end):
    """A self-signed certificate, NAME.pem with NAME.key, valid between two times such as 20200101000000Z."""
    certificate, key, request = (folder / f"{name}.{end}" for end in ("pem", "key", "csr"))
    config = folder / f"{name}.cnf"
    config.write_text("[ca]\ndefault_ca=own\n[own]\ndatabase=%s\nserial=%s\nnew_certs_dir=%s\ndefault_md=sha256\n"
                      "policy=any\nx509_extensions=names\n[any]\ncommonName=supplied\n"
                      "[names]\nsubjectAltName=%s\n"
                      % (folder / f"{name}.index", folder / f"{name}.serial", folder, alternatives))
    (folder / f"{name}.index").write_text("")
    _openssl("req", "-newkey", *EC, "-nodes", "-subj", f"/CN={name}", "-keyout", key, "-out", request)
    _openssl("ca", "-batch", "-selfsign", "-create_serial", "-notext", "-config", config, "-keyfile", key,
             "-in", request, "-startdate", begin, "-enddate", end, "-out", certificate)
    return certificate, key
