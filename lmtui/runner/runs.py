"""All runs: list, find, stop, and settle those whose process is gone."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from typing import TYPE_CHECKING

import msgspec

from lmtui import paths
from lmtui.errors import TARGET, LmtuiError, RunNotFoundError
from lmtui.metrics.sessions import Outcome
from lmtui.runner import machine, reaper
from lmtui.runner.rundir import FINAL_PHASES, Counts, RunDirectory, Status
from lmtui.targets import engine_log

if TYPE_CHECKING:
    from lmtui.metrics.result import Result

START_S = 60.0
"""A directory without a status is a start that failed when it is older than this."""
MOST_NAMED = 5


def all_runs() -> list[RunDirectory]:
    """Return every run directory, newest first; other folders are none of them."""
    found = [RunDirectory(path) for path in paths.runs().iterdir() if not path.name.startswith(".")]
    return sorted((run for run in found if run.is_run), key=lambda run: (run.begun_s, run.made_ns), reverse=True)


def find(name: str) -> RunDirectory:
    """Return the run that `name` means: a run_id, a unique prefix of one, or `last`.

    Raises:
        RunNotFoundError: No run, or more than one, answers to it.
    """
    runs = all_runs()
    if not runs:
        raise RunNotFoundError(f"there is no run {name}: there are no runs yet; `lmtui run quickstart` makes one")
    if name == "last":
        return runs[0]
    matching = [run for run in runs if name and run.run_id.startswith(name)]
    exact = [run for run in matching if run.run_id == name]
    if len(exact or matching) == 1:
        return (exact or matching)[0]
    if not matching:
        raise RunNotFoundError(f"no run has the id {name} or begins with it; `lmtui runs` lists them")
    named = ", ".join(run.run_id for run in matching[:MOST_NAMED]) + (", ..." if len(matching) > MOST_NAMED else "")
    raise RunNotFoundError(f"{len(matching)} runs begin with {name}: {named}; give more of the id")


def current(run: RunDirectory) -> Status:
    """Return a run's status as it is now; a run that is lost is settled first."""
    status = run.status()
    if status is None:
        return _without_status(run)
    return settle(run) if status.is_lost and not status.is_final else status


def stop(run: RunDirectory, abort: bool = False) -> None:
    """Ask a run to stop: send nothing more, drain, summarise. `abort`: cut what is in flight at once.

    Nothing happens to a run that has ended, nor to one that is stopping already unless it is to abort.

    Raises:
        LmtuiError: It runs on another machine.
    """
    status = run.status()
    if status is None or status.is_final:
        return
    if not status.is_here:
        raise LmtuiError(f"{run.run_id} runs on host {status.host}: stop it there with `lmtui stop {run.run_id}`")
    if status.is_told_to_stop and not abort:
        return
    # One signal stops and a second one aborts; two of one kind could arrive as one.
    for number in (signal.SIGTERM, signal.SIGINT)[: 2 if abort else 1]:
        _send(status, number)


def settle(run: RunDirectory) -> Status:
    """Conclude a lost run: summarise what it wrote, append its row (once, whoever asks), mark it `lost`.

    What its process left running here is ended. When the log tells why an engine died (native ones end the whole
    process), the message says so and the exit code is that of a lost target.

    Returns:
        Its final status; that of a run that is not lost as it is.
    """
    from lmtui.config.target import IN_PROCESS
    from lmtui.runner.conclude import conclude

    status = run.status()
    if status is None:
        return _without_status(run)
    if status.is_final or not status.is_lost:
        return status
    cause = engine_log.cause(run.log_tail(engine_log.TAIL_BYTES)) if status.target_kind in IN_PROCESS else ""
    message = f"the run process is gone ({cause or status.message or status.phase}); what it wrote is kept"
    if status.is_here and machine.process_started(status.pid) is None:  # else another session has its number
        reaper.end(status.pid)
    if not status.is_here:
        message = f"host {status.host} has not been heard of for a while; what the run wrote is kept"
    phase = "lost"
    try:
        result = conclude(run, status, "lost")
        if result.phase != "lost":  # it died after its own summary
            phase, message = result.phase, status.message
    except (LmtuiError, OSError) as error:
        message = f"the run process is gone, and what it wrote cannot be summarised: {error}"
    code = TARGET if phase == "lost" and cause else status.exit_code
    status = msgspec.structs.replace(status, phase=phase, message=message, exit_code=code)
    with contextlib.suppress(OSError):  # a disk that takes nothing: whoever looks next settles it again
        run.write_status(status)
    return status


def _send(status: Status, number: signal.Signals) -> None:
    """Signal the run process, and only it: its number may belong to another process by now."""
    with contextlib.suppress(ProcessLookupError):
        fd = os.pidfd_open(status.pid)
        try:
            if machine.process_started(status.pid) == status.pid_started:
                signal.pidfd_send_signal(fd, number)
        finally:
            os.close(fd)


def _without_status(run: RunDirectory) -> Status:
    """Return what can be said of a run whose status is missing, damaged or of another version."""
    result = run.result()
    if result is not None:
        return _of_result(run, result)
    is_young = abs(time.time() - run.begun_s) < START_S
    phase, message = "failed", "the run process never started"
    if is_young:
        phase, message = "queued", ""
    elif run.has_ticks:
        phase, message = "lost", "its status is missing or damaged; what it wrote is kept"
    return Status(
        run_id=run.run_id,
        name=run.run_id,
        phase=phase,
        pid=0,
        pid_started=None,
        host=machine.host(),
        boot_id=machine.boot_id(),
        heartbeat=run.begun_s,
        started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(run.begun_s)),
        message=message,
    )


def _of_result(run: RunDirectory, result: Result) -> Status:
    outcomes = {outcome: result.outcomes.get(outcome.label, 0) for outcome in Outcome}
    planned = sum(outcomes.values())
    done = planned - outcomes[Outcome.DROPPED]
    return Status(
        run_id=run.run_id,
        name=result.name,
        phase=result.phase if result.phase in FINAL_PHASES else "lost",
        pid=0,
        pid_started=None,
        host="",
        boot_id="",
        heartbeat=run.begun_s,
        started_at=result.started_at,
        message="its status is missing or damaged; the summary is kept",
        counts=Counts(
            planned=planned,
            sent=done - outcomes[Outcome.CONNECT_ERROR],
            done=done,
            ok=outcomes[Outcome.OK],
            failed=sum(count for outcome, count in outcomes.items() if outcome.is_failure),
            cancelled=outcomes[Outcome.CANCELLED],
        ),
        target_kind=str(result.target.get("kind") or ""),
        target_model=result.target.get("model"),
        target=result.target,
        environment=result.environment,
        simulated=result.simulated,
        notes=result.notes,
    )
