"""The tasks of `invoke`: arguments in, one call to an operation, its result out.

Operations are imported when their task runs, so that the list of tasks and the shell's completion stay quick.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from ironlease.cli.declaration import HOSTS, Flag, Group, Hosts, OneHost, StackName, namespace_of, task
from ironlease.ops.context import Context
from ironlease.ops.result import Result

Fingerprint = Annotated[
    str | None, Flag("the host key's fingerprint, as the seller's console shows it", value="SHA256:...")
]
PasswordFile = Annotated[
    str | None, Flag("a file with the login's password, used once to install our key", value="FILE", completes="files")
]
DisablePasswordLogin = Annotated[bool, Flag("let nobody log in by password any more, once our key works")]
Kinds = Annotated[
    Sequence[str],
    Flag(
        "only these kinds of test: unit, contract, roles, e2e",
        value="KIND[,KIND...]",
        choices=("unit", "contract", "roles", "e2e"),
    ),
]
NoRoute = Annotated[bool, Flag("without a way out of the lab's own network")]


@task(example="invoke init --name fleet --host node1=203.0.113.11 --stack torch-cu128")
def init(
    context: Context,
    *,
    name: Annotated[str | None, Flag("the new inventory's name", value="NAME")] = None,
    host: Annotated[Sequence[str], Flag("the hosts and their addresses", value="NAME=ADDRESS[,NAME=ADDRESS...]")] = (),
    user: Annotated[str | None, Flag("the login that the seller gave (root)", value="USER")] = None,
    port: Annotated[int | None, Flag("the SSH port (22)", value="PORT")] = None,
    stack: Annotated[str | None, Flag("the stack for all of them", value="STACK", completes="stacks")] = None,
    lease_ends: Annotated[str | None, Flag("the end of the lease, with its offset", value="TIME")] = None,
) -> Result:
    """Write an inventory for your hosts: asks a few questions, or takes flags.

    Makes inventories/NAME/hosts.yml, with a comment on everything that can be set, and checks it. Nothing is ever
    overwritten; edit the file from then on.
    """
    from ironlease.ops import init as operation

    return operation.run(
        context,
        name=name,
        host=list(host),
        user=user,
        port=port,
        stack=stack,
        lease_ends=lease_ends,
    )


@task(example="invoke provision --host node1,node2", needs=[HOSTS])
def provision(
    context: Context,
    *,
    host: Hosts = (),
    group: Group = None,
    stack: StackName = None,
    check: Annotated[bool, Flag("show the plan and what would change; change nothing")] = False,
    yes: Annotated[bool, Flag("agree to the plan without being asked; never to a host key")] = False,
    full: Annotated[bool, Flag("run all roles and the proof, also where all is as it should be")] = False,
    fingerprint: Fingerprint = None,
    password_file: PasswordFile = None,
    disable_password_login: DisablePasswordLogin = False,
) -> Result:
    """Turn bare hosts into proved training nodes; repeated, it changes nothing.

    First contact, a look at the hardware, a copy of the seller's state, the plan, the changes, and a small training
    that proves the result. What was interrupted goes on with the same command. A lab host that is down is booted.
    """
    from ironlease.ops import provision as operation

    return operation.run(
        context,
        host=list(host),
        group=group,
        stack=stack,
        check=check,
        yes=yes,
        full=full,
        fingerprint=fingerprint,
        password_file=password_file,
        disable_password_login=disable_password_login,
    )


@task(example="invoke enrol --host node1 --fingerprint SHA256:...", needs=[HOSTS])
def enrol(
    context: Context,
    *,
    host: Hosts = (),
    group: Group = None,
    fingerprint: Fingerprint = None,
    password_file: PasswordFile = None,
    disable_password_login: DisablePasswordLogin = False,
) -> Result:
    """Make first contact: pin the host key, install our key, find out about sudo.

    The host key is shown and confirmed on a terminal; without one, --fingerprint must be given. A password is asked
    for, or read from a file, and used once. Part of provision, too.
    """
    from ironlease.ops import enrol as operation

    return operation.run(
        context,
        host=list(host),
        group=group,
        fingerprint=fingerprint,
        password_file=password_file,
        disable_password_login=disable_password_login,
    )


@task(example="invoke probe --host node1 --json", needs=[HOSTS])
def probe(
    context: Context,
    *,
    host: Hosts = (),
    group: Group = None,
    fingerprint: Fingerprint = None,
    password_file: PasswordFile = None,
) -> Result:
    """Look at a host's hardware and software; read-only, before anything is installed.

    A host that was never enrolled is enrolled first.
    """
    from ironlease.ops import probe as operation

    return operation.run(context, host=list(host), group=group, fingerprint=fingerprint, password_file=password_file)


@task(example="invoke plan --host node1", needs=[HOSTS])
def plan(context: Context, *, host: Hosts = (), group: Group = None, stack: StackName = None) -> Result:
    """Show what provision would decide and change, and how long it would take."""
    from ironlease.ops import plan as operation

    return operation.run(context, host=list(host), group=group, stack=stack)


@task(example="invoke explain --host node1 --key pytorch.packages", needs=[HOSTS])
def explain(
    context: Context,
    *,
    host: OneHost,
    key: Annotated[str | None, Flag("only this value of the plan", value="ROLE.NAME")] = None,
) -> Result:
    """Say why each value of a host's plan is what it is."""
    from ironlease.ops import explain as operation

    return operation.run(context, host=host, key=key)


