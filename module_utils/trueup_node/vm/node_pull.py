#!/usr/bin/python3
"""Configures the machine that it runs on from a pinned release: systemd runs this at each boot.

    python3 pull.py CONFIG

Fetches the release (a git bundle) and verifies its sha256 before anything of it is used, makes an
environment of the release's own pinned packages, has ansible-pull run the release's
playbooks/pull.yml, and puts the records into a container of Azure Blob storage by the machine's
identity. Finished steps are not repeated: a second start, also after a kill or a reboot, goes on
where the first one ended.

For Python 3.6 and its standard library alone: it is sent to a VM as it stands here, with
bounded_http.py beside it. Exit status: 0 the machine is configured and its records are in the
container; 1 the journal names the error.

Source: https://learn.microsoft.com/entra/identity/managed-identities-azure-resources and
https://learn.microsoft.com/rest/api/storageservices/put-blob for the calls.
"""

import base64
import contextlib
import fcntl
import hashlib
import http.client
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.parse
import urllib.request
from typing import Any, Dict, Iterator, List, Optional

try:
    from .. import bounded_http
except (ImportError, ValueError):  # on the VM; Python 3.6 has the second
    import bounded_http  # type: ignore[no-redef]

# For the release: a machine that has just booted may have no way out yet.
PATIENCE_SECONDS, PAUSE_SECONDS = 600.0, 10.0
# Of one call to its last byte: without a body, and with the file of a record.
CALL_SECONDS, UPLOAD_SECONDS = 60, 600
MOST_BYTES = 2**30
TRIES = 5
BRANCH = "release"
STORAGE = "https://storage.azure.com/"
STORAGE_VERSION = "2021-08-06"
_MAY_PASS = (408, 429, 500, 502, 503, 504)
_PRECONDITION = (409, 412)
# The newest of which every pinned package has a wheel stands first.
PYTHONS = ("python3.12", "python3.11", "python3.13", "python3")
USABLE = "import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))"
_ERROR = re.compile(r"ERROR|fatal: |\bmsg: ")
# Files of the run that change; every other file is written once.
CHANGING = ("run.json", "pull.log")


class Trouble(Exception):
    """A failure, in one sentence."""


class _OnlyHttps(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, req: Any, *arguments: Any, **named: Any) -> Any:
        """Elsewhere by https alone, and without our token."""
        redirected = super().redirect_request(req, *arguments, **named)
        if redirected is not None and not redirected.full_url.startswith("https://"):
            raise Trouble(
                f"{req.full_url} leads to {redirected.full_url[:200]}, which is not https"
            )
        if redirected is not None:
            redirected.remove_header("Authorization")
        return redirected


