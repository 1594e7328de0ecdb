"""Removes credentials from texts and records.

A credential is recognised by its own shape (a JSON web token, the signature of a shared access
signature, a PEM block), by the name that it is assigned to (``password=``, ``AccountKey=``,
``--api-key``, a pair ``name`` and ``value``), or as an argument of a command that takes one
(``curl -u``, ``docker login -p``). The time is linear in the length of any text: no pattern begins
inside a word that it has read already, and each repetition is bounded or cannot be read twice.

The shapes are those that their makers document: RFC 7519 (JSON web token), RFC 7468 (PEM), RFC 9110
(Authorization), RFC 3986 (a password in a URL), curl's page on .netrc (enroot's credentials have
its form), Docker's on config.json, Kubernetes' on EnvVar, Azure's pages on connection strings,
shared access signatures and shared keys; and the tokens that detect-secrets 1.5 looks for, of
services that an HPC node talks to. Not used are its rules for strings of high entropy, which
checksums are, and for public addresses.
"""

from __future__ import annotations

import base64
import re
from itertools import accumulate
from re import Match, Pattern
from typing import Any, Dict, List, NamedTuple, Optional, Tuple

HIDDEN = "***"
_MOST_PASSES = 4

# "tokens" and "tokenizer" are no secrets: language models count the one and load the other. Nor is
# the name or the id of a key, which Azure and others print beside it.
_OF_A_KEY = (
    *("account", "access", "storage", "primary", "secondary", "master", "subscription"),
    *("functions", "auth", "service", "db", "database", "priv", "private", "client"),
)
# Whose "pass" is a password. A pass of a compiler, a model or a test is none.
_PASS_OF = (
    *("smtp", "mail", "db", "database", "sql", "pg", "postgres", "redis", "mongo", "rabbitmq"),
    *("key", "store", "user", "root", "admin", "login", "auth", "sudo", "proxy", "http", "https"),
    *("ftp", "ldap", "bind", "cifs", "smb", "ssh", "vnc", "registry", "docker", "ipmi", "bmc"),
)
_NAME = (
    rf"(?:token(?!s|iz)|secret|passw|passphrase|(?:{'|'.join(_PASS_OF)})[_-]?pass(?![a-z])"
    r"|(?-i:(?<=[A-Z0-9]_)PASS(?![A-Za-z]))|(?<![\w-])pass(?==)"
    r"|contrase[n\xf1]a|api[ _-]?key|credential|connection[_-]?string|sas[_-]?url"
    rf"|(?:{'|'.join(_OF_A_KEY)})[ _-]?key(?![ _-]?(?:name|id|file|path)|s)"
    r"|sharedaccesssignature|(?<=[;_])pwd(?![\w-]))"
)
# A fixed word in each of the names, in lower case, and a pattern that tells it from others: a
# search for a fixed word is many times faster than one for the names.
_BEFORE_KEY = "|".join(
    f"(?<={prefix}{gap}key)" for prefix in ("api", *_OF_A_KEY) for gap in ("", "[ _-]")
)
_BEFORE_PASS = "|".join(f"(?<={prefix}pass)" for prefix in _PASS_OF)
_NAME_MARKS = tuple(
    (mark, re.compile(mark + rest))
    for mark, rest in (
        *(
            ("token", "(?!s|iz)"),
            ("secret", ""),
            ("pass", rf"(?:w|phrase|(?==)|(?:(?<=[_-]pass)|{_BEFORE_PASS})(?![a-z]))"),
        ),
        *(("key", f"(?:{_BEFORE_KEY})"), ("contrase", ""), ("credential", ""), ("sas", "[_-]?url")),
        *(("connection", "[_-]?string"), ("sharedaccesssignature", ""), ("pwd", "(?<=[;_]pwd)")),
    )
)
# The longest name up to its mark, and from the mark on with the text that may not follow it.
_BEFORE_MARK, _FROM_MARK = 13, 32
_SECRET_NAME = re.compile(_NAME + r"|\A(?:(?:proxy[_-])?authorization|sig|pass)\Z", re.IGNORECASE)
# A switch, a verdict or a bracket is no secret. Nor is a count or a rate whose name goes on after
# "token" ("total_token_throughput": 311.7) or is "pass"; it may be a password.
_SWITCH = re.compile(
    r"[\[({]*(?:true|false|null|none|yes|no|ok|pass(?:ed)?|fail(?:ed)?)?[)\]}]*", re.IGNORECASE
)
_MAY_BE_NONE = frozenset(("token", "authorization", "pass"))
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?[)\]}]*", re.IGNORECASE)
_ENDS_AS_TOKEN = re.compile(r"(?<!per[_ -])token\Z", re.IGNORECASE)

