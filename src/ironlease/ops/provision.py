"""``invoke provision``: from whatever the seller handed over to a host that is proved to train."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ironlease import files, footprint, provision_record, ssh
from ironlease import stack as stacks
from ironlease.converge import MAX_RESUMES, RECONNECT_SECONDS, Outcome
from ironlease.enrol import Enrolment
from ironlease.errors import ExitCode, IronleaseError, UnfinishedError, UnreachableError, UsageError
from ironlease.inventory import Host
from ironlease.ops import fleet, hosts, provision_report, seller_state
from ironlease.ops.context import Context
from ironlease.ops.enrol import FirstContact, enrol_hosts
from ironlease.ops.examine import Examined, Examiner, is_as_wanted, observe, refuse_blocked
from ironlease.ops.passwords import Passwords
from ironlease.ops.play import Play
from ironlease.ops.prove import prove
from ironlease.ops.provision_report import HostReport
from ironlease.ops.result import Result
from ironlease.ops.session import target_of

T = TypeVar("T")


@dataclass(frozen=True)
class Options:
    """What the user asked for."""

    contact: FirstContact
    passwords: Passwords
    stack: str | None
    check: bool
    yes: bool
    full: bool


def run(
    context: Context,
    *,
    host: list[str],
    group: str | None = None,
    stack: str | None = None,
    check: bool = False,
    yes: bool = False,
    full: bool = False,
    fingerprint: str | None = None,
    password_file: str | None = None,
    disable_password_login: bool = False,
) -> Result:
    """Provision hosts: enrol, probe, plan, save the seller's state, converge, verify."""
    contact = FirstContact(fingerprint, disable_password_login)
    passwords = Passwords(context.console, password_file)
    if stack is not None:
        # A name that is wrong for all hosts is refused before one of them is touched.
        stacks.load(stack)
    chosen = hosts.select(context, host, group)
    return _Provisioning(context, chosen, Options(contact, passwords, stack, check, yes, full)).run()


