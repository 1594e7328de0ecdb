"""The role avd_session_host on a simulated Windows host, whose agent registers in the emulated
cloud: Ansible's own connection on one side, azure-cli-core's login on the other."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from emulated_cloud import SUBSCRIPTION, Cloud, Models, desktops, profile
from emulated_cloud import serving as serving_cloud
from helpers import parametrized
from plays import AS_JSON, ROOT, answer, playbook
from simulated_windows import Host, avd, grid
from simulated_windows import serving as serving_host

if TYPE_CHECKING:
    from collections.abc import Iterator

GROUP = f"/subscriptions/{SUBSCRIPTION}/resourceGroups/simulated"
POOL = f"{GROUP}/providers/Microsoft.DesktopVirtualization/hostPools/nx-pool"
ANA = "11111111-2222-3333-4444-555555555555"
AGENT = r"HKLM:\SOFTWARE\Microsoft\RDInfraAgent"
WANTED: dict[str, Any] = {
    "avd_session_host_pool": "nx-pool",
    "avd_session_host_subscription": SUBSCRIPTION,
    "avd_session_host_groups": [
        {"name": "nx-desk", "type": "Desktop"},
        {
            "name": "nx-apps",
            "type": "RemoteApp",
            "applications": [{"name": "nx", "path": "C:\\ugraf.exe"}],
        },
    ],
    "avd_session_host_workspace": "nx-space",
    "avd_session_host_tags": {"run": "20261123T180000Z-7c1e"},
    # Emulated and simulated times: nobody waits here.
    "avd_session_host_health_seconds": 0,
    "avd_session_host_drain_seconds": 1,
    "avd_session_host_registration_seconds": 0,
}
NODE = {
    "system": "windows",
    "family": "nv_a10_v5",
    "vm_size": "Standard_NV12ads_A10_v5",
    "os": "Windows 11 Enterprise multi-session 25H2",
}
# How the callback's document begins, behind what -vvvvvv shows.
_JSON = '{\n    "custom_stats"'
# Each a part of a run, as plays include them.
PARTS = {
    "main": {"ansible.builtin.include_role": {"name": "avd_session_host"}},
    "drain": {"ansible.builtin.include_tasks": f"{ROOT}/playbooks/tasks/avd_drain.yml"},
    "give_back": {"ansible.builtin.include_tasks": f"{ROOT}/playbooks/tasks/avd_give_back.yml"},
    "plan": {
        "ansible.builtin.include_role": {"name": "avd_session_host", "tasks_from": "preflight"}
    },
}


class Site:
    """A cloud, a host in it, and a controller that is signed in."""

    def __init__(self, folder: Path, cloud: Cloud, host: Host, found: dict[str, Any]) -> None:
        self.folder, self.cloud, self.host, self.found = folder, cloud, host, found
        self.environment = profile(folder, cloud.url)

    def run(self, *parts: str, options: tuple[str, ...] = (), **more: Any) -> dict[str, Any]:
        """How a play with these parts ended: its counts, what failed, all that was shown."""
        due = {"trueup_changes_due": True, "trueup_failed_roles": [], "trueup_family_roles": ["x"]}
        variables = {**self.found, **WANTED, **due, "trueup_node": NODE, **more}
        hosts = {"all": {"hosts": {"nv0": variables}}}
        (self.folder / "hosts.json").write_text(json.dumps(hosts))
        play = {"hosts": "all", "gather_facts": False, "tasks": [PARTS[part] for part in parts]}
        (self.folder / "play.yml").write_text(yaml.safe_dump([play]))
        names = (str(self.folder / "play.yml"), "-i", str(self.folder / "hosts.json"), "-vvvvvv")
        own = {**AS_JSON, **self.environment, "ANSIBLE_CACHE_PLUGIN": "memory"}
        done = playbook(self.folder, *names, *options, env=own)
        said = json.loads(done.stdout[done.stdout.index(_JSON) :])
        tasks = [task for one in said["plays"] for task in one["tasks"]]
        found = [task["hosts"].get("nv0", {}) for task in tasks]
        return {
            **{key: said["stats"]["nv0"][key] for key in ("changed", "failures", "rescued")},
            "failed": [one["msg"] for one in found if one.get("failed")],
            "said": [
                text for one in found if isinstance(one.get("msg"), list) for text in one["msg"]
            ],
            "shown": done.stdout + done.stderr,
        }

    def kept(self) -> dict[str, Any]:
        return dict(self.cloud.resource(POOL).state["hosts"]["nv0"])

    def tokens(self) -> list[str]:
        kept = self.cloud.resource(POOL).state.get("token")
        return [kept["token"]] if kept else []


@contextlib.contextmanager
def made(folder: Path) -> Iterator[Site]:
    """A site without a pool."""
    cloud, host = Cloud(), Host.nv_a10()
    cloud.validate = Models()
    cloud.directory.add(ANA)
    assert host.metadata is not None
    compute = host.metadata["compute"]
    compute["resourceId"] = compute["resourceId"].replace(compute["subscriptionId"], SUBSCRIPTION)
    compute["subscriptionId"] = SUBSCRIPTION
    avd.join(host)
    avd.offer(host)
    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
        stack.enter_context(serving_cloud(cloud, folder))
        # The simulated agent speaks to the cloud as the host would.
        patch.setenv("SSL_CERT_FILE", str(folder / "authority.pem"))
        host.broker_url = f"{cloud.url}{desktops.BROKER}"
        _, found = stack.enter_context(serving_host(host))
        site = Site(folder, cloud, host, found)
        word = cloud.token()
        place = {"location": "eastus"}
        cloud.call("PUT", GROUP, {"api-version": "2022-09-01"}, place, f"Bearer {word}")
        yield site


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with made(tmp_path) as found:
        yield found


@pytest.fixture(scope="module", name="at_work")
def _at_work(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A site whose host serves users, for tests one after another."""
    with made(tmp_path_factory.mktemp("at_work")) as found:
        assert found.run("main")["failed"] == []
        yield found