# Latencies and rates of tokens, whose values are figures, or mappings of them.
_TIMED = re.compile(
    r"(?:inter|per[_ -]output|to[_ -](?:first|second))[_ -]token|token[_ -](?:rate|throughput)",
    re.IGNORECASE,
)

# A name in a text goes on to the end of its word, so that no word is read twice.
_NAMED = re.compile(_NAME, re.IGNORECASE)
_WORD = re.compile(r"[\w-]*")
_VALUE = (
    r"(?!\*\*\*)("
    r"[|>][-+]?[ \t]*\n[ \t]+[^\n]+|"
    r"\\+[\"'][^\"'\\\n]*\\*[\"']?"
    r"|\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\"?"
    r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'?"
    r"|[^\s,;&\"']+)"
)
_SHELL_WORD = r"(?![-*&|])(?P<secret>\"[^\"\n]*\"?|'[^'\n]*'?|[^\s\"']+)"
_ASSIGNED = re.compile(
    r"\\*[\"']?\]?\s*(?:=>|:=|={1,3}(?![=>])|:(?!:)|%(?:25){0,2}3[Dd])\s*" + _VALUE
)
# A name may itself be a value, whose own value stands beside it: "name": "A_TOKEN", "value": "x".
_NAMES_ONE = re.compile(
    r"(?:name|key|variable)\\{0,4}[\"']?\s{0,8}[:=]\s{0,20}\\{0,4}[\"']?\Z", re.IGNORECASE
)
_BLANK = r"(?:\s|\\[nrt])"
_VALUE_AFTER = re.compile(
    rf"\\{{0,4}}[\"']?{_BLANK}{{0,80}}(?:,{_BLANK}{{0,80}})?"
    r"\\{0,4}[\"']?value\\{0,4}[\"']?\s{0,8}[:=]"
    rf"[ \t]{{0,8}}{_VALUE}",
    re.IGNORECASE,
)
_VALUE_BEFORE = re.compile(
    r"(?<![A-Za-z])value\\{0,4}[\"']?\s{0,8}[:=]\s{0,8}\\{0,4}[\"']"
    r"(?!\*\*\*)([^\"'\n]{1,300})[\"'],\s{0,80}"
    r"\\{0,4}[\"']name\\{0,4}[\"']?\s{0,8}:\s{0,8}\\{0,4}[\"']\Z",
    re.IGNORECASE,
)
_ARGUMENT = re.compile(rf"[ \t]+{_SHELL_WORD}")
# Commands of shells, launchers and files that set a variable without a sign between.
_SETS = re.compile(r"(?:\bsetenv[ \t(]|-g?env[ \t]|\bENV[ \t])[ \t]{0,8}[\"']?\Z")
_SET_TO = re.compile(rf"[\"']?[ \t,]{{1,8}}{_SHELL_WORD}")
# Characters that may stand between a name and a value that is not assigned to it.
_BEFORE_VALUE = tuple(" \t\r\n\"'\\")
_OPTION = re.compile(r"--?[A-Za-z]")
_WHOLE_OPTION = re.compile(r"-[^\s=]+")
# The text before the telling part of a name; it is looked for no farther away.
_LOOK_BACK = 64
_LOOK_BACK_FOR_VALUE = 480
# Characters of a pair that are decoded.
_LONGEST_PAIR = 4096
_ENDS = re.compile(r"[\s\"']")
_BEFORE_WORD = re.compile(r"(?:;|\b(?:per|per output|inter) )\Z")

