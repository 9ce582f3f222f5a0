#!/usr/bin/python3
"""Print the limits that a new login session really has, as JSON. Runs as root and changes nothing.

Takes one argument, a JSON object: the wanted limits, by name a number or "unlimited".
A limit is wrong when a PAM session of an unprivileged user has another one although the kernel would let root give
the wanted one: a container without CAP_SYS_RESOURCE may not raise a limit, whatever a file says.
"""

import json
import os
import resource
import subprocess
import sys

SESSION_USER = "nobody"
SESSION_TIMEOUT_SECONDS = 30
# Runs inside the session: what getrlimit says there is what a training gets.
ASK = (
    "import json, resource, sys; "
    "print(json.dumps({n: resource.getrlimit(getattr(resource, 'RLIMIT_' + n.upper())) for n in sys.argv[1:]}))"
)
# limits.conf(5) counts these in KiB, getrlimit in bytes.
IN_KIB = {"as", "core", "data", "fsize", "memlock", "rss", "stack"}


def main():
    """Print the evidence."""
    limits = {name: as_rlimit(name, value) for name, value in json.loads(sys.argv[1]).items()}
    session = session_limits(sorted(limits))
    evidence = {
        "session": {name: session[name][0] for name in limits},
        "wrong": [name for name, value in limits.items() if session[name][0] != value and may_have(name, value)],
        "not_permitted": [name for name, value in limits.items() if not may_have(name, value)],
    }
    sys.stdout.write(json.dumps(evidence) + "\n")


def as_rlimit(name, value):
    """Return a value of limits.conf as getrlimit counts it."""
    if str(value) == "unlimited":
        return resource.RLIM_INFINITY
    return int(value) * (1024 if name in IN_KIB else 1)


def session_limits(names):
    """Return the limits inside a new PAM session."""
    argv = ["runuser", "--user", SESSION_USER, "--", sys.executable, "-I", "-c", ASK, *names]
    answer = subprocess.run(
        argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=SESSION_TIMEOUT_SECONDS, check=True
    )
    return json.loads(answer.stdout.decode())


def may_have(name, value):
    """Return whether root may set the limit, by trying it in a process that ends at once."""
    limit = getattr(resource, "RLIMIT_" + name.upper())
    child = os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    try:
        resource.setrlimit(limit, (value, value))
    except (OSError, ValueError):
        os._exit(1)
    os._exit(0)


if __name__ == "__main__":
    main()
