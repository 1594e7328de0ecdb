"""Credentials in the forms that tools of an HPC node print: none is left, and nothing else goes."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

import pytest
from dummy_secrets import CERTIFICATE, ENCODED, KEY, PAIR, PEM, SECRETS, STORAGE, WANDB
from hypothesis import given
from hypothesis import strategies as st
from trueup_node.redaction import redact

REAL = Path(__file__).parents[3] / "shared" / "real_outputs"


@pytest.mark.parametrize(("text", "secret"), SECRETS)
def test_a_secret_goes_and_the_text_around_it_stays(text: str, secret: str) -> None:
    hidden = redact(text.format(secret))
    parts = [secret[at : at + 8] for at in range(0, len(secret) - 7, 8)]
    assert ("***" in hidden, [part for part in parts if part in hidden]) == (True, [])
    before = text.replace("{{", "{").replace("}}", "}").partition("{}")[0].rstrip("\"'\\ |\n")
    assert hidden.startswith(before)
    assert redact(hidden) == hidden


def test_an_encoded_key_over_several_lines_goes_whole() -> None:
    rows = [ENCODED[at : at + 76] for at in range(0, len(ENCODED), 76)]
    # The last row holds no more than the END of the key.
    assert b"END OPENSSH" in base64.b64decode(rows[-1] + "==")
    hidden = redact("\n".join(["first", *rows, "last"]))
    assert [row for row in rows[:-1] if row in hidden] == []
    assert (hidden.startswith("first\n***"), hidden.endswith("\nlast")) == (True, True)


def test_a_certificate_stays_and_a_key_behind_it_goes() -> None:
    assert redact(f"certificate-authority-data: {CERTIFICATE}") == (
        f"certificate-authority-data: {CERTIFICATE}"
    )
    both = base64.b64encode(base64.b64decode(CERTIFICATE) + PEM.encode()).decode()
    assert redact(f"data: {both}.") == "data: ***."


@pytest.mark.parametrize("cut", range(1, 7))
def test_no_line_of_a_key_is_left_where_its_beginning_or_end_is_cut_off(cut: int) -> None:
    lines = PEM.splitlines()
    for part in (lines[cut:], lines[: cut + 1]):
        hidden = redact("\n".join(["step 1", *part, "step 2"]))
        assert [row for row in lines[1:6] if row in hidden] == []
        assert (hidden.startswith("step 1\n"), hidden.endswith("step 2")) == (True, True)
        assert redact(hidden) == hidden


WRAPPED = "Abc9+/xY" * 8


@pytest.mark.parametrize("text", ["AccountKey={}", '"accountKey": "{}"', "Authorization: Basic {}"])
def test_a_secret_that_a_terminal_wrapped_goes_with_its_second_line(text: str) -> None:
    for indent in ("", "    "):
        shown = redact(
            text.format(f"{WRAPPED[:32]}\n{indent}{WRAPPED[32:]}") + "\nstep 1: 2.5 ms\n"
        )
        assert ("Abc9" in shown, shown.endswith("\nstep 1: 2.5 ms\n")) == (False, True)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (["docker", "login", "-u", "me", "-p", KEY, "nvcr.io"], {5: "***"}),
        (["docker", "login", f"-p{KEY}"], {2: "-p***"}),
        (["wandb", "login", "--relogin", WANDB], {3: "***"}),
        (["curl", "-u", "me:my own key", "https://a"], {2: "me:***"}),
        (["sshpass", "-p", "my key", "ssh", "node1"], {2: "***"}),
        (["sh", "-c", f"curl -u me:{KEY} https://a"], {2: "curl -u me:*** https://a"}),
        (["mount", "-o", "user=me,pass=hunter2x,uid=0"], {2: "user=me,pass=***,uid=0"}),
        # No secret: ports, users, processes.
        (["docker", "run", "-p", "8000:8000", "--user", "1000:1000", "vllm"], {}),
        (["mpirun", "-np", "8", "-p", "4", "numactl", "-u", "a:b"], {}),
    ],
)
def test_arguments_of_commands(value: list[str], expected: dict[int, str]) -> None:
    assert redact(value) == [expected.get(at, item) for at, item in enumerate(value)]


def test_mappings() -> None:
    env = [{"name": "DB_PASSWORD", "value": "x"}, {"name": "OMP_NUM_THREADS", "value": "4"}]
    assert redact(env) == [{"name": "DB_PASSWORD", "value": "***"}, env[1]]
    assert redact({"auths": {"nvcr.io": {"auth": PAIR}}}) == {"auths": {"nvcr.io": {"auth": "***"}}}
    assert redact({"password": {"value": "x", "length": 1}}) == {
        "password": {"value": "***", "length": 1}
    }
    assert redact({"SMTP_PASS": "x", "pass": "x", "auth": "munge"}) == {
        "SMTP_PASS": "***",
        "pass": "***",
        "auth": "munge",
    }
    figures = [{"name": "output_token_throughput", "value": 61.5, "unit": "1/s"}]
    assert redact(figures) == figures
    assert redact(json.dumps(figures)) == json.dumps(figures)


NO_SECRETS = [
    "forward_pass: 0.12 s, backward_pass=0.31, n_pass=7, pass=12 fail=0, pass=ok",
    "FORWARD_PASS=1 TEST_PASS=true Result = PASS PASSED: 3 pass: yes bypass=lane3",
    "Permission denied (publickey,password). login and password are checked; a login or password",
    "login with password authentication is off; account for password changes",
    '"auth": "disabled", auth=munge, "auth": "none", AuthType=auth/munge',
    "wandb: You can find your API key here; run `wandb login` first, then wandb login again",
    "wandb login && python train.py --model llama-3-8b-instruct",
    "docker run -p 8080:80 --user 1000:1000 -u 0:0 image; ssh -p 2222 login",
    "srun -p hpc login.sh; salloc -p gpu; mkdir -p /mnt/login",
    "curl -fsSL https://a.example:443/x -o out:1\nwget -U agent:1",
    '{"name": "OMP_NUM_THREADS", "value": "4"}, {"name": "token_rate", "value": "311.7"}',
    "- name: PATH\n  value: /usr/bin\n- name: MY_TOKEN\n  valueFrom:\n    fieldRef: x",
    "setenv OMP_PLACES cores; -genv I_MPI_PIN 1; ENV PATH /usr/bin",
    '"adminPassword": {\n"disablePasswordAuthentication": true, "password": null',
    "a list of %3D%3D and sig=SIGTERM",
    f"ca: {CERTIFICATE}",
    "**********\nQwen2572BInstruct0 is served\n* Waiting for client to connect... *\n",
]


@pytest.mark.parametrize("text", NO_SECRETS)
def test_what_only_resembles_a_secret_stays(text: str) -> None:
    assert redact(text) == text


def _real() -> list[Path]:
    return sorted(path for path in REAL.rglob("*") if path.is_file()) if REAL.is_dir() else []


@pytest.mark.skipif(not REAL.is_dir(), reason="no folder ../shared/real_outputs here")
def test_no_real_output_is_changed() -> None:
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in _real()}
    assert len(texts) > 60
    assert [path for path, text in texts.items() if redact(text) != text] == []


# Any order and any cut of what a secret is told by.
PIECES = st.sampled_from(
    [
        *(
            "password",
            "=",
            ": ",
            " ",
            "\n",
            '"',
            "'",
            "\\",
            "***",
            "name",
            "value",
            "- name: X_TOKEN",
        ),
        *("machine a login b ", "curl -u a:b", "docker login -p x", "wandb login ", WANDB, PAIR),
        *('"auth": "', PEM, ENCODED, ENCODED[:90], "AccountKey", KEY, "|", "{", "setenv ", "token"),
        *("-----END PRIVATE KEY-----", "sig=", STORAGE, "per ", ";pwd", ",pass=", "AbC123" * 8),
    ]
)


@given(st.lists(PIECES, max_size=12))
def test_what_is_hidden_once_is_not_hidden_again(pieces: list[str]) -> None:
    hidden = redact("".join(pieces))
    assert redact(hidden) == hidden


def test_thirty_megabytes_take_a_time_that_is_linear_in_them() -> None:
    line = "".join(
        f"[step {number}] loss 2.{number} tokens 512, 61.5 ms\n" for number in range(900)
    )
    line += "".join(text.format(secret) + "\n" for text, secret in SECRETS)
    spent = []
    for megabytes in (1, 4):
        text = line * (megabytes * 1_000_000 // len(line))
        begun = time.process_time()
        redact(text)
        spent.append(time.process_time() - begun)
    assert spent[1] < 4 * 2.5 * spent[0]
