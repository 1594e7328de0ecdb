#!/usr/bin/python3
"""Ends a run whose time has passed: systemd runs this on the login node each minute.

    python3 expiry.py CONFIG            ends the run if its tag `expires` has passed
    python3 expiry.py CONFIG --check    says when the run ends, or why Azure does not answer

For Python 3.6 and its standard library alone: it is sent to a VM as it stands here, with
bounded_http.py beside it. The VM's identity gives the token, instance metadata says which group it
is in, and no other group is named in any call. Exit status: 0 nothing was due, or all was asked
for; 1 the journal names the error, and the next minute tries again.

Source: https://learn.microsoft.com/entra/identity/managed-identities-azure-resources and
https://learn.microsoft.com/rest/api/resources for the calls.
"""

import email.utils
import http.client
import json
import re
import sys
import time
import urllib.parse
import urllib.request
from calendar import timegm
from typing import Any, Dict, List, Optional, Tuple

try:
    from .. import bounded_http
except (ImportError, ValueError):  # on the VM; Python 3.6 has the second
    import bounded_http  # type: ignore[no-redef]

# Of one pass, less than the minute to the next one; of one call; of the pass for single VMs.
PASS_SECONDS, CALL_SECONDS, VMS_SECONDS = 45, 10, 20
# After the expiry, in a group that others use too: then the login node deletes itself.
LAST_SECONDS = 30 * 60
MOST_PAGES = 100
VMS, SETS = "microsoft.compute/virtualmachines", "microsoft.compute/virtualmachinescalesets"
DISKS = "microsoft.compute/disks"
# Of the resources that keep a group, the journal names so many.
MOST_NAMES = 20
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d)(?::(\d\d)(?:\.\d+)?)?\s*(Z|UTC|\+00:?00)?", re.ASCII
)

# Of a machine's disk, in small letters.
_MADE_UP_NAME = re.compile(r"_(osdisk_\d+|disk\d+|lun_\d+_\d+)_[0-9a-f]{32}$")


class Trouble(Exception):
    """A call that failed, in one sentence."""


def moment(text: Any) -> Optional[float]:
    """Seconds since 1970 of a time in UTC such as 2026-11-24T18:00Z; None where it is none."""
    match = _TIME.fullmatch(text.strip()) if isinstance(text, str) else None
    if not match:
        return None
    day, clock, seconds = match.group(1, 2, 3)
    try:
        parsed = time.strptime(f"{day} {clock}:{seconds or '00'}", "%Y-%m-%d %H:%M:%S")
    except ValueError:
        return None
    return float(timegm(parsed))


def tag(of: Any, name: str) -> Any:
    """A tag of a resource; Azure's names of tags have no case."""
    tags = of.get("tags") if isinstance(of, dict) else None
    low = {str(key).lower(): value for key, value in tags.items()} if isinstance(tags, dict) else {}
    return low.get(name)


def within_group(listed: List[Any], group: str) -> List[Dict[str, Any]]:
    """A group's list as it came.

    Raises:
        Trouble: it has a resource of another group, or none.
    """
    within = group.lower() + "/providers/"
    for row in listed:
        identifier = row.get("id") if isinstance(row, dict) else None
        if not isinstance(identifier, str) or not identifier.lower().startswith(within):
            raise Trouble(f"the list of {group} has {str(identifier)[:200]!r}, which is not in it")
    return listed


def tagged_ids(listed: List[Dict[str, Any]], run: str) -> List[str]:
    """Ids, in small letters, of the resources that carry the run's tag, disks aside."""
    return [
        row["id"].lower()
        for row in listed
        if tag(row, "run") == run and str(row.get("type")).lower() != DISKS
    ]


def machine_lists(listed: List[Dict[str, Any]], run: str) -> List[str]:
    """Paths of the lists of those machines of the run to which a disk of the group is attached:
    the group's VMs, or the instances of a set."""
    tagged = tuple(f"{identifier}/" for identifier in tagged_ids(listed, run))
    paths = {}
    for row in listed:
        machine = str(row.get("managedBy") or "")
        if str(row.get("type")).lower() == DISKS and f"{machine.lower()}/".startswith(tagged):
            path = machine.rpartition("/")[0]
            paths[path.lower()] = path
    return [path for _, path in sorted(paths.items())]


def disks_of(machines: List[Any]) -> Dict[str, bool]:
    """Disks by id in small letters, as the models of machines show them: True for one that goes
    with its machine.

    That is the disk of the system, and a data disk that Azure is to delete with the machine
    (``deleteOption``), as the template asks for each of its own. A disk that somebody attaches,
    also by ``az vm disk attach --new``, is only detached from a machine that is deleted.
    """
    disks = {}
    for machine in machines:
        properties = machine.get("properties") if isinstance(machine, dict) else None
        storage = properties.get("storageProfile") if isinstance(properties, dict) else None
        if not isinstance(storage, dict):
            continue
        data = storage.get("dataDisks")
        models = [(storage.get("osDisk"), True)]  # type: List[Tuple[Any, bool]]
        models += [(disk, False) for disk in (data if isinstance(data, list) else [])]
        for disk, system in models:
            managed = disk.get("managedDisk") if isinstance(disk, dict) else None
            identifier = managed.get("id") if isinstance(managed, dict) else None
            if isinstance(identifier, str) and identifier:
                goes = system or str(disk.get("deleteOption")).lower() == "delete"
                disks[identifier.lower()] = goes
    return disks