class _Provisioning:
    """One ``invoke provision`` over its hosts. A host that fails is left out of what follows; the others go on."""

    def __init__(self, context: Context, chosen: hosts.Chosen, options: Options) -> None:
        self._context = context
        self._chosen = chosen
        self._options = options
        self._examiner = Examiner(context, chosen, stack=options.stack, passwords=options.passwords)
        self._reports = {host.name: HostReport(host.name) for host in chosen.hosts}
        self._open: dict[str, Examined] = {}
        self._cancelled = threading.Event()
        self._play = Play(
            context, chosen, passwords=options.passwords, come_back=self._come_back, cancelled=self._cancelled
        )

    def run(self) -> Result:
        """Do it all, and report on every host."""
        try:
            self._require_stacks()
            self._enrol()
            self._examine()
            if self._options.check:
                self._check()
            else:
                self._converge(self._not_as_wanted())
                self._prove()
                self._keep_records()
        finally:
            # Whoever still waits for a host in another thread stops waiting.
            self._cancelled.set()
            for name, examined in self._open.items():
                self._reports[name].reboots = examined.reboots
                examined.close()
        return provision_report.result(self._context, list(self._reports.values()), check=self._options.check)

    def _healthy(self) -> list[Examined]:
        """Return the hosts without an error, in the order of the inventory."""
        return [self._open[name] for name, report in self._reports.items() if name in self._open and not report.errors]

    def _fail(self, errors: list[IronleaseError]) -> None:
        for error in errors:
            self._reports[error.host or ""].errors.append(error)
            self._reports[error.host or ""].finish()

    def _each(self, work: Callable[[Examined], T], items: list[Examined]) -> dict[str, T]:
        def work_to_the_end(examined: Examined) -> T:
            """Do the work; when the connection is lost in the middle, wait for the host and do it again."""
            for _ in range(MAX_RESUMES):
                try:
                    return work(examined)
                except ssh.ConnectionLostError as error:
                    if isinstance(error, ssh.AnswerLateError) or not self._reopen(examined):
                        raise
            return work(examined)

        answers, errors = fleet.each(items, lambda examined: examined.host.name, work_to_the_end)
        self._fail(errors)
        return answers

    def _willing(self) -> list[Host]:
        return [host for host in self._chosen.hosts if not self._reports[host.name].errors]

    def _require_stacks(self) -> None:
        """Refuse hosts whose stack is not there before anybody speaks to them."""
        _, errors = fleet.each(self._chosen.hosts, lambda host: host.name, self._examiner.stack_of)
        self._fail(errors)

    def _enrol(self) -> None:
        strangers = [host for host in self._willing() if not self._is_enrolled(host)]
        if self._options.check:
            # A key that we made ourselves may be pinned by a check: it changes nothing on the host.
            self._fail([_not_enrolled(host) for host in strangers if self._chosen.vouched_key(host.name) is None])
            strangers = [host for host in strangers if self._chosen.vouched_key(host.name) is not None]
        if strangers:
            chosen = hosts.Chosen(self._chosen.inventory, strangers, self._chosen.lab)
            _, errors = enrol_hosts(self._context, chosen, self._options.contact, self._options.passwords)
            self._fail(errors)

    def _is_enrolled(self, host: Host) -> bool:
        target = target_of(self._context.project, self._chosen.inventory, host)
        pinned = ssh.pinned_keys(self._context.project.known_hosts, target)
        vouched = self._chosen.vouched_key(host.name)
        asked_again = self._options.contact.fingerprint is not None or self._options.contact.disable_password_login
        # A pinned key alone may be that of an enrolment that stopped at a wrong password.
        record = Enrolment.load(self._context.project, host.name)
        is_recorded = vouched is not None or (record is not None and record.is_of(target, pinned))
        return bool(pinned) and (vouched is None or vouched in pinned) and is_recorded and not asked_again

    def _examine(self) -> None:
        """Log in, take the lock, probe, resolve the plan; refuse what the plan forbids."""
        ready = self._willing()
        self._ask_for_sudo(ready)

        def examine(host: Host) -> None:
            examined = self._open[host.name] = self._examiner.examine(host, lock=not self._options.check)
            self._context.run_folder.write_json(f"hosts/{host.name}/probe.json", examined.probe)
            self._context.run_folder.write_json(f"hosts/{host.name}/plan.json", examined.plan.to_json())
            refuse_blocked(examined)

        _, errors = fleet.each(ready, lambda host: host.name, examine)
        self._fail(errors)

    def _ask_for_sudo(self, ready: list[Host]) -> None:
        """Ask for sudo's password where enrolment found that it needs one; a question, so not from several threads."""
        for host in ready:
            target = target_of(self._context.project, self._chosen.inventory, host)
            record = Enrolment.load(self._context.project, host.name)
            if record is not None and record.user == target.user and record.sudo == "password":
                self._options.passwords.for_sudo(target)

    def _not_as_wanted(self) -> list[Examined]:
        """Return the hosts whose roles have to run: all that were not observed to be as wanted, thing by thing."""
        if self._options.full:
            return self._healthy()

        def look(examined: Examined) -> bool:
            observation = observe(self._context, examined)
            if observation is not None:
                self._context.run_folder.write_json(f"hosts/{examined.host.name}/observation.json", observation)
                self._reports[examined.host.name].differences = observation["differences"]
            return is_as_wanted(observation)

        settled = self._each(look, self._healthy())
        for name, as_wanted in settled.items():
            self._reports[name].observed = as_wanted
        return [examined for examined in self._healthy() if not settled[examined.host.name]]

    def _converge(self, pending: list[Examined]) -> None:
        if not pending:
            return
        provision_report.show_plans(self._context, pending, self._reports)
        self._agree(pending)
        saved = self._each(lambda examined: seller_state.save(self._context, examined), pending)
        pending = [examined for examined in pending if examined.host.name in saved]
        if pending:
            outcomes = self._play.run(pending, check=False)
            for name, outcome in outcomes.items():
                self._take(name, outcome)
            done = [examined for examined in pending if not self._reports[examined.host.name].errors]
            self._each(lambda examined: self._confirm(examined, outcomes[examined.host.name]), done)

    def _agree(self, pending: list[Examined]) -> None:
        """Ask for agreement where the plan holds something that a person should have read."""
        reasons = provision_report.needs_agreement(pending)
        if not reasons or self._options.yes or self._context.console.confirm("Go on with this plan?"):
            return
        raise UsageError(
            code="not-agreed",
            found="The plan holds what needs your agreement: " + "; ".join(reasons),
            needed="Your word that you have read it.",
            next_step="Run the same command again with --yes, or answer y on a terminal; nothing was changed.",
        )

    def _reopen(self, examined: Examined) -> bool:
        return self._examiner.reopen(examined, RECONNECT_SECONDS, self._cancelled)

    def _come_back(self, examined: Examined) -> bool:
        """Wait for a host that was cut off in the play; why it cannot come back is kept for the report."""
        try:
            return self._reopen(examined)
        except IronleaseError as error:
            self._fail(fleet.of_host(error, examined.host.name))
            return False

    def _take(self, name: str, outcome: Outcome) -> None:
        """Take over what the roles reported."""
        report = self._reports[name]
        report.changes.extend(outcome.changes)
        report.undecided.extend(outcome.undecided)
        # Why a host cannot come back is known better than that it did not.
        if not report.errors:
            report.errors.extend(outcome.failures)

    def _confirm(self, examined: Examined, outcome: Outcome) -> None:
        """Observe the host: only what was seen there becomes the footprint that is kept."""
        name = examined.host.name
        document = outcome.recorder.document(examined.key)
        observation = examined.session.agent.ask("observe", document)
        self._context.run_folder.write_json(f"hosts/{name}/footprint.json", document)
        self._context.run_folder.write_json(f"hosts/{name}/observation.json", observation)
        if not is_as_wanted(observation):
            raise _not_confirmed(name, observation)
        files.write_json(footprint.path_of(self._context.project, name), document)

    def _check(self) -> None:
        """Run the roles in Ansible's check mode: what they would change, and what cannot be known before it is done."""
        examined_hosts = self._healthy()
        if not examined_hosts:
            return
        provision_report.show_plans(self._context, examined_hosts, self._reports)
        outcomes = self._play.run(examined_hosts, check=True)
        for name, outcome in outcomes.items():
            self._take(name, outcome)

    def _prove(self) -> None:
        """Collect each host's manifest and prove that it trains, where no proof of that very manifest is kept."""
        healthy = self._healthy()
        with self._context.console.progress([examined.host.name for examined in healthy]) as progress:

            def one(examined: Examined) -> None:
                name = examined.host.name

                def before_training() -> None:
                    progress.update(name, role="proof", task="two processes train, save, load and go on")

                full = self._options.full
                proof = prove(self._context, examined, full=full, before_training=before_training)
                self._reports[name].proof = proof
                self._reports[name].finish()
                self._context.run_folder.write_json(f"hosts/{name}/manifest.json", proof.manifest)
                self._context.run_folder.write_json(f"hosts/{name}/evidence.json", proof.document)
                proof.require_pass(name)

            self._each(one, healthy)

    def _keep_records(self) -> None:
        run_dir = str(self._context.run_folder.path)
        for name, examined in self._open.items():
            report = self._reports[name]
            stack, verdict = examined.plan.stack.name, report.verdict
            address = examined.session.connection.target.known_hosts_name
            provision_record.keep(
                self._context.project, name, address=address, stack=stack, verdict=verdict, run_dir=run_dir
            )


def _not_enrolled(host: Host) -> IronleaseError:
    return UnreachableError(
        code="not-enrolled",
        found=f"{host.name} was never enrolled: its host key is not pinned.",
        needed="An enrolled host: a check trusts nobody new.",
        next_step=f"invoke enrol --host {host.name}",
        host=host.name,
    )


def _not_confirmed(host: str, observation: dict[str, object]) -> IronleaseError:
    differences = observation.get("differences")
    first = differences[0] if isinstance(differences, list) and differences else {}
    return UnfinishedError(
        code="not-confirmed",
        exit_code=ExitCode.FAIL,
        found=(
            f"{host}: the roles ended without a failure, yet {first.get('target', 'a thing')} "
            f"({first.get('role')}: {first.get('task')}) is {first.get('state', 'not as wanted')}."
        ),
        needed="Everything as the roles reported it.",
        next_step=f"See hosts/{host}/observation.json in the run folder; something on the host undoes the change.",
        host=host,
    )
