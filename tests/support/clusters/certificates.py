"""Self-signed certificates, for clients of nodes and for servers on this machine."""

from __future__ import annotations

import datetime as dt
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

LASTS = dt.timedelta(days=7)
CLOCKS_DIFFER = dt.timedelta(hours=1)


def write_client_certificate(certificate: Path, key: Path, name: str) -> None:
    """Write a certificate and its key for a client of this name; the certificate is its own authority."""
    _write(certificate, key, name, ExtendedKeyUsageOID.CLIENT_AUTH)


def write_server_certificate(certificate: Path, key: Path) -> None:
    """Write a certificate and its key for a server on the loopback address or ``localhost``; its own authority."""
    address = x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1")), x509.DNSName("localhost")])
    _write(certificate, key, "127.0.0.1", ExtendedKeyUsageOID.SERVER_AUTH, address)


def _write(
    certificate: Path, key: Path, name: str, usage: x509.ObjectIdentifier, *extensions: x509.ExtensionType
) -> None:
    private = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(private.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCKS_DIFFER)
        .not_valid_after(now + LASTS)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
    )
    for extension in extensions:
        builder = builder.add_extension(extension, critical=False)
    signed = builder.sign(private, hashes.SHA256())
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    key.touch(mode=0o600)
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    key.write_bytes(private.private_bytes(*form))
