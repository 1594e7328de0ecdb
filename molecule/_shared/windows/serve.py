"""WinRM of the simulated Windows host: WS-Management over HTTP, as connection plugin psrp does."""

from __future__ import annotations

import argparse
import base64
import contextlib
import json
import re
import socket
import ssl
import struct
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape

from psrpcore import PSRPCoreError

from .auth import Client
from .errors import UnknownError
from .host import Host
from .sessions import Session

_S = "{http://www.w3.org/2003/05/soap-envelope}"
_WSA = "{http://schemas.xmlsoap.org/ws/2004/08/addressing}"
_WSMAN = "{http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd}"
_RSP = "{http://schemas.microsoft.com/wbem/wsman/1/windows/shell}"
_POWERSHELL = "http://schemas.microsoft.com/powershell/Microsoft.PowerShell"
_SHELL = "http://schemas.microsoft.com/wbem/wsman/1/windows/shell"
_TRANSFER = "http://schemas.xmlsoap.org/ws/2004/09/transfer"
# Of WinRM: MaxEnvelopeSizekb 500; and what encryption puts around an envelope.
_LARGEST = 500 * 1024
_AROUND = 4096
# How long half a request is waited for.
_PATIENCE = 60
_TIMED_OUT = 2150858793
_NO_SHELL = 2150858843
_NO_RESOURCE = 2150859262
_BAD = 2150858752


class FaultError(Exception):
    """A WS-Management fault, by its code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


class Server(ThreadingHTTPServer):
    """The listener of one host."""

    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 64

    def __init__(
        self, address: tuple[str, int], host: Host, certificate: tuple[Path, Path] | None = None
    ) -> None:
        self.host = host
        self._tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if certificate else None
        if self._tls and certificate:
            self._tls.load_cert_chain(*certificate)
        self.sessions: dict[str, Session] = {}
        super().__init__(address, _Handler)

    def get_request(self) -> tuple[socket.socket, Any]:
        """Of a host that is down, every connection is reset."""
        connection, address = super().get_request()
        if self.host.faults.dead or self.host.down:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            connection.close()
            raise OSError("the simulated host is down")
        if self._tls:
            # The handshake is of the connection's own thread: a silent client keeps nobody out.
            connection = self._tls.wrap_socket(
                connection, server_side=True, do_handshake_on_connect=False
            )
        return connection, address

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that breaks is no event here."""


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version = "simulated-windows/1"
    sys_version = ""
    timeout = _PATIENCE
    disable_nagle_algorithm = True

    def setup(self) -> None:
        """One client for each connection: NTLM signs in a connection, not a request."""
        super().setup()
        self.client = Client(self.server.host)

    def log_message(self, *arguments: Any) -> None:
        """No access log."""

    def do_POST(self) -> None:
        """One request of WS-Management."""
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > _LARGEST + _AROUND:
            self.close_connection = True
            return self._reply(413 if length.isdecimal() else 411, b"")
        body = self.rfile.read(int(length))
        self.close_connection = len(body) < int(length) or self._down()
        if self.close_connection:
            return None
        if "Authorization" in self.headers or self.client.user is None:
            self.client.user = None
            challenges = self.client.shown(self.headers.get("Authorization", ""))
            if self.client.user is None:
                return self._reply(401, b"", challenges)
            return self._answer(self.client.user, body, challenges)
        return self._answer(self.client.user, body)

    def _answer(self, user: str, body: bytes, last: Sequence[str] = ()) -> None:
        if self.path.partition("?")[0].rstrip("/") != "/wsman":
            return self._reply(404, b"")
        while self.server.host.faults.silent:
            time.sleep(1)
        try:
            opened = self.client.opened(body, self.headers.get("Content-Type", ""))
        except ValueError as error:
            return self._reply(500, refused(str(error)))
        if len(opened) > _LARGEST:
            return self._reply(500, refused(f"the envelope is larger than {_LARGEST} bytes"))
        if not opened:
            # The end of signing in, before the first encrypted message.
            return self._reply(200, b"", last)
        status, text = answered(self.server, user, opened)
        self.close_connection = self._down()
        return None if self.close_connection else self._reply(status, text.encode(), last)

    def _down(self) -> bool:
        return self.server.host.faults.dead or self.server.host.down

    def _reply(self, status: int, body: bytes, challenges: Sequence[str] = ()) -> None:
        kind, body = self.client.closed(body)
        self.send_response(status)
        for challenge in challenges:
            self.send_header("WWW-Authenticate", challenge)
        if body:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


def refused(reason: str) -> bytes:
    """The fault of a request that cannot be read."""
    said = f"simulated Windows host: the request is not understood: {reason}"
    return _envelope("", f"{_WSA[1:-1]}/fault", _fault(FaultError(_BAD, said))).encode()


