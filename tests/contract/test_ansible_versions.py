"""site.yml --check with every release of ansible-core that is supported, where it is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import ansible_collections
import pytest
from ansible_versions import PYTHONS, ROOT, folder, missing
from trueup_controller.settings import ANSIBLE


def test_the_releases_are_those_that_the_plays_take() -> None:
    releases = [tuple(map(int, release.split("."))) for release in PYTHONS]
    assert (releases[0], releases[-1]) == ANSIBLE
    assert releases == [(2, minor) for minor in range(ANSIBLE[0][1], ANSIBLE[1][1] + 1)]


@pytest.mark.parametrize("release", PYTHONS)
def test_the_main_job_runs_in_check_mode(release: str, tmp_path: Path) -> None:
    program = folder(release) / "bin" / "ansible-playbook"
    if not program.exists():
        pytest.skip(missing(release) or f"ansible-core {release}: `make versions` installs it")
    local = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": {"node": local}}}))
    [collections] = {str(Path(path).parent) for path in ansible_collections.__path__}
    own = {
        "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
        "ANSIBLE_COLLECTIONS_PATH": collections,
        "ANSIBLE_CACHE_PLUGIN_CONNECTION": str(tmp_path / "facts"),
        "ANSIBLE_NOCOLOR": "1",
        "TRUEUP_RESULTS": str(tmp_path / "results"),
    }
    asked = {"trueup_benchmarks": ["stream"], "trueup_metadata_url": "http://127.0.0.1:9"}
    done = subprocess.run(
        [program, "site.yml", "--check", "-i", tmp_path / "hosts.json", "-e", json.dumps(asked)],
        cwd=ROOT,
        env={**os.environ, **own},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "TASK [stream : Run stream]" in done.stdout
    assert not (tmp_path / "results").exists()
