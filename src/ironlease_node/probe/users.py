"""Who the agent is logged in as, and whether that user can become root."""

from __future__ import annotations

import grp
import os
import pwd
from typing import Any

from ironlease_node.probe.sources import Sources
from ironlease_node.tools import NOT_FOUND, OK, TIMED_OUT, Command, Outcome

# -n: sudo must never ask; it would wait for an answer that nobody gives.
SUDO = Command(["sudo", "-n", "true"])


def read_user(sources: Sources) -> dict[str, Any]:
    """Return the login user."""
    uid = sources.host.effective_uid
    try:
        account = pwd.getpwuid(uid)
    except KeyError:
        sources.problems.add("user.name", f"no account has the number {uid}")
        account = None
    sudo, reason = ("root", None) if sources.host.is_root else judge_sudo(sources.outcomes["sudo"])
    if reason is not None:
        sources.problems.add("user.sudo", reason)
    return {
        "name": account.pw_name if account else None,
        "uid": uid,
        "groups": sorted(_group_name(number) for number in os.getgroups()),
        "home": account.pw_dir if account else None,
        "shell": account.pw_shell if account else None,
        "sudo": sudo,
    }


def judge_sudo(outcome: Outcome) -> tuple[str, str | None]:
    """Return the word for what `sudo -n true` said, and a reason when the word is `unknown`."""
    if outcome.status == OK:
        return "passwordless", None
    if outcome.status == NOT_FOUND:
        return "none", None
    words = outcome.stderr.lower()
    if outcome.status != TIMED_OUT:
        if "password is required" in words or "a terminal is required" in words:
            return "password", None
        if "not in the sudoers" in words or "may not run sudo" in words or "not allowed to" in words:
            return "none", None
    return "unknown", outcome.reason


def _group_name(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