@pytest.fixture
def serving(at_work: Site) -> Site:
    """The same without sessions, messages and drain."""
    desktops.set_host(at_work.cloud, "nv0", sessions=[], allow_new_session=True)
    at_work.cloud.resource(POOL).state["hosts"]["nv0"]["messages"] = []
    return at_work


def test_a_fresh_host_serves_users_and_a_second_run_changes_nothing(site: Site) -> None:
    before = site.run("main", options=("--check",))
    assert (before["failures"], site.cloud.resources, site.host.installed) == (0, {}, [])
    assert before["changed"] == 3
    first = site.run("main")
    assert (first["failed"], first["changed"]) == ([], 3)
    assert site.host.registry.value(AGENT, "IsRegistered") == 1
    assert (site.kept()["name"], len(site.tokens())) == ("nv0", 1)
    tagged = [one.name for one in site.cloud.resources.values() if one.tags.get("run")]
    assert tagged == ["nx-pool", "nx-desk", "nx-apps", "nx-space"]
    again = site.run("main")
    assert (again["failed"], again["changed"]) == ([], 0)
    # Of the token nothing is left on the host, in what its logs hold, or on the screen.
    [token] = site.tokens()
    held = [site.host.said(), json.dumps(site.host.dump()["registry"]), first["shown"]]
    assert [token in text for text in held] == [False, False, False]
    assert "PSRP STDOUT: <censored due to no log>" in first["shown"]
    assert "RDInfraAgent" in site.host.said()


def test_users_leave_before_a_change_and_come_back_after_it(serving: Site) -> None:
    desktops.set_host(serving.cloud, "nv0", sessions=[{"user": "ana", "leaves": True}])
    drained = serving.run("plan", "drain")
    assert (drained["failed"], serving.kept()["allow"]) == ([], False)
    assert [one["messageTitle"] for one in serving.kept()["messages"]] == [
        "Maintenance of this desktop"
    ]
    failed = serving.run("plan", "give_back", trueup_failed_roles=["windows_gpu"])
    assert "nv0 stays drained: windows_gpu failed. Mend it, and run again" in failed["said"]
    back = serving.run("plan", "give_back")
    assert (back["changed"], serving.kept()["allow"]) == (1, True)
    assert serving.run("plan", "give_back")["changed"] == 0
    # Where nothing is due nobody is sent away.
    assert serving.run("plan", "drain", trueup_changes_due=False)["changed"] == 0
    assert serving.kept()["allow"] is True