_BASE64 = r"[A-Za-z0-9+/]"
# Text that a string must hold in lower case for the pattern to be tried; the pattern's group is the
# part of the match that stays. Where a pattern begins with fixed characters, the search for them is
# ten times faster: text that must not stand before them is checked after them.
_SHAPES = tuple(
    (marks, re.compile(pattern))
    for marks, pattern in (
        # A URL's password, up to the last @ before the path.
        (("://",), r"(://[^\s/?#:@\"'<>\\]*:)[^\s/?#\"'<>\\]+(?=@)"),
        # A shared access signature's sig, also encoded, once or twice, or within JSON.
        (
            ("sig=", "sig%", "sig\\u003d"),
            (
                r"([sS][iI][gG](?:(?<![A-Za-z0-9]...)|(?i:(?<=%26...)|(?<=%3f...)|(?<=%2526...)"
                r"|(?<=%253f...)|(?<=u0026...)))(?i:=|%3d|%253d|\\u003d))"
                r"(?:(?!%(?:25)?26)[A-Za-z0-9%+/=_-]){12,}"
            ),
        ),
        (
            ("authorization",),
            (
                r"([aA](?i:uthorization\\*[\"']?\s*[=:]\s*(?:\\*[\"'])?"
                r"(?:basic|bearer|token|apikey|negotiate|sharedkey(?:lite)?)\s+))[^\s\"'\\,;*]+"
            ),
        ),
        # Elsewhere, the next word may be English.
        (
            ("bearer ",),
            (
                r"([bB](?<!\w.)(?i:earer ))(?:(?=[A-Za-z._~+/=-]*\d)[A-Za-z0-9._~+/=-]{12,}"
                r"|[A-Za-z0-9._~+/=-]{24,})"
            ),
        ),
        # A JSON web token: header, payload and signature; an encrypted one has five parts.
        (
            ("eyj",),
            (
                r"eyJ(?:(?<![\w-]eyJ)|(?<=%20eyJ)|(?<=%22eyJ)|(?<=%3DeyJ))()"
                r"[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*){2,4}"
            ),
        ),
        # Keys of 64 bytes: of a storage account, of Cosmos DB. A sha512 is as long, and says so.
        (
            ("==",),
            rf"(?<![A-Za-z0-9+/=])(?<!(?i:sha512)[-:=])(){_BASE64}{{86}}==(?!=)",
        ),
        # Entra's client secrets and Azure's newer keys, by the part that is always the same.
        (("q~",), r"(?<![\w.~-])()[\w.~-]{3}\dQ~[\w.~-]{31,34}(?![\w.~-])"),
        (("jqqj9",), rf"(?<![A-Za-z0-9])()[A-Za-z0-9]{{52}}JQQJ9{_BASE64}{{18,}}={{0,2}}"),
        # The same keys with + / = encoded as in a URL, once or twice.
        (
            ("%3d%3d", "%253d%253d"),
            (
                r"(?<![A-Za-z0-9+/%])()(?:[A-Za-z0-9+/]|%(?:25)?2[BbFf]){86}"
                r"(?:%(?:25)?3[Dd]){2}"
            ),
        ),
        # Of others, in the order of their names. Amazon's are the names of keys, which its own
        # tools hide.
        (
            ("a3t", "abia", "acca", "akia", "asia"),
            r"A(?:3T[A-Z0-9]|BIA|CCA|KIA|SIA)(?<!\w....)()[0-9A-Z]{16}(?!\w)",
        ),
        (tuple(f"gh{letter}_" for letter in "pousr"), r"gh[pousr]_(?<!\w.{4})()[A-Za-z0-9]{20,}"),
        (("github_pat_",), r"github_pat_(?<!\w.{11})()\w{20,}"),
        (("gl",), r"gl(?<!\w..)()(?:pat|dt|ft|soat|rt|imt|ptt|agent|oas|cbt)-[\w-]{20,}"),
        (("gr1348941",), r"GR1348941(?<!\w.{9})()[\w-]{20,}"),
        (("hf_",), r"hf_(?<!\w...)()[A-Za-z0-9]{16,}"),
        (("nvapi-",), r"nvapi-(?<!\w.{6})()[\w-]{20,}"),
        (("pypi-age",), r"pypi-AgE(?<!\w.{8})()[\w-]{70,}"),
        (("sk-",), r"sk-(?<![\w-]...)()[\w-]{32,}"),
        # .netrc and enroot's credentials; the words may stand in lines of their own.
        (
            ("password", "passwd"),
            (
                rf"(?i:(\b(?:machine|login|account){_BLANK}{{1,40}}(?!(?:and|or|with|by|for|using)\b)"
                rf"[^\s\\]{{1,300}}{_BLANK}{{1,40}}passw(?:or)?d{_BLANK}{{1,40}}))"
                r"(?!(?i:is|was|has|will|must|and|or|for|to|not)\b)(?!\*\*\*)\S+"
            ),
        ),
    )
)


