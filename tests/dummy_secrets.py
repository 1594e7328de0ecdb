"""Texts as tools of an HPC node print them, each with a credential that is none."""

from __future__ import annotations

import base64

# Dummies, each in the form of its kind.
KEY = "dummyKEYdummy0123456789"
WANDB = "0123456789abcdef" * 2 + "01234567"
PAIR = base64.b64encode(b"$oauthtoken:dummy-key-0123456789").decode()
STORAGE = "Abc%2B%2F9" * 14 + "x0%3D%3D"
PEM = "\n".join(
    [
        "-----BEGIN OPENSSH PRIVATE KEY-----",
        *["b3BlbnNzaC1rZXktdjEA" + "x9Kq" * 12 + "AA"] * 5,
        "ZHVtbXk=",
        "-----END OPENSSH PRIVATE KEY-----\n",
    ]
)
ENCODED = base64.b64encode(PEM.encode()).decode()
CERTIFICATE = base64.b64encode(
    b"-----BEGIN CERTIFICATE-----\n" + b"MIIdummy" * 20 + b"\n-----END CERTIFICATE-----\n"
).decode()

# A text with the secret in it as {}.
SECRETS = [
    # .netrc, and enroot's credentials.
    ("machine nvcr.io login $oauthtoken password {}", KEY),
    ("machine auth.docker.io\n  login me\n  password {}\nmachine b", KEY),
    ("machine a.example password {} login me", KEY),
    ("default login anonymous password {}", KEY),
    # Docker.
    ('{{"auths": {{"nvcr.io": {{"auth": "{}"}}}}}}', PAIR),
    ('{{\n  "auths": {{\n    "nvcr.io": {{\n      "auth": "{}"\n', PAIR),
    (r"{{\"auths\":{{\"nvcr.io\":{{\"auth\":\"{}\"}}}}", PAIR),
    ('"identitytoken": "{}"', KEY),
    ("+ docker login nvcr.io -u me -p {}", KEY),
    ("docker login -u me -p={} nvcr.io", KEY),
    ("podman login -u me -p'{}' nvcr.io", KEY),
    ("docker login --username me --password {} nvcr.io", KEY),
    ("docker login \\\n    -u me \\\n    -p {}", KEY),
    ("az login --service-principal -u me -p {} --tenant x", KEY),
    ("login-node$ docker login -p {}", KEY),
    ("sshpass -p {} ssh node1", KEY),
    # Weights & Biases.
    ("wandb login {}", WANDB),
    ("wandb login --relogin --host https://w.example {}", WANDB),
    ("wandb.login(key='{}')", WANDB),
    # Mounts, mail, databases.
    ("mount -t cifs //a/b /mnt -o username=me,pass={},uid=0", "hunter2x"),
    ("//a/b /mnt cifs vers=3.1.1,username=me,password={},serverino 0 0", "hunter2x"),
    ("pass={}", "hunter2x"),
    ("SMTP_PASS={}", "hunter2x"),
    ("export MYSQL_PASS='{}'", "hunter2x"),
    ("SITE_PASS={}", "hunter2x"),
    ("redis_pass: {}", "hunter2x"),
    # Kubernetes: JSON, YAML, and their like.
    ('{{"name": "DB_PASSWORD", "value": "{}"}}', "hunter2x"),
    ('{{\n  "name": "DB_PASSWORD",\n  "value": "{}"\n}}', "hunter2x"),
    (r"{{\"name\":\"DB_PASSWORD\",\"value\":\"{}\"}}", "hunter2x"),
    ('{{"value": "{}", "name": "DB_PASSWORD"}}', "hunter2x"),
    ("{{'name': 'DB_PASSWORD', 'value': '{}'}}", "hunter2x"),
    ("env:\n- name: X_TOKEN\n  value: {}\n- name: Y\n", "hunter2x"),
    ('  - name: "X_TOKEN"\n    value: "{}"', "hunter2x"),
    ("- name: X_PASSWORD\n  value: |\n    {}", "hunter2x"),
    # Storage keys and signatures as in a URL.
    ("AccountKey={};EndpointSuffix=x", STORAGE),
    ("connection%3DAccountKey%253D{}", STORAGE.replace("%", "%25")),
    ("the key is {} here", STORAGE),
    ("https://a.example/c?sv=2024&sig={}&se=2026", "AbCdEfGh12345678%3D"),
    # Keys of ssh and TLS.
    ("key: {}", ENCODED),
    ("echo {} | base64 -d", ENCODED),
    ("x=YS{}", base64.b64encode(b"a" + PEM.encode()).decode()[2:]),
    ("x=YWI{}", base64.b64encode(b"ab" + PEM.encode()).decode()[3:]),
    # Programs that take a pair.
    ("+ curl -u me:{} https://a.example", "hunter2x"),
    ("curl -sSfu 'me:{}' https://a.example", "hunter2x"),
    ("curl https://a.example --user me:{}", "hunter2x"),
    ("curl -L \\\n  --proxy-user=me:{}", "hunter2x"),
    # Variables that are set without a sign.
    ("setenv HF_TOKEN {}", "hunter2x"),
    ('setenv("HF_TOKEN", "{}")', "hunter2x"),
    ("mpirun -genv HF_TOKEN {} -n 8 a.out", "hunter2x"),
    ("os.environ['HF_TOKEN'] = '{}'", "hunter2x"),
]


def printed() -> str:
    """All of them, a text after the other."""
    return "".join(text.format(secret) + "\n" for text, secret in SECRETS)


def left_in(text: str) -> list[str]:
    """Parts of the secrets, eight characters each, that stand in a text."""
    parts = {secret[at : at + 8] for _, secret in SECRETS for at in range(0, len(secret) - 7, 8)}
    # "-----BEGIN" in base64 is no secret.
    return sorted(part for part in parts if part in text and not part.startswith("LS0tLS1C"))