def answered(server: Server, user: str, body: bytes) -> tuple[int, str]:
    """The HTTP status and the envelope that answer an envelope."""
    message = ""
    try:
        # Of this machine only, and at most 500 KiB; expat bounds what entities grow to.
        envelope = ET.fromstring(body)  # noqa: S314
        message = _text(envelope, f"{_S}Header/{_WSA}MessageID")
        action = _text(envelope, f"{_S}Header/{_WSA}Action")
        content = _act(server, user, action, envelope)
    except FaultError as error:
        fault = error
    except (ET.ParseError, LookupError, ValueError, struct.error, PSRPCoreError) as error:
        fault = FaultError(_BAD, f"simulated Windows host: the request is not understood: {error}")
    else:
        return 200, _envelope(message, f"{action}Response", content)
    return 500, _envelope(message, f"{_WSA[1:-1]}/fault", _fault(fault))


def _act(server: Server, user: str, action: str, envelope: ET.Element) -> str:
    body = envelope.find(f"{_S}Body")
    if body is None:
        raise FaultError(_BAD, "the envelope has no body")
    if action == f"{_TRANSFER}/Create":
        return _create(server, user, envelope, body)
    shell, session = _session(server, user, envelope)
    if action == f"{_TRANSFER}/Delete":
        server.sessions.pop(shell, None)
        return ""
    if action == f"{_TRANSFER}/Get":
        state = f"<rsp:ShellId>{escape(shell)}</rsp:ShellId><rsp:State>Connected</rsp:State>"
        return f"<rsp:Shell>{state}</rsp:Shell>"
    if action == f"{_SHELL}/Command":
        line = _child(body, "CommandLine")
        command = uuid.UUID(line.attrib["CommandId"])
        session.take(_decoded(_text(line, f"{_RSP}Arguments")), command)
        told = f"<rsp:CommandId>{str(command).upper()}</rsp:CommandId>"
        return f"<rsp:CommandResponse>{told}</rsp:CommandResponse>"
    if action == f"{_SHELL}/Send":
        stream = _child(_child(body, "Send"), "Stream")
        session.take(_decoded(stream.text or ""), _command(session, stream))
        return "<rsp:SendResponse/>"
    if action == f"{_SHELL}/Receive":
        return _receive(session, envelope, _child(_child(body, "Receive"), "DesiredStream"))
    if action == f"{_SHELL}/Signal":
        session.drop(uuid.UUID(_child(body, "Signal").attrib["CommandId"]))
        return "<rsp:SignalResponse/>"
    raise FaultError(_BAD, f"simulated Windows host: action {action} is not known")


def _create(server: Server, user: str, envelope: ET.Element, body: ET.Element) -> str:
    resource = _text(envelope, f"{_S}Header/{_WSMAN}ResourceURI")
    if resource != _POWERSHELL:
        raise FaultError(_NO_RESOURCE, f"simulated Windows host: resource {resource} is not known")
    shell = _child(body, "Shell")
    name = str(uuid.UUID(shell.attrib["ShellId"])).upper()
    session = Session(server.host, user)
    session.take(_decoded(_text(shell, "{http://schemas.microsoft.com/powershell}creationXml")))
    server.sessions[name] = session
    return (
        f"<rsp:Shell><rsp:ShellId>{name}</rsp:ShellId>"
        f"<rsp:ResourceUri>{_POWERSHELL}</rsp:ResourceUri>"
        f"<rsp:Owner>{escape(user)}</rsp:Owner><rsp:ClientIP>127.0.0.1</rsp:ClientIP>"
        "<rsp:InputStreams>stdin pr</rsp:InputStreams>"
        "<rsp:OutputStreams>stdout</rsp:OutputStreams></rsp:Shell>"
        "<x:ResourceCreated><a:ReferenceParameters>"
        f"<w:ResourceURI>{_POWERSHELL}</w:ResourceURI>"
        f"<w:SelectorSet><w:Selector Name='ShellId'>{name}</w:Selector></w:SelectorSet>"
        "</a:ReferenceParameters></x:ResourceCreated>"
    )


def _receive(session: Session, envelope: ET.Element, stream: ET.Element) -> str:
    command = _command(session, stream) if "CommandId" in stream.attrib else None
    asked = _text(envelope, f"{_S}Header/{_WSMAN}OperationTimeout")
    found = re.fullmatch(r"PT(\d+(?:\.\d+)?)S", asked)
    data = session.give(command, min(float(found[1]) if found else 20.0, _PATIENCE))
    if not data:
        raise FaultError(_TIMED_OUT, "The operation did not complete within the time specified.")
    of = f" CommandId='{str(command).upper()}'" if command else ""
    text = base64.b64encode(data).decode()
    found_stream = f"<rsp:Stream Name='stdout'{of}>{text}</rsp:Stream>"
    return f"<rsp:ReceiveResponse>{found_stream}</rsp:ReceiveResponse>"