class Machine:
    """This machine's way through its configuration.

    Args:
        config: ``release`` and its ``sha256``, ``run`` (an id), ``records`` (URL of a container,
            or empty), ``identity`` (id of the user-assigned identity that may write there),
            ``variables`` of Ansible, ``builds`` of Python (``url`` and ``sha256`` by architecture),
            ``folder``, ``metadata``.
    """

    def __init__(self, config: Dict[str, Any]) -> None:
        self.config = config
        self.folder = config["folder"]
        self.results = os.path.join(self.folder, "results")
        self.checkout = os.path.join(self.folder, "trueup")
        self.bundle = os.path.join(self.folder, "release.bundle")
        self.repository = os.path.join(self.folder, "release.git")
        self.venv = os.path.join(self.folder, "venv")
        self.done = os.path.join(self.folder, "done")
        text = json.dumps(config, sort_keys=True)
        self.key = hashlib.sha256(text.encode("utf-8")).hexdigest()
        os.makedirs(os.path.join(self.results, config["run"]), exist_ok=True)
        self.log = open(os.path.join(self.folder, "pull.log"), "a", encoding="utf-8")  # noqa: SIM115
        self.name = ""

    def say(self, text: str) -> None:
        """For the journal, and for the log beside the records."""
        stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        print(text, flush=True)
        self.log.write(f"{stamp} {text}\n")
        self.log.flush()

    def go(self) -> int:
        """All of it; the exit status."""
        if read(self.done) == self.key:
            self.say(f"configured already by this release: remove {self.done} to do it again")
            return 0
        failed = []
        self.name = self.own_name()
        try:
            self.configure()
        except Trouble as error:
            failed.append(str(error))
            self.say(f"FAILED: {error}")
        if self.config["records"]:
            try:
                self.upload()
            except Trouble as error:
                failed.append(str(error))
                self.say(f"FAILED: {error}; the records stay in {self.results}")
        if failed:
            return 1
        write(self.done, self.key)
        return 0

    # ---- the release ----------------------------------------------------------------------------

    def configure(self) -> None:
        config = self.config
        self.fetch(config["release"], config["sha256"], self.bundle, self.rights(config["release"]))
        commit = self.unpack()
        self.say(f"release {config['release']}, sha256 {config['sha256']}, commit {commit}")
        self.environment()
        self.play()

    def fetch(self, url: str, sha256: str, path: str, headers: Dict[str, str]) -> None:
        """The file of this sum, downloaded unless it is there; one of another sum is not kept."""
        if sum_of(path) == sha256:
            return
        partial = f"{path}.part"
        ends = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                reply = download(url, partial, headers, max(CALL_SECONDS, ends - time.monotonic()))
                if reply.status == http.client.OK:
                    break
                reason = f"status {reply.status} ({reply.reason})"
                if reply.status not in _MAY_PASS:
                    raise Trouble(f"{url} cannot be had: {reason}")
            except bounded_http.TooLarge as error:
                raise Trouble(f"{url} has {error}") from None
            except (OSError, http.client.HTTPException) as error:
                reason = str(error) or type(error).__name__
            if time.monotonic() > ends:
                raise Trouble(f"{url} cannot be had for {PATIENCE_SECONDS:g} s: {reason}")
            self.say(f"{url}: {reason}; asking again")
            time.sleep(PAUSE_SECONDS)
        actual = sum_of(partial)
        if actual != sha256:
            os.remove(partial)
            raise Trouble(
                f"{url} has sha256 {actual}, and {sha256} is pinned: nothing of it was used"
            )
        os.replace(partial, path)

    def unpack(self) -> str:
        """The release's files; its commit."""
        if not shutil.which("git"):
            self.install("git")
        listed = self.answer(["git", "bundle", "list-heads", self.bundle])
        match = re.search(rf"(?m)^([0-9a-f]{{40,64}}) refs/heads/{BRANCH}$", listed)
        if not match:
            raise Trouble(f"the release has no branch {BRANCH}: make it by `make release`")
        commit = match.group(1)
        # ansible-pull takes no bundle for a repository.
        for source, directory, how in (
            (self.bundle, self.repository, ["--bare"]),
            (self.repository, self.checkout, []),
        ):
            try:
                head = self.answer(["git", "-C", directory, "rev-parse", BRANCH]).strip()
            except Trouble:
                head = ""
            if head != commit:
                shutil.rmtree(directory, ignore_errors=True)
                self.run(["git", "clone", "--quiet", *how, "--branch", BRANCH, source, directory])
        return commit

    def install(self, package: str) -> None:
        """By the system's own package manager."""
        self.say(f"{package} is not on this image: installing it")
        for program, commands in (
            (
                "apt-get",
                (["update"], ["install", "-y", "--no-install-recommends", "--no-remove", package]),
            ),
            ("dnf", (["install", "-y", package],)),
            ("tdnf", (["install", "-y", package],)),
        ):
            if shutil.which(program):
                for words in commands:
                    self.run([program, "-q", *words], DEBIAN_FRONTEND="noninteractive")
                return
        raise Trouble(f"{package} is not on this image, and there is no apt-get, dnf or tdnf")

    # ---- the environment ------------------------------------------------------------------------

    def environment(self) -> None:
        """A virtual environment with the release's pins, made anew unless it is whole."""
        requirements = os.path.join(self.checkout, "requirements", "controller.txt")
        python = self.python()
        mark = os.path.join(self.venv, ".trueup")
        key = f"{sum_of(requirements)} {python} {self.checkout}"
        if read(mark) == key:
            return
        self.say(f"making the environment with {python}")
        self.run([python, "-m", "venv", "--clear", self.venv])
        pip = [os.path.join(self.venv, "bin", "python"), "-m", "pip", "install", "--quiet"]
        self.run([*pip, "--require-hashes", "--requirement", requirements])
        offline = ["--no-index", "--no-deps", "--no-build-isolation"]
        self.run([*pip, *offline, "--editable", self.checkout])
        write(mark, key)

    def python(self) -> str:
        """A Python of 3.11 or newer that makes environments; a pinned build where there is none."""
        for name in PYTHONS:
            path = shutil.which(name)
            if path and subprocess.call([path, "-c", USABLE], stderr=subprocess.DEVNULL) == 0:
                return path
        machine = platform.machine()
        build = self.config["builds"].get(machine)
        if not build:
            raise Trouble(
                f"no Python of 3.11 or newer with venv is on this image, and no build for {machine}"
                " is pinned"
            )
        directory = os.path.join(self.folder, f"python-{build['sha256'][:12]}")
        path = os.path.join(directory, "bin", "python3")
        if os.path.exists(path):
            return path
        self.say(f"no Python of 3.11 or newer with venv is on this image: taking {build['url']}")
        archive = f"{directory}.tar.gz"
        self.fetch(build["url"], build["sha256"], archive, {})
        shutil.rmtree(f"{directory}.part", ignore_errors=True)
        with tarfile.open(archive) as stream:
            stream.extractall(f"{directory}.part")  # noqa: S202 WHY: its sha256 is pinned
        [inside] = os.listdir(f"{directory}.part")
        os.rename(os.path.join(f"{directory}.part", inside), directory)
        return path

    # ---- the play -------------------------------------------------------------------------------

    def play(self) -> None:
        """ansible-pull from the verified bundle; this machine is its only host."""
        inventory = os.path.join(self.folder, "inventory")
        # ansible-pull checks out as localhost, whatever machines are called.
        write(
            inventory, f"{self.name} ansible_connection=local\nlocalhost ansible_connection=local\n"
        )
        variables = os.path.join(self.folder, "variables.json")
        play_variables = {**self.config["variables"], "trueup_resume": self.config["run"]}
        write(variables, json.dumps(play_variables, indent=2, sort_keys=True) + "\n")
        programs = os.path.join(self.venv, "bin")
        self.run(
            [
                os.path.join(programs, "ansible-pull"),
                *("-U", self.repository, "-C", BRANCH, "-d", self.checkout, "--full", "--clean"),
                *("-i", inventory, "-l", self.name, "-e", f"@{variables}"),
                "playbooks/pull.yml",
            ],
            cwd=self.checkout,
            PATH=f"{programs}:{os.environ.get('PATH', os.defpath)}",
            ANSIBLE_CONFIG=os.path.join(self.checkout, "ansible.cfg"),
            TRUEUP_RESULTS=self.results,
            # Its lines before and after Ansible's own output must not come at the end.
            PYTHONUNBUFFERED="1",
        )

    def run(self, argv: List[str], cwd: Optional[str] = None, **variables: str) -> None:
        """A command whose output goes into the journal and the log.

        Raises:
            Trouble: it did not end with status 0; with the last line that tells of an error.
        """
        last = reason = ""
        with subprocess.Popen(
            argv,
            cwd=cwd,
            env={**os.environ, **variables},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        ) as child:
            for content in child.stdout or ():
                line = content.decode("utf-8", "replace").rstrip()
                last = line.strip() or last
                reason = last if _ERROR.search(line) else reason
                self.say(line)
        if child.returncode != 0:
            name = os.path.basename(argv[0])
            raise Trouble(f"{name} ended with status {child.returncode}: {(reason or last)[:300]}")

    def answer(self, argv: List[str]) -> str:
        """The output of a command."""
        with tempfile.TemporaryFile() as wrong:
            try:
                return subprocess.check_output(argv, stderr=wrong).decode("utf-8", "replace")
            except subprocess.CalledProcessError:
                wrong.seek(0)
                reason = wrong.read().decode("utf-8", "replace").strip()[-300:]
                raise Trouble(f"{' '.join(argv[:3])}: {reason}") from None

    # ---- Azure ----------------------------------------------------------------------------------

    def own_name(self) -> str:
        """The instance's name in Azure; the host's where metadata does not say it."""
        try:
            compute = self.metadata("instance/compute", "2021-02-01", format="json")
            name = str(compute.get("name") or "")
        except Trouble as error:
            self.say(f"{error}: the host's name is taken")
            name = ""
        name = name or platform.node()
        return re.sub(r"[^A-Za-z0-9._-]", "-", name).lstrip(".-") or "node"

    def metadata(self, path: str, version: str, **query: str) -> Dict[str, Any]:
        query["api-version"] = version
        url = f"{self.config['metadata']}/metadata/{path}?{urllib.parse.urlencode(query)}"
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        request = urllib.request.Request(url, headers={"Metadata": "true"})  # noqa: S310 WHY: of the config
        try:
            reply = bounded_http.ask(
                lambda: opener.open(request, timeout=CALL_SECONDS), CALL_SECONDS, 2**20
            )
            document = bounded_http.parse_json(reply.checked())
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Trouble(f"instance metadata ({path}): {error or type(error).__name__}") from None
        if not isinstance(document, dict):
            raise Trouble(f"instance metadata ({path}) is no JSON object")
        return document

    def rights(self, url: str) -> Dict[str, str]:
        """Headers by which the identity reads or writes a blob in the container's account; none for
        any other server."""
        records, other = (
            urllib.parse.urlsplit(address).netloc for address in (self.config["records"], url)
        )
        if not records or records != other:
            return {}
        query = {"resource": STORAGE, "msi_res_id": self.config["identity"]}
        token = self.metadata("identity/oauth2/token", "2018-02-01", **query).get("access_token")
        if not token:
            raise Trouble("instance metadata gives no token")
        return {"Authorization": f"Bearer {token}", "x-ms-version": STORAGE_VERSION}

    def upload(self) -> None:
        """Write each file of the run to CONTAINER/RUN/NAME; existing blobs are not overwritten."""
        root = os.path.join(self.results, self.config["run"])
        paths = sorted(files(root))
        headers = self.rights(self.config["records"])
        base = f"{self.config['records']}/{self.config['run']}/{urllib.parse.quote(self.name)}"
        names = [os.path.relpath(path, root) for path in paths]
        last = [name for name in names if name in CHANGING]
        for name in [name for name in names if name not in CHANGING] + last:
            self.put(f"{base}/{urllib.parse.quote(name)}", os.path.join(root, name), headers)
        self.say(f"{len(names)} files of run {self.config['run']} are in {base}")
        self.put(f"{base}/pull.log", self.log.name, headers)

    def put(self, url: str, path: str, headers: Dict[str, str]) -> None:
        with open(path, "rb") as stream:
            content = stream.read()
        digest = md5(content)
        once = {} if url.endswith(CHANGING) else {"If-None-Match": "*"}
        more = {"x-ms-blob-type": "BlockBlob", "Content-MD5": digest, **once}
        for attempt in range(TRIES):
            try:
                reply = call("PUT", url, {**headers, **more}, content)
                if 200 <= reply.status < 300:
                    return
                if reply.status in _PRECONDITION and once:
                    if call("HEAD", url, headers).headers.get("Content-MD5") == digest:
                        return
                    raise Trouble(f"{url} is there with another content")
                if reply.status not in _MAY_PASS or attempt == TRIES - 1:
                    raise Trouble(f"{url} was refused: {refusal(reply)}")
            except (OSError, http.client.HTTPException) as error:
                if attempt == TRIES - 1:
                    reason = str(error) or type(error).__name__
                    raise Trouble(f"{url} cannot be written: {reason}") from None
            time.sleep(min(PAUSE_SECONDS, 2.0**attempt))


