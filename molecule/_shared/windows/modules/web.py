"""win_get_url, win_uri and win_wait_for."""

from __future__ import annotations

import json
import ntpath
import re
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from ..arguments import Call, Option, module
from ..errors import FailError, UnknownError
from ..host import File, Host
from .files import CHECKSUMS, size_of

# Of Get-AnsibleWindowsWebRequestSpec.
REQUEST = {
    "url_method": Option(aliases=("method",)),
    "follow_redirects": Option(default="safe", choices=("all", "none", "safe")),
    "headers": Option("dict"),
    "http_agent": Option(default="ansible-httpget"),
    "maximum_redirection": Option("int", default=50),
    "url_timeout": Option("int", default=30, aliases=("timeout",)),
    "validate_certs": Option("bool", default=True, known=False),
    "client_cert": Option(known=False),
    "client_cert_password": Option(no_log=True, known=False),
    "force_basic_auth": Option("bool", default=False, known=False),
    "url_username": Option(known=False),
    "url_password": Option(no_log=True, known=False),
    "use_default_credential": Option("bool", default=False, known=False),
    "use_proxy": Option("bool", default=True),
    "proxy_url": Option(known=False),
    "proxy_username": Option(known=False),
    "proxy_password": Option(no_log=True, known=False),
    "proxy_use_default_credential": Option("bool", default=False, known=False),
}
METADATA = "http://169.254.169.254/metadata/"


@module(
    "ansible.windows.win_get_url",
    {
        "url": Option(required=True),
        "dest": Option("path", required=True),
        "force": Option("bool", default=True),
        "checksum": Option(),
        "checksum_algorithm": Option(default="sha1", choices=CHECKSUMS),
        "checksum_url": Option(known=False),
        **REQUEST,
    },
)
def win_get_url(call: Call) -> dict[str, Any]:
    """Fetch a url into a file."""
    args, host = call.args, call.host
    url, dest = args["url"], host.expanded(args["dest"])
    result: dict[str, Any] = {"changed": False, "elapsed": 0, "url": url}
    there = host.file(dest)
    if there is not None and there.data is None:
        dest = ntpath.join(dest, urlsplit(url).path.rsplit("/", 1)[-1])
        there = host.file(dest)
    result["dest"] = dest
    algorithm = args["checksum_algorithm"]
    wanted = (args["checksum"] or "").strip().lower()
    found = there.digest(algorithm) if there else None
    force = args["force"] or (bool(wanted) and found is not None and found != wanted)
    # Without force, an equal checksum makes no request; with force, each run downloads.
    if force or there is None:
        new = downloaded(call, url)
        if host.file(ntpath.dirname(dest)) is None:
            raise FailError(
                f"The path '{ntpath.dirname(dest)}' does not exist for destination '{dest}', or is "
                "not visible to the current user. Ensure download destination folder exists "
                "(perhaps using win_file state=directory) before win_get_url runs.",
                **result,
            )
        result.update(status_code=200, msg="OK", checksum_src=new.digest(algorithm))
        if wanted and wanted != result["checksum_src"]:
            raise FailError(
                f"The checksum for {url} did not match '{wanted}', it was "
                f"'{result['checksum_src']}'",
                **result,
            )
        if found != result["checksum_src"]:
            result["changed"] = True
            if not call.check:
                host.write(dest, new)
                there = new
    elif not wanted:
        raise UnknownError("a comparison of dates by win_get_url (force false without checksum)")
    if there is not None:
        result["checksum_dest"] = there.digest(algorithm)
        result["size"] = size_of(there)
    return result


def downloaded(call: Call, url: str) -> File:
    """What a url holds.

    Raises:
        FailError: the request fails, as is said in the host's urls.
    """
    host = call.host
    if url in host.downloads:
        host.requests.append(url)
        return host.downloads[url]
    if url in host.urls:
        status, _ = host.urls[url]
        if status >= 400:
            raise FailError(
                f"Error downloading '{url}' to '{call.args.get('dest')}': The remote server "
                f"returned an error: ({status})."
            )
    raise UnknownError(f"url {url}")


