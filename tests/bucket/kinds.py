"""The stores that are tested: their URLs, and what a client's environment has to reach a server.

Nothing here speaks to a server of Amazon, Google or Microsoft: see `KINDS` for what runs instead.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import shutil
import subprocess
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path
from typing import Final

import boto3

from tests.bucket.minio import NoServer, minio
from tests.bucket.proxy import as_it_is
from tests.bucket.servers import NAME, environment
from tests.e2e.command import free_port
from tests.e2e.servers import process
from tests.fixtures import CACHE

AZURITE: Final = "3.37.0"
_ACCOUNT: Final = "devstoreaccount1"
_KEY: Final = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)
"""The key of the account that each Azurite has, from its documents."""
_API: Final = "2021-08-06"
_GENERATION: Final = b"\r\nx-goog-if-generation-match: 0\r\n"


@dataclass(frozen=True, slots=True)
class Kind:
    """A store.

    Attributes:
        root: URL of the bucket that its server has.
        environment: of a client, for a server on a port of the loopback.
        server: runs a server with files below a directory, which it makes; gives its port.
        translate: the head of each request on its way to the server.
    """

    root: str
    environment: Callable[[int], dict[str, str]]
    server: Callable[[Path], AbstractContextManager[int]]
    translate: Callable[[bytes], bytes] = as_it_is


def azure_environment(port: int) -> dict[str, str]:
    """As `tests.bucket.servers.environment`, for Azure's protocol."""
    return {
        "AZURE_STORAGE_ACCOUNT_NAME": _ACCOUNT,
        "AZURE_STORAGE_ACCOUNT_KEY": _KEY,
        "AZURE_STORAGE_ENDPOINT": f"http://127.0.0.1:{port}/{_ACCOUNT}",
        "AZURE_ALLOW_HTTP": "true",
    }


def google_environment(port: int) -> dict[str, str]:
    """As `tests.bucket.servers.environment`, for Google's protocol: nobody signs."""
    account = {
        "gcs_base_url": f"http://127.0.0.1:{port}",
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    return {
        "GOOGLE_SERVICE_ACCOUNT_KEY": json.dumps(account),
        "GOOGLE_SKIP_SIGNATURE": "true",
        "GOOGLE_ALLOW_HTTP": "true",
    }


def azurite_program() -> Path:
    """Azurite on the path, or where npm once installed it for these tests; else npm does that.

    Raises:
        NoServer: neither is there.
    """
    on_path, npm = shutil.which("azurite-blob"), shutil.which("npm")
    if on_path is not None:
        return Path(on_path)
    home = CACHE / f"azurite-{AZURITE}"
    installed = home / "node_modules/.bin/azurite-blob"
    if not installed.exists():
        if npm is None:
            message = "install Azurite, or npm, which installs it"
            raise NoServer(message)
        words = [npm, "install", "--silent", "--no-save", "--omit=dev", f"azurite@{AZURITE}"]
        home.mkdir(parents=True, exist_ok=True)
        (home / "package.json").write_text("{}")
        subprocess.run(words, check=True, capture_output=True, cwd=home)
    return installed


@contextmanager
def azurite(directory: Path) -> Iterator[int]:
    """Run it on the loopback, with one container; gives its port. Effects: files below it."""
    directory.mkdir(parents=True)
    port = free_port()
    words: list[str | Path] = [azurite_program(), "--silent", "--disableTelemetry"]
    words += ["--skipApiVersionCheck", "--blobPort", str(port), "--location", directory / "data"]
    with process(words, directory / "output", {}, port):
        _make_container(port)
        yield port


def _make_container(port: int) -> None:
    """Make it by a request of our own, signed with the key: the client makes no containers."""
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": _API}
    text = "PUT" + "\n" * 12
    text += "".join(f"{name}:{value}\n" for name, value in headers.items())
    text += f"/{_ACCOUNT}/{_ACCOUNT}/{NAME}\nrestype:container"
    signed = hmac.new(base64.b64decode(_KEY), text.encode(), hashlib.sha256).digest()
    headers["Authorization"] = f"SharedKey {_ACCOUNT}:{base64.b64encode(signed).decode()}"
    url = f"http://127.0.0.1:{port}/{_ACCOUNT}/{NAME}?restype=container"
    request = urllib.request.Request(url, method="PUT", headers=headers)
    with urllib.request.urlopen(request) as answer:  # noqa: S310 -- loopback
        assert 201 == answer.status


@contextmanager
def minio_for_all(directory: Path) -> Iterator[int]:
    """MinIO, with a bucket that anybody may use, as who does not sign. Effects: files below it."""
    with minio(directory) as port:
        client = environment(port)
        rule = {"Effect": "Allow", "Principal": "*", "Action": ["s3:*"]}
        rule["Resource"] = [f"arn:aws:s3:::{NAME}", f"arn:aws:s3:::{NAME}/*"]
        boto3.client(
            "s3",
            endpoint_url=client["AWS_ENDPOINT_URL"],
            region_name=client["AWS_REGION"],
            aws_access_key_id=client["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=client["AWS_SECRET_ACCESS_KEY"],
        ).put_bucket_policy(
            Bucket=NAME, Policy=json.dumps({"Version": "2012-10-17", "Statement": [rule]})
        )
        yield port


def as_amazon_says(head: bytes) -> bytes:
    """The condition of a create in the words of S3; all else is the same in Google's XML API."""
    at = head.lower().find(_GENERATION)
    rest = head[at + len(_GENERATION) :]
    return head if at < 0 else head[:at] + b"\r\nif-none-match: *\r\n" + rest


KINDS: Final = {
    "S3": Kind(f"s3://{NAME}", environment, minio),
    "Azure": Kind(f"az://{NAME}", azure_environment, azurite),
    "Google": Kind(f"gs://{NAME}", google_environment, minio_for_all, as_amazon_says),
}
"""S3 is MinIO, Azure is Azurite, of Microsoft. Google is MinIO, too: no server was found that has
what the client uses of Google's XML API. MinIO has it but for the words of one condition, which the
proxy translates. So the client's requests are those for Google, and the answers are not Google's.
"""
