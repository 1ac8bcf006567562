"""TLS for a cluster: its scheduler, its workers and the grader trust only certificates of one authority."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from autograder.showing.errors import CourseError

HERE = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Certificates:
    """The authority that signed for the whole cluster, and this machine's own certificate: files in PEM format."""

    authority: Path
    own: Path
    key: Path

    def security(self) -> Any:
        """The settings for Dask; nothing is sent unencrypted."""
        from distributed import Security

        own, key = str(self.own), str(self.key)
        return Security(
            require_encryption=True, tls_ca_file=str(self.authority), tls_client_cert=own, tls_client_key=key
        )


def certificates(authority: Path | None, own: Path | None, key: Path | None) -> Certificates | None:
    """Return all three certificates, or none; a CourseError for some."""
    if authority is None or own is None or key is None:
        if authority is None and own is None and key is None:
            return None
        raise CourseError("A cluster over TLS needs all three: --tls-ca, --tls-cert and --tls-key.")
    return Certificates(authority, own, key)


def check_address(address: str, shown: Certificates | None) -> None:
    """Raise a CourseError unless certificates and a tls:// address come together."""
    over_tls = address.startswith("tls://")
    if over_tls and shown is None:
        raise CourseError(f"{address} asks for certificates: give --tls-ca, --tls-cert and --tls-key.")
    if shown is not None and not over_tls:
        raise CourseError(f"Certificates need a scheduler at a tls:// address, got {address}.")


def warning(address: str) -> str | None:
    """Warn of an address beyond this machine without TLS; None if there is nothing to warn of."""
    if address.startswith("tls://") or urlsplit(address if "//" in address else f"//{address}").hostname in HERE:
        return None
    return (
        f"{address} has no TLS: anybody on that network can run code as the workers and as you, and read every "
        "submission. Use tls://, or a network of your own."
    )