@task(example="invoke status", needs=["ssh"])
def status(context: Context, *, host: Hosts = (), group: Group = None) -> Result:
    """Show all hosts in one table: reachable, stack, last provisioning, lease left."""
    from ironlease.ops import status as operation

    return operation.run(context, host=list(host), group=group)


@task(example="invoke stacks")
def stacks(context: Context) -> Result:
    """List the tested sets of versions that a host can be given."""
    from ironlease.ops import stacks as operation

    return operation.run(context)


@task(example="invoke show --run 20261130T120000Z-provision")
def show(
    context: Context,
    *,
    run: Annotated[str | None, Flag("the run's folder under runs/ (the latest)", value="RUN", completes="runs")] = None,
) -> Result:
    """Show the result of an earlier run again, without touching a host.

    The exit code is that of the run that is shown.
    """
    from ironlease.ops import show as operation

    return operation.run(context, run=run)


@task(name="lab.up", example="invoke lab.up --host lab1,lab2", needs=["lab"])
def lab_up(context: Context, *, host: Hosts = (), no_route: NoRoute = False) -> Result:
    """Boot lab hosts: real throw-away machines on this computer.

    All of inventories/lab without --host. The first time builds the base that all of them share.
    """
    from ironlease.ops import lab as operation

    return operation.up(context, host=list(host), route_out=not no_route)


@task(name="lab.down", example="invoke lab.down", needs=["lab"])
def lab_down(
    context: Context,
    *,
    host: Hosts = (),
    purge: Annotated[bool, Flag("remove the cached base, too, when no other lab uses it")] = False,
) -> Result:
    """Remove lab hosts and everything that they left on this computer.

    All of them without --host, in whatever state an interrupted command left the lab.
    """
    from ironlease.ops import lab as operation

    return operation.down(context, host=list(host), purge=purge)


@task(name="lab.list", example="invoke lab.list")
def lab_list(context: Context) -> Result:
    """List the lab hosts: running, off, or not there."""
    from ironlease.ops import lab as operation

    return operation.list_hosts(context)


@task(name="lab.ssh", example="invoke lab.ssh --host lab1 --command 'systemctl --failed'", needs=["lab"])
def lab_ssh(
    context: Context,
    *,
    host: OneHost,
    command: Annotated[str | None, Flag("run this instead of opening a shell", value="COMMAND")] = None,
) -> Result:
    """Open a shell on a lab host, or run a command there.

    A command's exit code is told in words and under --json; anything but 0 makes ours 1.
    """
    from ironlease.ops import lab as operation

    return operation.ssh(context, host=host, command=command)


@task(name="lab.reset", example="invoke lab.reset --host lab1", needs=["lab"])
def lab_reset(context: Context, *, host: Hosts, no_route: NoRoute = False) -> Result:
    """Throw away all that was written on lab hosts and boot them fresh."""
    from ironlease.ops import lab as operation

    return operation.reset(context, host=list(host), route_out=not no_route)


@task(name="test", example="invoke test --only unit,contract")
def run_tests(
    context: Context,
    *,
    only: Kinds = (),
    fast: Annotated[bool, Flag("leave out what boots lab hosts")] = False,
) -> Result:
    """Run ironlease's own tests; those of roles and from end to end boot lab hosts."""
    from ironlease.ops import test as operation

    return operation.run(context, only=list(only), fast=fast)


@task(example="invoke lint", needs=["lint"])
def lint(context: Context) -> Result:
    """Check the form of everything: Python, types, YAML, roles, shell, lock files."""
    from ironlease.ops import lint as operation

    return operation.run(context)


@task(name="bench.provision", example="invoke bench.provision --json", needs=["lab"])
def bench_provision(context: Context) -> Result:
    """Measure provisioning on lab hosts against a script and plain Ansible."""
    from ironlease.ops import bench_provision as operation

    return operation.run(context)


# The headings of the help page, and the order below them.
GROUPS = {
    "Get a machine ready": [init, provision],
    "One step of it": [enrol, probe, plan],
    "Look": [status, explain, stacks, show],
    "Lab: throw-away machines on this computer": [lab_up, lab_down, lab_list, lab_ssh, lab_reset],
    "Work on ironlease": [run_tests, lint, bench_provision],
}
namespace = namespace_of(GROUPS)
