"""What looks like a credential, taken out of what is written down.

Two signs tell a credential: its own shape (a JSON web token, the signature of a shared access
signature, a PEM block), or the name that it is given to (``password=``, ``AccountKey=``,
``--api-key``). The time is linear in the length of any text: no pattern begins inside a word that
it has read already, and none reads on without an end to what it may pass.

The shapes are those that their makers document: RFC 7519 (JSON web token), RFC 7468 (PEM), RFC 9110
(Authorization), RFC 3986 (a password in a URL), and Azure's pages on connection strings, shared
access signatures and shared keys.
"""

from __future__ import annotations

import re
from typing import Any, List

HIDDEN = "***"

# "tokens" and "tokenizer" are no secrets: language models count the one and load the other. Nor is
# the name or the id of a key, which Azure and others print beside it.
_NAME = (
    r"(?:token(?!s|iz)|secret|passw|passphrase|api[ _-]?key|credential|connection[_-]?string"
    r"|sas[_-]?url|(?:account|access|storage|primary|secondary|master|subscription|functions)"
    r"[ _-]?key(?![ _-]?(?:name|id)|s)|sharedaccesssignature|(?<=[;_])pwd(?![\w-]))"
)
_NAME_MARKS = (
    *("token", "secret", "passw", "passphrase", "key", "credential", "connection", "sas"),
    *("sharedaccesssignature", "pwd"),
)
_SECRET_NAME = re.compile(_NAME + r"|\A(?:(?:proxy[_-])?authorization|sig)\Z", re.IGNORECASE)
# A switch is no token, and neither is a count or a rate whose name goes on after that word
# ("total_token_throughput": 311.7); either may be a password.
_SWITCH = re.compile(r"(?:true|false|null|none)[)\]}]*", re.IGNORECASE)
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?[)\]}]*", re.IGNORECASE)
_ENDS_AS_TOKEN = re.compile(
    r"(?<!per[_ -])(?<!per[_ -]output[_ -])(?<!inter[_ -])token\Z", re.IGNORECASE
)

# A name in a text goes on to the end of its word, so that no word is read twice.
_NAMED = re.compile(_NAME + r"[\w-]*", re.IGNORECASE)
_ASSIGNED = re.compile(
    r"\\*[\"']?\s*(?:=>|:=|={1,3}(?!>)|:(?!:)|%3[Dd])\s*"
    r"(?!\*\*\*)("
    r"\\+[\"'][^\"'\\\n]*\\*[\"']?"
    r"|\"[^\"\\\n]*(?:\\.[^\"\\\n]*)*\"?"
    r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'?"
    r"|[^\s,;&\"']+)"
)
_ARGUMENT = re.compile(r"[ \t]+(?![-*])(\"[^\"\n]*\"?|'[^'\n]*'?|[^\s\"']+)")
_OPTION = re.compile(r"--?[A-Za-z]")
# What stands before the telling part of a name; it is looked for no farther away.
_LOOK_BACK = 64
_BEGIN = re.compile(r"(?:\b(?:per|per output|inter) |;)?[\w-]*\Z")

_BASE64 = r"[A-Za-z0-9+/]"
# What a text must hold in lower case for the pattern to be tried, since the search for a fixed word
# is many times faster; and what of the match is kept, in the pattern's group.
_SHAPES = tuple(
    (marks, re.compile(pattern, flags))
    for marks, pattern, flags in (
        # A URL's password, up to the last @ before the path.
        (("://",), r"(?<=://)([^\s/?#:@\"'<>\\]*:)[^\s/?#\"'<>\\]+(?=@)", 0),
        # A shared access signature's sig, also encoded, once or twice, or within JSON.
        (
            ("sig",),
            (
                r"((?:(?<![a-z0-9])|(?<=%26)|(?<=%3f)|(?<=%2526)|(?<=%253f)|(?<=u0026))"
                r"sig(?:=|%3d|%253d|\\u003d))(?:(?!%(?:25)?26)[a-z0-9%+/=_-]){12,}"
            ),
            re.IGNORECASE,
        ),
        (
            ("authorization",),
            (
                r"(authorization\\*[\"']?\s*[=:]\s*(?:\\*[\"'])?"
                r"(?:basic|bearer|token|apikey|negotiate|sharedkey(?:lite)?)\s+)[^\s\"'\\,;*]+"
            ),
            re.IGNORECASE,
        ),
        # Elsewhere, what follows may be a word of English.
        (
            ("bearer",),
            r"(\bbearer )(?:(?=[a-z._~+/=-]*\d)[a-z0-9._~+/=-]{12,}|[a-z0-9._~+/=-]{24,})",
            re.IGNORECASE,
        ),
        # A JSON web token: header, payload and signature; an encrypted one has five parts.
        (
            ("eyj",),
            (
                r"(?:(?<![A-Za-z0-9_-])|(?<=%20)|(?<=%22)|(?<=%3D))()"
                r"eyJ[A-Za-z0-9_-]{10,}(?:\.[A-Za-z0-9_-]*){2,4}"
            ),
            0,
        ),
        (("hf_",), r"\b()hf_[A-Za-z0-9]{16,}", 0),
        (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"\b()gh[pousr]_[A-Za-z0-9]{20,}", 0),
        (("github_pat_",), r"\b()github_pat_\w{20,}", 0),
        (("nvapi-",), r"\b()nvapi-[\w-]{20,}", 0),
        (("sk-",), r"(?<![\w-])()sk-[\w-]{32,}", 0),
        # Keys of 64 bytes: of a storage account, of Cosmos DB. A sha512 is as long, and says so.
        (
            ("==",),
            rf"(?<![A-Za-z0-9+/=])(?<!sha512[-:=])(){_BASE64}{{86}}==(?!=)",
            re.IGNORECASE,
        ),
        # Entra's client secrets and Azure's newer keys, by the part that is always the same.
        (("q~",), r"(?<![\w.~-])()[\w.~-]{3}\dQ~[\w.~-]{31,34}(?![\w.~-])", 0),
        (("jqqj9",), rf"(?<![A-Za-z0-9])()[A-Za-z0-9]{{52}}JQQJ9{_BASE64}{{18,}}={{0,2}}", 0),
    )
)