class _Command(NamedTuple):
    """A command of which an argument is a secret.

    Attributes:
        mark: the word that tells it, and after which the secret stands.
        before: the text before that word.
        rest: the command from there on.
        secret: within it the group ``secret``.
    """

    mark: str
    before: Pattern[str]
    rest: Pattern[str]
    secret: Pattern[str]


# To the end of the line; a backslash carries a command on into the next one.
_REST = re.compile(r"(?:[^\n\\]+|\\[\s\S])*")
_NOT_IN_WORD = re.compile(r"(?:^|\W)\Z")
_COMMANDS = (
    _Command(
        "curl",
        _NOT_IN_WORD,
        _REST,
        re.compile(
            r"(?<=\s)(?:-[A-Za-z]{0,8}[uU]|--(?:proxy-)?user)(?:[ \t]+|=|(?![ \t=]))"
            r"(?P<quote>[\"'])?[^\s:\"']+:(?!\*\*\*)"
            r"(?P<secret>(?(quote)[^\"'\n]+|[^\s\"']+))"
        ),
    ),
    _Command(
        "login",
        re.compile(
            r"(?:^|\W)(?:docker|podman|nerdctl|buildah|skopeo|helm|oras|crane|singularity|apptainer"
            r"|az)[ \t]+(?:[^\s;&|]{1,80}[ \t]+){0,3}\Z"
        ),
        _REST,
        re.compile(rf"(?<=\s)-p(?:[ \t]+|=|(?![ \t=])){_SHELL_WORD}"),
    ),
    _Command("sshpass", _NOT_IN_WORD, _REST, re.compile(rf"(?<=\s)-p[ \t]*{_SHELL_WORD}")),
    _Command(
        "login",
        re.compile(r"(?:^|\W)wandb(?:[ \t]+|\.)\Z"),
        re.compile(r"[^\n&|;]*"),
        re.compile(
            r"(?:(?<=\s)|\bkey ?= ?[\"'])"
            r"(?P<secret>(?=[\w-]*\d)[A-Za-z0-9_][\w-]{7,}|[A-Za-z0-9]{20,})"
        ),
    ),
)
# The content of a registry's "auth": base64 of "user:password".
_AUTH = re.compile(
    r"(auth(?<![A-Za-z0-9]auth)\\{0,4}[\"']?\s{0,8}[:=]\s{0,8}\\{0,4}[\"']?)"
    rf"({_BASE64}{{8,}}={{0,2}})"
)
# "-----BEGIN" in base64, by its place among groups of three bytes; and the rest, in one line or in
# several full ones. The last line of a key holds no more of it than its END.
_ENCODED_BEGIN = ("LS0tLS1CRUdJT", "0tLS0tQkVHSU", "tLS0tLUJFR0lO")
_ENCODED_PEM = re.compile(
    rf"(?:{'|'.join(_ENCODED_BEGIN)}){_BASE64}*={{0,2}}"
    rf"(?:(?:\r?\n|\\n)[ \t]{{0,40}}{_BASE64}{{36,}}={{0,2}})*"
)
# A value that a terminal or a mail wrapped goes on in the next line.
_WRAPPED = re.compile(
    r"\*\*\*(?<!\*{4})((?:\r?\n[ \t]{0,40}[A-Za-z0-9+/_-]{16,}={0,2}(?=[;\"',\s]|\Z))+)"
)
_NOT_BASE64 = re.compile(r"\s+|\\n|[^A-Za-z0-9+/]")
_LETTERS_OF_A_KEY = (re.compile("[A-Z]"), re.compile("[a-z]"), re.compile("[0-9]"))

_PEM = re.compile(r"-{4,5} ?(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-{4,5}")
# A line of a block without an end, and one of a block without a beginning.
_PEM_LINE = re.compile(
    rf"(?:\s|\\[rn])*(?:{_BASE64}{{40,}}=*|{_BASE64}+(?:={{1,2}}(?=\s)|=*\s*\Z)"
    r"|(?:Proc-Type|DEK-Info|Comment|Version): [^\n]*)"
)
_PEM_ROW = re.compile(rf"[ \t]*{_BASE64}+={{0,2}}\s*")