def test_a_run_of_one_other_role_drains_too_and_one_of_health_gives_nothing_back(
    serving: Site,
) -> None:
    # As with --tags: nothing has planned the role.
    drained = serving.run("drain")
    assert (drained["failed"], serving.kept()["allow"]) == ([], False)
    health = serving.run("give_back")
    assert (health["failed"], health["changed"], serving.kept()["allow"]) == ([], 0, False)


def test_site_yml_drains_a_host_before_its_first_change_and_gives_it_back(serving: Site) -> None:
    grid.settled(serving.host)
    desktops.set_host(serving.cloud, "nv0", sessions=[{"user": "ana", "leaves": True}])
    variables = {**serving.found, **WANTED, "windows_gpu_reboot_allowed": True}
    hosts = {"all": {"children": {"windows": {"hosts": {"nv0": variables}}}}}
    (serving.folder / "hosts.json").write_text(json.dumps(hosts))
    quick = json.dumps({"trueup_benchmarks": []})

    def run() -> list[str]:
        """The names of the tasks that changed something, in their order."""
        given = ("site.yml", "-i", str(serving.folder / "hosts.json"), "-e", quick)
        done = playbook(serving.folder, *given, env={**AS_JSON, **serving.environment})
        print(done.stdout, done.stderr)
        assert done.returncode == 0
        tasks = [task for one in answer(done)["plays"] for task in one["tasks"]]
        return [
            task["task"]["name"] for task in tasks if task["hosts"].get("nv0", {}).get("changed")
        ]

    key = r"HKLM:\SOFTWARE\Policies\Microsoft\Windows NT\Terminal Services"
    serving.host.registry.set(key, "AVC444ModePreferred", "dword", 0)
    changed = run()
    assert changed[0] == "avd_session_host : Drain the host"
    assert changed[-1] == "avd_session_host : Enable new sessions of the host"
    assert len(changed) > 2
    # Where nothing is due, nobody is asked to leave.
    assert run() == []
    assert (len(serving.kept()["messages"]), serving.kept()["allow"], serving.host.boots) == (
        1,
        True,
        1,
    )


def test_users_who_stay_keep_their_host_and_its_roles_are_not_run(serving: Site) -> None:
    desktops.set_host(serving.cloud, "nv0", sessions=[{"user": "bo"}])
    stayed = serving.run("plan", "drain", "give_back")
    assert stayed["rescued"] == 1
    [text] = stayed["failed"]
    assert text.startswith("avd_session_host: 1 sessions are still on nv0 after 1 s: bo (Active).")
    assert (serving.kept()["allow"], len(serving.kept()["in"])) == (True, 1)


@parametrized(("more", "part"), ids=["token", "subscription", "variable"])
def test_what_is_refused_is_one_sentence(site: Site, more: dict[str, Any], part: str) -> None:
    done = site.run("main", **more)
    [text] = done["failed"]
    assert part in text
    assert ("Traceback" in done["shown"], "s3cret" in done["shown"]) == (False, False)
    assert "s3cret" not in site.host.said()


def test_a_file_that_microsoft_has_not_signed_is_not_run(site: Site) -> None:
    # Microsoft's name stands in it, and is not whose it is.
    signer = 'CN="Somebody, O=Microsoft Corporation", O=Somebody Else, C=US'
    avd.offer(site.host, signer=signer)
    [text] = site.run("main")["failed"]
    assert f"it is signed by {signer}, expected is Microsoft Corporation." in text
    assert "Check avd_session_host_agent_url." in text
    left = [path for path in site.host.files if path.endswith(".msi")]
    assert (site.host.installed, left) == ([], [])


def test_without_a_pool_nothing_is_asked(site: Site) -> None:
    done = site.run("main", "drain", "give_back", avd_session_host_pool="")
    assert (done["failed"], done["changed"], site.host.events, site.cloud.calls[1:]) == (
        [],
        0,
        [],
        [],
    )