_PEM_BEGIN = re.compile(r"-{4,5} ?BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-{4,5}")
_PEM_END = re.compile(r"-{4,5} ?END [A-Z0-9 ]{0,40}PRIVATE KEY[A-Z ]{0,10}-{4,5}")
# A line of a block whose end is missing.
_PEM_LINE = re.compile(
    rf"(?:\s|\\[rn])*(?:{_BASE64}{{40,}}=*|{_BASE64}+=*\s*\Z"
    r"|(?:Proc-Type|DEK-Info|Comment|Version): [^\n]*)"
)


def redact(value: Any, name: str = "") -> Any:
    """The same structure with what looks like a credential replaced by ``***``.

    Works on strings, lists and mappings; a mapping's entry whose name says that it is a secret
    loses its whole value.
    """
    if isinstance(value, dict):
        return {key: redact(item, str(key)) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [redact(item, name) for item in value]
        # `--token X`: the name and the secret are two arguments.
        for index in range(1, len(items)):
            option = value[index - 1]
            is_option = isinstance(option, str) and option.startswith("-") and "=" not in option
            if is_option and _is_secret(option, value[index]):
                items[index] = HIDDEN
        return items
    if not isinstance(value, str):
        return value
    if _is_secret(name, value):
        return HIDDEN
    return _without_named(_without_shapes(_without_private_keys(value)))


def _is_secret(name: str, value: Any) -> bool:
    """Whether ``name`` says that it is a secret, and ``value`` can be one."""
    words = {word.lower() for word in _SECRET_NAME.findall(name)}
    if not words <= {"token", "authorization"}:
        return True
    text = str(value).strip("\\\"'")
    if not words or _SWITCH.fullmatch(text):
        return False
    return bool(_ENDS_AS_TOKEN.search(name)) or not _PLAIN.fullmatch(text)


def _without_private_keys(text: str) -> str:
    """Each block's content, up to its end; where the end is missing, the lines that are a key's."""
    if "PRIVATE KEY" not in text:
        return text
    kept: List[str] = []
    done = 0
    begins = list(_PEM_BEGIN.finditer(text))
    ends = _PEM_END.finditer(text)
    end = next(ends, None)
    for begin, after in zip(begins, [*(one.start() for one in begins[1:]), len(text)]):
        while end and end.start() < begin.end():
            end = next(ends, None)
        until = begin.end()
        if end and end.start() <= after:
            until = end.start()
        else:
            while line := _PEM_LINE.match(text, until, after):
                until = line.end()
        kept += [text[done : begin.end()], HIDDEN]
        done = until
    return "".join([*kept, text[done:]])


def _without_shapes(text: str) -> str:
    lowered = text.lower()
    for marks, pattern in _SHAPES:
        # The search for a mark is far faster than the pattern, and most texts have none.
        if any(mark in lowered for mark in marks):
            text = pattern.sub(rf"\g<1>{HIDDEN}", text)
    return text


def _without_named(text: str) -> str:
    """Without what is assigned to a name that says it is a secret, or follows such an option."""
    lowered = text.lower()
    if not any(mark in lowered for mark in _NAME_MARKS):
        return text
    kept: List[str] = []
    done = at = 0
    while named := _NAMED.search(text, at):
        at = named.end()
        before = _BEGIN.search(text, max(0, named.start() - _LOOK_BACK), named.start())
        name = (before[0] if before else "") + named[0]
        value = _ASSIGNED.match(text, at)
        if value is None and _OPTION.match(name):
            value = _ARGUMENT.match(text, at)
        if value is None:
            continue
        at = value.end()
        if _is_secret(name, value[1]):
            kept += [text[done : value.start(1)], HIDDEN]
            done = at
    return "".join([*kept, text[done:]])