def redact(value: Any, name: str = "") -> Any:
    """The same structure with each likely credential replaced by ``***``.

    Works on strings, lists and mappings; a mapping's entry whose name says that it is a secret
    loses its whole value.
    """
    if isinstance(value, dict):
        hides = _SECRET_NAME.search(name)
        return {
            key: redact(item, name if hides else _name_of(value, str(key)))
            for key, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        items = [redact(item, name) for item in value]
        # `--token X`: the name and the secret are two arguments.
        for index in range(1, len(items)):
            option = value[index - 1]
            is_option = isinstance(option, str) and _WHOLE_OPTION.fullmatch(option)
            if is_option and _is_secret(option, value[index]):
                items[index] = HIDDEN
        return _without_arguments(items)
    if not isinstance(value, str):
        return value
    if _is_secret(name, value) or (name == "auth" and _is_pair(value)):
        return HIDDEN
    # A value that is hidden may have kept a neighbour from being recognised.
    for _ in range(_MOST_PASSES):
        text = _hidden_once(value)
        if text == value:
            break
        value = text
    return value


def _hidden_once(text: str) -> str:
    text = _without_shapes(_without_private_keys(text))
    return _WRAPPED.sub(_unwrapped, _without_named(_without_commands(text)))


def _name_of(entries: Dict[Any, Any], key: str) -> str:
    """The name of an entry: its key; of the value of a pair ``name`` and ``value``, that name."""
    if key.lower() == "value":
        for other, item in entries.items():
            if str(other).lower() in ("name", "key", "variable") and isinstance(item, str):
                return item
    return key


def _is_secret(name: str, value: Any) -> bool:
    """Whether ``name`` says that it is a secret, and ``value`` can be one."""
    words = {match.lower() for match in _SECRET_NAME.findall(name)}
    text = str(value).strip("\\\"'")
    if not words or _SWITCH.fullmatch(text) or _TIMED.search(name):
        return False
    if not words <= _MAY_BE_NONE:
        return True
    return bool(_ENDS_AS_TOKEN.search(name)) or not _PLAIN.fullmatch(text)


def _is_pair(text: str) -> bool:
    """Whether a text is base64 of ``user:password``."""
    try:
        return b":" in base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return False


def _without_arguments(items: List[Any]) -> List[Any]:
    """A command's arguments without secrets that only the command as a whole tells."""
    # Blanks and quotes of an argument do not end it.
    texts = [_ENDS.sub("\0", item) if isinstance(item, str) else "" for item in items]
    begins = [0, *accumulate(len(text) + 1 for text in texts)]
    index = len(items)
    for begin, end in reversed(_spans_in_commands(" ".join(texts))):
        while begins[index] > begin:
            index -= 1
        first, last = begin - begins[index], end - begins[index]
        items[index] = items[index][:first] + HIDDEN + items[index][last:]
    return items


def _spans_in_commands(text: str) -> List[Tuple[int, int]]:
    """Where secrets stand that are arguments of commands, in their order."""
    spans: List[Tuple[int, int]] = []
    for command in _COMMANDS:
        at = text.find(command.mark)
        while at >= 0:
            after = at + len(command.mark)
            if command.before.search(text, max(0, at - _LOOK_BACK), at):
                rest = command.rest.match(text, after)
                until = rest.end() if rest else after
                spans += [
                    each.span("secret") for each in command.secret.finditer(text, after, until)
                ]
                after = max(after, until)
            at = text.find(command.mark, after)
    return sorted(spans)


def _without_commands(text: str) -> str:
    parts: List[str] = []
    done = 0
    for begin, end in _spans_in_commands(text):
        if begin >= done:
            parts += [text[done:begin], HIDDEN]
            done = end
    return "".join([*parts, text[done:]])


def _unwrapped(match: Match[str]) -> str:
    """A hidden value without the lines that go on with it, where these are of no alphabet but a
    key's."""
    lines = match[1]
    return HIDDEN if all(kind.search(lines) for kind in _LETTERS_OF_A_KEY) else match[0]


def _hidden_pair(match: Match[str]) -> str:
    return match[1] + HIDDEN if _is_pair(match[2][:_LONGEST_PAIR]) else match[0]


def _hidden_pem(match: Match[str]) -> str:
    """Only of a private key: a certificate is none."""
    letters = _NOT_BASE64.sub("", match[0])
    groups = (
        letters[skipped : len(letters) - (len(letters) - skipped) % 4] for skipped in range(4)
    )
    is_key = any(b"PRIVATE KEY" in base64.b64decode(each) for each in groups)
    return HIDDEN if is_key else match[0]


def _without_private_keys(text: str) -> str:
    """Each block's content, up to its end; where the end or the beginning is missing, the lines
    that are a key's."""
    if "PRIVATE KEY" not in text:
        return text
    pieces: List[str] = []
    done = 0
    before: Optional[Match[str]] = None
    marks = list(_PEM.finditer(text))
    for mark, after in zip(marks, [*marks[1:], None]):
        opened, before = before, mark if mark[1] == "BEGIN" else None
        if opened:
            continue  # its block is hidden
        if before is None:
            first, last = _first_row(text, done, mark.start()), mark.start()
        elif after and after[1] == "END":
            first, last = mark.end(), after.start()
        else:
            first, before = mark.end(), None
            last = _last_row(text, first, after.start() if after else len(text))
        if before or mark[1] == "BEGIN" or first < last:
            pieces += [text[done:first], HIDDEN]
            done = last
    return "".join([*pieces, text[done:]])


def _last_row(text: str, first: int, most: int) -> int:
    """Where the lines of a key end that begin at ``first``."""
    if text.startswith(HIDDEN, first):
        return first + len(HIDDEN)
    while line := _PEM_LINE.match(text, first, most):
        first = line.end()
    return first


def _first_row(text: str, least: int, last: int) -> int:
    """Where the lines of a key begin, the last of which ends before the line at ``last``."""
    first = text.rfind("\n", least, last) + 1
    if not first or text[first:last].strip():
        return last
    while first > least:
        begin = max(least, text.rfind("\n", least, first - 1) + 1)
        if not _PEM_ROW.fullmatch(text, begin, first):
            break
        first = begin
    return first if text[first:last].strip() else last


def _without_shapes(text: str) -> str:
    lowered = text.lower()
    for marks, pattern in _SHAPES:
        # The search for a mark is far faster than the pattern, and most texts have none.
        if any(mark in lowered for mark in marks):
            text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    if "auth" in lowered:
        text = _AUTH.sub(_hidden_pair, text)
    if any(mark in text for mark in _ENCODED_BEGIN):
        text = _ENCODED_PEM.sub(_hidden_pem, text)
    return text


def _places(text: str) -> List[int]:
    """Where a name of a secret may have its mark."""
    lowered = text.lower()
    if len(lowered) != len(text):
        # The one letter whose small form has two characters.
        lowered = text.replace("\u0130", "i").lower()
    positions: List[int] = []
    for mark, name in _NAME_MARKS:
        if mark in lowered:
            positions += [match.start() for match in name.finditer(lowered)]
    return sorted(positions)


def _without_named(text: str) -> str:
    """The text without values that are assigned to a secret's name, or follow such an option."""
    pieces: List[str] = []
    done = at = 0
    for position in _places(text):
        begin = max(at, position - _BEFORE_MARK)
        named = _NAMED.search(text, begin, position + _FROM_MARK) if position >= at else None
        if named is None:
            continue
        at = _end_of_word(text, named.end())
        least = max(0, named.start() - _LOOK_BACK)
        value = _ASSIGNED.match(text, at)
        if value is None and text[at : at + 1] not in _BEFORE_VALUE:
            continue
        first = _begin_of_name(text, least, named.start())
        name = text[first:at]
        value = value or _unassigned(text, first, at)
        if value is None or value.start(1) < done:
            continue
        at = max(at, value.end())
        if _is_secret(name, value[1]):
            pieces += [text[done : value.start(1)], HIDDEN]
            done = value.end(1)
    return "".join([*pieces, text[done:]])


def _unassigned(text: str, first: int, at: int) -> Optional[Match[str]]:
    """The value of the name between two places of a text, without a sign between them."""
    if _OPTION.match(text, first):
        return _ARGUMENT.match(text, at)
    least = max(0, first - _LOOK_BACK)
    if _SETS.search(text, least, first):
        return _SET_TO.match(text, at)
    if _NAMES_ONE.search(text, least, first):
        least = max(0, first - _LOOK_BACK_FOR_VALUE)
        return _VALUE_AFTER.match(text, at) or _VALUE_BEFORE.search(text, least, first)
    return None


def _begin_of_name(text: str, least: int, at: int) -> int:
    """Start of the word that goes on at ``at``, with the word that tells a rate from a token."""
    begin = at - _end_of_word(text[least:at][::-1], 0)
    if begin > least and text[begin - 1] in "; ":
        before = _BEFORE_WORD.search(text, max(least, begin - _BEFORE_MARK), begin)
        return before.start() if before else begin
    return begin


def _end_of_word(text: str, at: int) -> int:
    match = _WORD.match(text, at)
    return match.end() if match else at