def _session(server: Server, user: str, envelope: ET.Element) -> tuple[str, Session]:
    found = [
        (selector.text or "").upper()
        for selector in envelope.iterfind(f"{_S}Header/{_WSMAN}SelectorSet/{_WSMAN}Selector")
        if selector.get("Name") == "ShellId"
    ]
    session = server.sessions.get(found[0]) if found else None
    if session is None or session.user != user or session.boots != server.host.boots:
        raise FaultError(_NO_SHELL, "The shell was not found on the server.")
    return found[0], session


def _command(session: Session, element: ET.Element) -> uuid.UUID:
    command = uuid.UUID(element.attrib["CommandId"])
    if not session.knows(command):
        raise FaultError(_NO_SHELL, "The command was not found on the server.")
    return command


def _child(element: ET.Element, name: str) -> ET.Element:
    found = element.find(f"{_RSP}{name}")
    if found is None:
        raise FaultError(_BAD, f"the request has no {name}")
    return found


def _text(element: ET.Element, path: str) -> str:
    return element.findtext(path) or ""


def _decoded(text: str) -> bytes:
    return base64.b64decode(text, validate=True)


def _envelope(message: str, action: str, content: str) -> str:
    return (
        f'<s:Envelope xmlns:s="{_S[1:-1]}" xmlns:a="{_WSA[1:-1]}" xmlns:w="{_WSMAN[1:-1]}" '
        f'xmlns:rsp="{_RSP[1:-1]}" xmlns:x="{_TRANSFER}">'
        f"<s:Header><a:Action>{escape(action)}</a:Action>"
        f"<a:MessageID>uuid:{str(uuid.uuid4()).upper()}</a:MessageID>"
        f"<a:RelatesTo>{escape(message)}</a:RelatesTo></s:Header>"
        f"<s:Body>{content}</s:Body></s:Envelope>"
    )


def _fault(fault: FaultError) -> str:
    said = escape(str(fault))
    return (
        "<s:Fault><s:Code><s:Value>s:Receiver</s:Value></s:Code>"
        f'<s:Reason><s:Text xml:lang="en-US">{said}</s:Text></s:Reason><s:Detail>'
        '<f:WSManFault xmlns:f="http://schemas.microsoft.com/wbem/wsman/1/wsmanfault" '
        f'Code="{fault.code}" Machine="simulated"><f:Message>{said}</f:Message></f:WSManFault>'
        "</s:Detail></s:Fault>"
    )


def variables(host: Host, address: str, port: int, *, tls: bool = False) -> dict[str, Any]:
    """The inventory variables with which connection plugin psrp reaches a host."""
    user = next(iter(host.users))
    plain = host.unencrypted and not tls
    return {
        "ansible_host": address,
        "ansible_port": port,
        "ansible_connection": "psrp",
        "ansible_user": user,
        "ansible_password": host.users[user],
        "ansible_psrp_protocol": "https" if tls else "http",
        "ansible_psrp_auth": "basic" if host.unencrypted else "ntlm",
        "ansible_psrp_message_encryption": "never" if plain else "auto",
        "ansible_psrp_ignore_proxy": True,
    }


@contextlib.contextmanager
def serving(
    host: Host,
    address: str = "127.0.0.1",
    port: int = 0,
    certificate: tuple[Path, Path] | None = None,
) -> Iterator[tuple[Host, dict[str, Any]]]:
    """Serve a host while the block runs: the host, and its inventory variables.

    Args:
        host: whose state it is.
        address: of this machine.
        port: 0 for a free one.
        certificate: files of a certificate and its key, for HTTPS.
    """
    server = Server((address, port), host, certificate)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield host, variables(host, address, server.server_address[1], tls=bool(certificate))
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def main() -> None:
    """Serve the host of a state file until a signal ends it."""
    parser = argparse.ArgumentParser(description="Serve one simulated Windows host over WinRM.")
    parser.add_argument("--state", type=Path, required=True, help="JSON file of the host's state")
    parser.add_argument("--listen", default="127.0.0.1:5985", metavar="ADDRESS:PORT")
    parser.add_argument("--broker", metavar="URL", help="where its simulated AVD agent registers")
    parser.add_argument("--certificate", type=Path, help="of HTTPS, with --key", metavar="FILE")
    parser.add_argument("--key", type=Path, metavar="FILE")
    asked = parser.parse_args()
    if bool(asked.certificate) != bool(asked.key):
        parser.error("--certificate and --key go together")
    address, _, port = asked.listen.rpartition(":")
    if not address or not port.isdecimal():
        parser.error(f"--listen {asked.listen} is no ADDRESS:PORT")
    try:
        host = Host.read(asked.state)
    except (OSError, TypeError, ValueError, UnknownError) as error:
        parser.error(f"--state {asked.state}: {error}")
    host.broker_url = asked.broker or host.broker_url
    files = (asked.certificate, asked.key) if asked.key else None
    with serving(host, address, int(port), files) as (_, found):
        # No password: whoever wrote the state file knows it.
        print(json.dumps({"address": address, "port": found["ansible_port"]}), flush=True)
        threading.Event().wait()
