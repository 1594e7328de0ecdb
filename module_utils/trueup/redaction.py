"""What looks like a credential, taken out of what is written down.

Two signs tell a credential: its own shape (a JSON web token, the signature of a shared access
signature, a PEM block), or the name that it is given to (``password=``, ``AccountKey=``,
``--api-key``). The time is linear in the length of any text: no pattern begins inside a word that
it has read already, and none reads on without an end to what it may pass.

The shapes are those that their makers document: RFC 7519 (JSON web token), RFC 7468 (PEM), RFC 9110
(Authorization), RFC 3986 (a password in a URL), Azure's pages on connection strings, shared access
signatures and shared keys; and the tokens that detect-secrets 1.5 looks for. Of its rules two are
left out, since they also find what is no credential: strings of high entropy, which checksums are,
and public addresses.
"""

from __future__ import annotations

import re
from typing import Any, List

HIDDEN = "***"

# "tokens" and "tokenizer" are no secrets: language models count the one and load the other. Nor is
# the name or the id of a key, which Azure and others print beside it.
_OF_A_KEY = (
    *("account", "access", "storage", "primary", "secondary", "master", "subscription"),
    *("functions", "auth", "service", "db", "database", "priv", "private", "client"),
)
_NAME = (
    r"(?:token(?!s|iz)|secret|passw|passphrase|(?:db|database|key)[_-]?pass(?![a-z])"
    r"|contrase[n\xf1]a|api[ _-]?key|credential|connection[_-]?string|sas[_-]?url"
    rf"|(?:{'|'.join(_OF_A_KEY)})[ _-]?key(?![ _-]?(?:name|id|file|path)|s)"
    r"|sharedaccesssignature|(?<=[;_])pwd(?![\w-]))"
)
# What each of them holds, in lower case, with what tells others apart: a search for a fixed word is
# many times faster than one for the names.
_BEFORE_KEY = "|".join(
    f"(?<={one}{gap}key)" for one in ("api", *_OF_A_KEY) for gap in ("", "[ _-]")
)
_NAME_MARKS = tuple(
    (mark, re.compile(mark + rest))
    for mark, rest in (
        *(
            ("token", "(?!s|iz)"),
            ("secret", ""),
            ("pass", r"(?:w|phrase|(?<=[bey_-]pass)(?![a-z]))"),
        ),
        *(("key", f"(?:{_BEFORE_KEY})"), ("contrase", ""), ("credential", ""), ("sas", "[_-]?url")),
        *(("connection", "[_-]?string"), ("sharedaccesssignature", ""), ("pwd", "(?<=[;_]pwd)")),
    )
)
# The longest name up to its mark, and from there on with what may not follow it.
_BEFORE_MARK, _FROM_MARK = 13, 32
_SECRET_NAME = re.compile(_NAME + r"|\A(?:(?:proxy[_-])?authorization|sig)\Z", re.IGNORECASE)
# A switch is no token, and neither is a count or a rate whose name goes on after that word
# ("total_token_throughput": 311.7); either may be a password.
_SWITCH = re.compile(r"(?:true|false|null|none)[)\]}]*", re.IGNORECASE)
_PLAIN = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?[)\]}]*", re.IGNORECASE)
_ENDS_AS_TOKEN = re.compile(
    r"(?<!per[_ -])(?<!per[_ -]output[_ -])(?<!inter[_ -])token\Z", re.IGNORECASE
)

# A name in a text goes on to the end of its word, so that no word is read twice.
_NAMED = re.compile(_NAME, re.IGNORECASE)
_WORD = re.compile(r"[\w-]*")
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
_BEFORE_WORD = re.compile(r"(?:;|\b(?:per|per output|inter) )\Z")

