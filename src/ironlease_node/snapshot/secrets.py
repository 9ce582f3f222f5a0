"""Which files of /etc are left out of the seller's state, because they are secrets or look like one.

Left out means that rollback cannot restore them; none of our roles writes to such a file.
"""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

# Paths below /etc. A folder's pattern covers everything in it.
SECRET_PATHS = (
    "*.gpg-key",
    "*.jks",
    "*.key",
    "*.keytab",
    "*.p12",
    "*.pfx",
    "*.psk",
    "*/auth.json",
    "*credentials*",
    "*password*",
    "*secret*",
    "*token*",
    "apt/auth.conf",
    "apt/auth.conf.d/*",
    "docker/config.json",
    "docker/key.json",
    "gshadow*",
    "ipsec.d/private/*",
    "ironlease/*",
    "kubernetes/*",
    "letsencrypt/*",
    "mysql/debian.cnf",
    "NetworkManager/system-connections/*",
    "openvpn/*",
    "ppp/*",
    "rancher/*",
    "security/opasswd*",
    "shadow*",
    "ssh/ssh_host_*_key",
    "ssl/private/*",
    "sssd/*",
    "wireguard/*",
    "wpa_supplicant/*",
)

_PRIVATE_KEY = re.compile(rb"-----BEGIN [A-Z0-9 ]*PRIVATE KEY")
_URL_CREDENTIALS = re.compile(rb"[a-z][a-z0-9+.-]*://[^/\s@:\"']+:[^/\s@\"']+@", re.IGNORECASE)
# `api_token = abcd1234`, anywhere in a line.
_SECRET_SETTING = re.compile(
    rb"(passwd|password|passphrase|secret|token|api[_-]?key|access[_-]?key)[\w.-]{0,40}[\"']?"
    rb"[ \t]*[:=][ \t]*[\"']?[^\s\"'#]{4,}",
    re.IGNORECASE,
)
_COMMENT = re.compile(rb"^[ \t]*[#;].*$", re.MULTILINE)
# Their settings carry such a word and no secret: `passwd: files systemd`.
_HARMLESS_SETTINGS = {"nsswitch.conf"}
# PAM's rules have such names: `common-password`. What is in them is still looked at.
_HARMLESS_FOLDERS = ("pam.d/",)


def reason_by_path(path: str) -> str | None:
    """Return why a file of this path (relative to /etc) is left out unread, or None."""
    lower = path.lower()
    if lower.startswith(_HARMLESS_FOLDERS):
        return None
    for pattern in SECRET_PATHS:
        if fnmatchcase(lower, pattern.lower()):
            return f"its path matches {pattern}"
    return None


def reason_by_content(path: str, data: bytes) -> str | None:
    """Return why a file with this content is left out, or None."""
    if _PRIVATE_KEY.search(data):
        return "it holds a private key"
    if _URL_CREDENTIALS.search(data):
        return "a URL in it holds a password"
    if path not in _HARMLESS_SETTINGS and _SECRET_SETTING.search(_COMMENT.sub(b"", data)):
        return "a setting in it sounds like a secret"
    return None