def sort_out(
    listed: List[Dict[str, Any]], run: str, disks: Dict[str, bool]
) -> Tuple[List[Dict[str, Any]], List[str]]:
    """The run's resources in a group, and the ids of all others.

    The run's are those with its tag, all inside them (an extension), and the disks that go with its
    machines. The tag does not decide for a disk: the template has none, and Azure copies the tags
    of a machine to disks that it makes for it. A disk of a machine is judged by the machine's
    model, and one that no machine has any more by its name: Azure makes up a name where none was
    given, as in the template.

    Args:
        listed: the group's list.
        disks: as ``disks_of`` gives them of the machines in ``machine_lists``.
    """
    tagged = tagged_ids(listed, run)
    inside = tuple(f"{identifier}/" for identifier in tagged)

    def is_ours(row: Dict[str, Any]) -> bool:
        identifier = row["id"].lower()
        if str(row.get("type")).lower() != DISKS:
            return f"{identifier}/".startswith(inside)
        if f"{str(row.get('managedBy') or '').lower()}/".startswith(inside):
            return disks.get(identifier, False)
        return tag(row, "run") == run and bool(_MADE_UP_NAME.search(identifier))

    ours = [row for row in listed if is_ours(row)]
    return ours, [row["id"] for row in listed if not is_ours(row)]


class Azure:
    """Calls of one pass. ``date`` is the server's clock at the last answer, in seconds."""

    def __init__(self, config: Dict[str, Any]) -> None:
        self.config = config
        self.ends = time.monotonic() + PASS_SECONDS
        self.date = time.time()
        self.opener = urllib.request.build_opener(
            urllib.request.ProxyHandler({}), bounded_http.NoRedirect()
        )
        self.token = ""
        compute = self.metadata("instance/compute", "2021-02-01", format="json")
        identifiers = [
            compute.get(name) for name in ("subscriptionId", "resourceGroupName", "name")
        ]
        if not all(isinstance(identifier, str) and identifier for identifier in identifiers):
            raise Trouble("instance metadata does not say which VM this is")
        subscription, group, name = [
            urllib.parse.quote(str(identifier), safe="()") for identifier in identifiers
        ]
        self.group = f"/subscriptions/{subscription}/resourceGroups/{group}"
        self.self = f"{self.group}/providers/Microsoft.Compute/virtualMachines/{name}"
        response = self.metadata(
            "identity/oauth2/token", "2018-02-01", resource=config["manager"] + "/"
        )
        self.token = str(response.get("access_token") or "")
        if not self.token:
            raise Trouble("instance metadata gives no token")

    def left(self) -> float:
        """Seconds of the pass."""
        return self.ends - time.monotonic()

    def metadata(self, path: str, version: str, **query: str) -> Dict[str, Any]:
        query["api-version"] = version
        url = f"{self.config['metadata']}/metadata/{path}?{urllib.parse.urlencode(query)}"
        return self.call("GET", url, {"Metadata": "true"})

    def ask(self, method: str, path: str, kind: str = "groups", **query: str) -> Dict[str, Any]:
        query["api-version"] = self.config["versions"][kind]
        url = f"{self.config['manager']}{path}?{urllib.parse.urlencode(query)}"
        return self.call(method, url, {"Authorization": "Bearer " + self.token})

    def call(self, method: str, url: str, headers: Dict[str, str]) -> Dict[str, Any]:
        """The document of an answer, {} without one."""
        label = f"{method} {urllib.parse.urlsplit(url).path}"
        if self.left() <= 0:
            raise Trouble(f"{label}: not asked, {PASS_SECONDS} s are over")
        request = urllib.request.Request(url, headers=headers, method=method)  # noqa: S310 WHY: of the config
        seconds = min(CALL_SECONDS, self.left())
        try:
            reply = bounded_http.ask(lambda: self.opener.open(request, timeout=seconds), seconds)
            self.keep_date(reply.headers)
            if not 200 <= reply.status < 300:
                message = " ".join(reply.body[:2000].decode("utf-8", "replace").split())[:400]
                number = reply.headers.get("x-ms-request-id", "none")
                raise Trouble(f"{label}: status {reply.status}, {message} (request {number})")
            document = bounded_http.parse_json(reply.body) if reply.body.strip() else {}
        except bounded_http.NotJson as error:
            raise Trouble(f"{label}: the answer {error}") from None
        except (OSError, ValueError, http.client.HTTPException) as error:
            raise Trouble(f"{label}: {type(error).__name__} {error}") from None
        if not isinstance(document, dict):
            raise Trouble(f"{label}: the answer is no JSON object")
        return document

    def keep_date(self, headers: Any) -> None:
        parsed = email.utils.parsedate_tz(headers.get("Date") or "")
        if parsed and self.token:
            self.date = float(email.utils.mktime_tz(parsed))

    def every(self, path: str, kind: str = "groups") -> List[Any]:
        """All rows of a list."""
        page = self.ask("GET", path, kind)
        rows: List[Any] = []
        for _ in range(MOST_PAGES):
            if not isinstance(page.get("value"), list):
                raise Trouble(f"{path} is no list")
            rows += page["value"]
            link = page.get("nextLink")
            if not link:
                return rows
            if not str(link).startswith(self.config["manager"] + "/"):
                raise Trouble(f"{path} goes on at another host")
            page = self.call("GET", str(link), {"Authorization": "Bearer " + self.token})
        raise Trouble(f"{path} has more than {MOST_PAGES} pages")