_BASE64 = r"[A-Za-z0-9+/]"
# What a text must hold in lower case for the pattern to be tried; and what of the match is kept, in
# the pattern's group. Where a pattern begins with fixed characters, the search for them is ten
# times faster: what must not stand before them is asked after them.
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
        # Elsewhere, what follows may be a word of English.
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
        # Of others, in the order of their names. Amazon's are the names of keys, which its own
        # tools hide.
        (
            ("a3t", "abia", "acca", "akia", "asia"),
            r"A(?:3T[A-Z0-9]|BIA|CCA|KIA|SIA)(?<!\w....)()[0-9A-Z]{16}(?!\w)",
        ),
        (("akc",), r"AKC(?<!\w...)()[A-Za-z0-9]{10,}(?!\w)"),
        (("ap",), r"AP(?<!\w..)()[0-9A-F](?=[A-Z0-9]*[a-z])(?=[A-Za-z]*\d)[A-Za-z0-9]{20,}(?!\w)"),
        ((".",), r"[MNO](?<![\w-].)()[\w-]{23,25}\.[\w-]{6}\.[\w-]{27,38}(?![\w-])"),
        (tuple(f"gh{one}_" for one in "pousr"), r"gh[pousr]_(?<!\w.{4})()[A-Za-z0-9]{20,}"),
        (("github_pat_",), r"github_pat_(?<!\w.{11})()\w{20,}"),
        (("gl",), r"gl(?<!\w..)()(?:pat|dt|ft|soat|rt|imt|ptt|agent|oas|cbt)-[\w-]{20,}"),
        (("gr1348941",), r"GR1348941(?<!\w.{9})()[\w-]{20,}"),
        (("hf_",), r"hf_(?<!\w...)()[A-Za-z0-9]{16,}"),
        (tuple(f"-us{digit}" for digit in range(1, 10)), r"(?<!\w)()[0-9a-f]{32}-us\d{1,2}(?!\w)"),
        (("npm_",), r"npm_(?<!\w.{4})()[A-Za-z0-9]{36}(?!\w)"),
        (("nvapi-",), r"nvapi-(?<!\w.{6})()[\w-]{20,}"),
        (("pypi-age",), r"pypi-AgE(?<!\w.{8})()[\w-]{70,}"),
        (("sg.",), r"SG\.(?<!\w...)()[\w-]{22}\.[\w-]{43}(?![\w-])"),
        (("sk-",), r"sk-(?<![\w-]...)()[\w-]{32,}"),
        (("k_live_", "k_test_"), r"[rs]k_(?:live|test)_(?<!\w.{8})()[0-9A-Za-z]{16,}"),
        (("xox",), r"xox(?<!\w...)()[a-z]-[\w-]{10,}"),
        (("hooks.slack.com",), r"(hooks\.slack\.com/services/)T\w+/B\w+/\w+"),
        (("api.softlayer.com",), r"(api\.softlayer\.com/soap/v3(?:\.1)?/)[A-Za-z0-9]{64}"),
        (("sq0",), r"sq0(?<!\w...)()[a-z]{3}-[\w-]{22,}"),
        # The digits before it are the bot's name.
        ((":a",), r"(:(?<=\d{8}:))A[\w-]{34}(?![\w-])"),
        (("ac",), r"AC(?<!\w..)()[0-9a-f]{32}(?!\w)"),
        (("sk",), r"SK(?<!\w..)()[0-9a-f]{32}(?!\w)"),
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


def _places(text: str) -> List[int]:
    """Where a name of a secret may have its mark."""
    lowered = text.lower()
    if len(lowered) != len(text):
        # The one letter whose small form has two characters.
        lowered = text.replace("\u0130", "i").lower()
    found: List[int] = []
    for mark, name in _NAME_MARKS:
        if mark in lowered:
            found += [one.start() for one in name.finditer(lowered)]
    return sorted(found)


def _without_named(text: str) -> str:
    """Without what is assigned to a name that says it is a secret, or follows such an option."""
    kept: List[str] = []
    done = at = 0
    for place in _places(text):
        begin = max(at, place - _BEFORE_MARK)
        named = _NAMED.search(text, begin, place + _FROM_MARK) if place >= at else None
        if named is None:
            continue
        at = _end_of_word(text, named.end())
        value = _ASSIGNED.match(text, at)
        least = max(0, named.start() - _LOOK_BACK)
        # Without a sign between them, only a switch's value is one.
        is_switch = text.startswith((" ", "\t"), at) and text.find("-", least, at) >= 0
        if value is None and not is_switch:
            continue
        name = text[_begin_of_name(text, least, named.start()) : at]
        if value is None and _OPTION.match(name):
            value = _ARGUMENT.match(text, at)
        if value is None:
            continue
        at = value.end()
        if _is_secret(name, value[1]):
            kept += [text[done : value.start(1)], HIDDEN]
            done = at
    return "".join([*kept, text[done:]])


def _begin_of_name(text: str, least: int, at: int) -> int:
    """Where the word begins that goes on at ``at``, with what tells a rate from a token."""
    begin = at - _end_of_word(text[least:at][::-1], 0)
    if begin > least and text[begin - 1] in "; ":
        before = _BEFORE_WORD.search(text, max(least, begin - _BEFORE_MARK), begin)
        return before.start() if before else begin
    return begin


def _end_of_word(text: str, at: int) -> int:
    found = _WORD.match(text, at)
    return found.end() if found else at