def call(
    method: str, url: str, headers: Dict[str, str], content: Optional[bytes] = None
) -> bounded_http.Reply:
    request = urllib.request.Request(url, data=content, headers=headers, method=method)  # noqa: S310 WHY: of the config
    opener = urllib.request.build_opener(_OnlyHttps())
    seconds = CALL_SECONDS if content is None else UPLOAD_SECONDS
    return bounded_http.ask(lambda: opener.open(request, timeout=CALL_SECONDS), seconds)


def download(url: str, path: str, headers: Dict[str, str], seconds: float) -> bounded_http.Reply:
    """A file; the reply says whether its content counts."""
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 WHY: of the config
    opener = urllib.request.build_opener(_OnlyHttps())
    with open(path, "wb") as stream:
        return bounded_http.save(
            lambda: opener.open(request, timeout=CALL_SECONDS), stream, seconds, MOST_BYTES
        )


def refusal(reply: bounded_http.Reply) -> str:
    """The status of an answer, with Azure's code and request id."""
    code = reply.headers.get("x-ms-error-code") or reply.reason
    number = reply.headers.get("x-ms-request-id", "none")
    return f"status {reply.status}, {code} (request {number})"


def md5(content: bytes) -> str:
    """As the service has it of a blob."""
    return base64.b64encode(hashlib.md5(content).digest()).decode("ascii")  # noqa: S324 WHY: the service's


def files(root: str) -> Iterator[str]:
    for folder, _folders, names in os.walk(root):
        yield from (os.path.join(folder, name) for name in names)


def sum_of(path: str) -> str:
    """sha256 of a file; empty where there is none."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as stream:
            for block in iter(lambda: stream.read(2**20), b""):
                digest.update(block)
    except OSError:
        return ""
    return digest.hexdigest()


def read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as stream:
            return stream.read()
    except OSError:
        return ""


def write(path: str, text: str) -> None:
    """A file as a whole, or not at all."""
    with open(f"{path}.part", "w", encoding="utf-8") as stream:
        stream.write(text)
        stream.flush()
        os.fsync(stream.fileno())
    os.replace(f"{path}.part", path)


def main(argv: List[str]) -> int:
    with open(argv[1], encoding="utf-8") as stream:
        config = json.load(stream)
    os.makedirs(config["folder"], exist_ok=True)
    with open(os.path.join(config["folder"], "lock"), "a", encoding="ascii") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            print("another start of this program is at work on this machine", flush=True)
            return 1
        machine = Machine(config)
        with contextlib.closing(machine.log):
            return machine.go()


if __name__ == "__main__":
    sys.exit(main(sys.argv))