def say(text: str) -> None:
    """A line of the journal."""
    print(text, flush=True)


def one_pass(azure: Azure, check: bool = False) -> int:
    """Look once, and end the run where it is due; the exit status."""
    config = azure.config
    group = azure.ask("GET", azure.group)
    owns_group = tag(group, "run") == config["run"]
    expires = tag(group, "expires") if owns_group else None
    ends = moment(expires)
    if ends is None:
        ends = moment(config["expires"])
        reason = (
            f"tag expires is {expires!r}"
            if owns_group
            else f"the group's run is {tag(group, 'run')!r}"
        )
        say(f"{azure.group}: {reason}: the time of the deployment holds, {config['expires']}")
    if ends is None:
        raise Trouble(f"the config's expires is {config['expires']!r}, which is no time")
    if check:
        say(f"run {config['run']} ends at {time.strftime('%Y-%m-%dT%H:%MZ', time.gmtime(ends))}")
    if check or azure.date < ends:
        return 0
    return _end(azure, owns_group, azure.date - ends)


def _sorted(azure: Azure) -> Tuple[List[Dict[str, Any]], List[str], int]:
    """The run's resources in the group, the ids of all others, and how many calls failed."""
    run = azure.config["run"]
    listed = within_group(azure.every(azure.group + "/resources"), azure.group)
    machines: List[Any] = []
    failed = 0
    for path in machine_lists(listed, run):
        try:
            machines += azure.every(path, "compute")
        except Trouble as trouble:
            # Its disks count as others' until it answers: machines end all the same.
            say(str(trouble))
            failed += 1
    mine, other_ids = sort_out(listed, run, disks_of(machines))
    return mine, other_ids, failed


def _end(azure: Azure, owns_group: bool, late: float) -> int:
    """Ask for the end of the run: sets, VMs, and the group if all of it is the run's."""
    mine, other_ids, failed = _sorted(azure)
    by_kind = {
        kind: [resource["id"] for resource in mine if str(resource.get("type")).lower() == kind]
        for kind in (SETS, VMS)
    }
    vms = [vm_id for vm_id in by_kind[VMS] if vm_id.lower() != azure.self.lower()]
    say(
        f"run {azure.config['run']} has expired: {len(mine)} resources of it, {len(other_ids)}"
        f" others"
    )
    failed += sum([_delete(azure, set_id) for set_id in by_kind[SETS]])
    for number, vm_id in enumerate(vms):
        if owns_group and not other_ids and azure.left() < PASS_SECONDS - VMS_SECONDS:
            say(f"{len(vms) - number} VMs are left to the deletion of the group")
            break
        failed += _delete(azure, vm_id)
    if owns_group and not other_ids:
        return int(bool(failed + _delete(azure, azure.group, "groups")))
    names = ", ".join(other_ids[:MOST_NAMES])
    say(f"{azure.group} is kept: {names or 'its tag run is not this run'}")
    if not vms and not by_kind[SETS] and late >= LAST_SECONDS:
        failed += _delete(azure, azure.self)
    return int(bool(failed))


def _delete(azure: Azure, path: str, kind: str = "compute") -> int:
    """Ask for a deletion; 1 where it was refused."""
    try:
        azure.ask("DELETE", path, kind)
    except Trouble as trouble:
        if ": status 404," in str(trouble):
            return 0
        say(str(trouble))
        return 1
    say(f"DELETE {path}: asked")
    return 0


def main(argv: List[str]) -> int:
    """The program."""
    with open(argv[0], encoding="utf-8") as file:
        config = json.load(file)
    try:
        return one_pass(Azure(config), "--check" in argv[1:])
    except Trouble as trouble:
        say(str(trouble))
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