@module(
    "ansible.windows.win_uri",
    {
        "url": Option(required=True),
        "content_type": Option(),
        "body": Option("raw"),
        "dest": Option("path", known=False),
        "creates": Option("path", known=False),
        "removes": Option("path", known=False),
        "return_content": Option("bool", default=False),
        "status_code": Option("list", default=[200], elements="int"),
        **REQUEST,
        "url_method": Option(default="GET", aliases=("method",)),
    },
)
def win_uri(call: Call) -> dict[str, Any]:
    """Ask a url."""
    args, url = call.args, call.args["url"]
    if args["url_method"].upper() != "GET" or args["body"] is not None:
        raise UnknownError(f"method {args['url_method']} of url {url}")
    result: dict[str, Any] = {"changed": False, "elapsed": 0, "url": url}
    status, text = answered(call.host, url, args["headers"] or {}, proxied=args["use_proxy"])
    call.host.requests.append(url)
    if status == 0:
        raise FailError(
            f"Unhandled exception occurred when sending web request. Exception: {text}", **result
        )
    result.update(status_code=status, msg=HTTPStatus(status).phrase)
    result.update(content_length=len(text.encode()), response_uri=url)
    result["content_type"] = "application/json; charset=utf-8" if text[:1] in "{[" else "text/plain"
    if args["return_content"]:
        result["content"] = text
        if text[:1] in ("{", "["):
            result["json"] = json.loads(text)
    if status not in args["status_code"]:
        raise FailError(
            f"Status code of request '{status}' is not in list of valid status codes "
            f"{' '.join(map(str, args['status_code']))} : {status}'.",
            **result,
        )
    return result


def answered(host: Host, url: str, headers: dict[str, Any], *, proxied: bool) -> tuple[int, str]:
    """Status and text of a GET; status 0: no connection, with the reason."""
    if url.startswith(METADATA):
        return _metadata(host, url, headers, proxied=proxied)
    if url in host.urls:
        return host.urls[url]
    raise UnknownError(f"url {url}")


def _metadata(host: Host, url: str, headers: dict[str, Any], *, proxied: bool) -> tuple[int, str]:
    """The instance metadata service: no proxy, header Metadata: true, a version it has."""
    if proxied and host.proxy:
        return 502, "Bad Gateway"
    if host.metadata is None:
        return 0, "Unable to connect to the remote server"
    parts = urlsplit(url)
    if {name.lower(): str(value).lower() for name, value in headers.items()}.get(
        "metadata"
    ) != "true":
        return 400, '{"error": "Bad request. Required metadata header not specified"}'
    if not re.search(r"(^|&)api-version=20\d\d-\d\d-\d\d(&|$)", parts.query):
        return 400, '{"error": "Bad request. api-version was not specified in the request"}'
    names = [name for name in parts.path.split("/") if name][1:]
    if names[:1] != ["instance"] or len(names) > 2:
        raise UnknownError(f"url {url}")
    found = host.metadata.get(names[1]) if names[1:] else host.metadata
    return (404, '{"error": "Not found"}') if found is None else (200, json.dumps(found))


@module(
    "ansible.windows.win_wait_for",
    {
        "connect_timeout": Option("int", default=5),
        "delay": Option("int"),
        "exclude_hosts": Option("list", elements="str", known=False),
        "host": Option(default="127.0.0.1"),
        "path": Option("path"),
        "port": Option("int"),
        "regex": Option(aliases=("regexp", "search_regex"), known=False),
        "sleep": Option("int", default=1),
        "state": Option(
            default="started", choices=("absent", "drained", "present", "started", "stopped")
        ),
        "timeout": Option("int", default=300),
    },
)
def win_wait_for(call: Call) -> dict[str, Any]:
    """Whether a port or a file is there. No time passes: what is not there now never comes."""
    args, host = call.args, call.host
    port, path, state = args["port"], args["path"], args["state"]
    if port is not None and path is not None:
        raise FailError("port and path parameter can not both be passed to win_wait_for")
    if state == "drained":
        raise UnknownError("state drained of win_wait_for")
    if port is None and path is None:
        return {"changed": False, "elapsed": args["timeout"], "wait_attempts": 0}
    wanted = state in ("started", "present")
    if path is not None:
        if state == "stopped":
            raise FailError(
                f"state={state} should only be used for checking a port in the win_wait_for module"
            )
        there = host.file(host.expanded(path)) is not None
        said = f"file {path} to be {'present' if wanted else 'absent'}"
    else:
        place = f"{args['host']}:{port}"
        there = place.lower() in [each.lower() for each in host.endpoints]
        said = f"{place} to {'start' if wanted else 'stop'} listening"
    if there != wanted:
        tries = max(1, args["timeout"])
        elapsed = float(args["timeout"])
        raise FailError(f"timeout while waiting for {said}", elapsed=elapsed, wait_attempts=tries)
    return {"changed": False, "elapsed": 0.1, "wait_attempts": 1}
