"""The run process: `python -m lmtui.runner.process RUN_DIRECTORY [NOTE]...` performs one run and writes its directory.

Whoever starts it has made the directory with its config, and has put the run's log behind stdout and stderr. With
`--keep` before the directory, stdin is a pipe that names further runs: see `succession`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, cast

from lmtui.errors import INTERRUPTED, USAGE
from lmtui.runner import machine, reaper
from lmtui.runner.heart import Heart
from lmtui.runner.loaded import Loaded
from lmtui.runner.loading import LoadingLog
from lmtui.runner.loops import new_loop
from lmtui.runner.rundir import Counts, RunDirectory, Status, takes_nothing
from lmtui.runner.succession import KEEP, Succession, write_to
from lmtui.runner.verdict import Stopped, Verdict, of_error, of_load, of_result

if TYPE_CHECKING:
    from lmtui.config.model import Config
    from lmtui.runner.crew import Crew
    from lmtui.runner.load import Control
    from lmtui.runner.sender import Sender
    from lmtui.runner.share import Share
    from lmtui.targets.base import Target, TargetInfo
    from lmtui.targets.server import ServerTarget

CLOSE_S = 30.0
"""A target has this long to give everything back; then the process ends without it."""
BLOCKED_S = 10.0
"""A load of an engine has this long to hear of a stop; then the process ends without it."""


class RunProcess:
    """One run, from its config to its summary.

    Attributes:
        loaded: What is loaded, before this run and after it; None: nothing.
    """

    def __init__(
        self, run: RunDirectory, notes: Sequence[str], loaded: Loaded | None = None, *, keeps: bool = False
    ) -> None:
        """Prepare a run.

        Args:
            run: Its directory.
            notes: Sentences for the result.
            loaded: The engine that a run before has kept, and that serves this one.
            keeps: Whether an engine that can serve another run is left loaded, if nothing went wrong.
        """
        self.loaded = loaded
        self._keeps = keeps
        self._run = run
        self._stops = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._opening: asyncio.Future[TargetInfo] | None = None
        self._control: Control | None = None
        self._crew: Crew | None = None
        self._is_over = False
        self._heart = Heart(
            run,
            Status(
                run_id=run.run_id,
                name=run.run_id,
                phase="queued",
                pid=os.getpid(),
                pid_started=machine.process_started(os.getpid()),
                host=machine.host(),
                boot_id=machine.boot_id(),
                heartbeat=time.time(),
                started_at=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                notes=tuple(notes),
            ),
        )
        self._heart.is_told_to_stop = lambda: self._stops > 0

    def main(self) -> int:
        """Do the run and return the exit code."""
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._on_signal)
        try:
            self._heart.start()
        except OSError as error:
            print(takes_nothing(self._run.path, error), file=sys.stderr)
            return USAGE
        with contextlib.suppress(OSError):  # it starts without: there is little room, and it may be enough
            self._run.reserve()
        try:
            verdict = self._perform()
        except BaseException as error:  # also an engine's SystemExit, or a cancel that nobody here asked for
            verdict = of_error(error, self._run.log_path)
        verdict = self._conclude(verdict)  # before anything is torn down: what was measured is safe then
        if not self._is_kept(verdict):
            self._give_back(verdict)
        self._finish(verdict)
        return verdict.exit_code

    def _perform(self) -> Verdict:
        config = self._run.config()
        kind, model = config.target.kind, config.target.model
        self._heart.set(name=config.name, target_kind=kind, target_model=model, target={"kind": kind, "model": model})
        from lmtui.config.engine import LMDEPLOY
        from lmtui.runner.share import whole
        from lmtui.workload.draw import draw

        self._check_stop()
        if kind == "server":
            from lmtui.runner.crew import Crew

            self._crew = Crew(self._run, config)
        if kind in LMDEPLOY and self.loaded is None:
            from lmtui.targets import lmdeploy_preflight

            # A missing driver or GPU comes first: without them a tokenizer that cannot be loaded is not worth mending.
            lmdeploy_preflight.refuse(config)
        plan = draw(config, self._progress)
        self._note(plan.notes)
        share = whole(plan, config)
        self._heart.counts = partial(Counts, planned=0 if share.is_cycled else len(plan.requests))
        if self.loaded is None:
            is_virtual = kind == "simulated" and config.target.clock == "virtual"
            self.loaded = Loaded(new_loop(is_uvloop=config.request.uvloop, is_virtual=is_virtual))
        self._loop = self.loaded.loop
        try:
            return self._loop.run_until_complete(self._measure(config, share, self.loaded))
        finally:
            self._loop = None

    async def _measure(self, config: Config, share: Share, loaded: Loaded) -> Verdict:
        """Open, or take over what is open, and send."""
        self._heart.set(phase="loading", message="")
        _refuse_too_long(config, share)
        target = loaded.target
        if target is None:
            from lmtui.targets.build import build

            target = build(config)
            info = await self._open(target, config)
            loaded.target, loaded.run_id = target, self._run.run_id
        else:
            info = loaded.reused(config)
            self._note([f"The engine was loaded for the run {loaded.run_id} and has answered its requests before."])
        self._describe(config, info)
        try:
            return await self._send(target, config, share)
        except Exception as error:
            return of_error(error, self._run.log_path)

    async def _open(self, target: Target, config: Config) -> TargetInfo:
        """Open the target; a stop cancels it."""
        self._opening = asyncio.ensure_future(target.open(lambda line: self._progress(line, None)))
        try:
            self._check_stop()
            with LoadingLog(self._run.log_path, lambda line: self._heart.set(message=line)):
                return await self._opening
        except asyncio.CancelledError:
            self._check_stop()
            raise
        finally:
            self._opening.cancel()
            self._opening = None
            self._heart.in_time()

    def _describe(self, config: Config, info: TargetInfo) -> None:
        self._heart.set(
            message="",
            target_model=info.model,
            target={
                "kind": config.target.kind,
                "model": info.model,
                "base_url": config.target.base_url,
                "versions": dict(info.versions),
                "limits": dict(info.limits),
                "dropped_fields": list(info.dropped_fields),
            },
            simulated=info.simulated,
            environment=machine.environment(),
        )
        self._note(info.notes)

    async def _send(self, target: Target, config: Config, share: Share) -> Verdict:
        from lmtui.runner.load import Control

        control = Control()
        sender = self._sender(target, share, control)
        self._heart.counts = sender.counts
        self._heart.problem = sender.problem
        self._control = control
        self._check_stop()
        self._heart.set(phase="warming", message="")
        try:
            if self._crew is not None:
                await self._crew.take(share, cast("ServerTarget", target).prepared(), control)
            await sender.warm_up()
            if not control.is_stopping:
                self._heart.set(phase="running", running_since=time.time())
                control.listeners.append(partial(self._heart.set, phase="draining"))
                await sender.run()
        finally:
            self._note(sender.notes)
        verdict = of_load(control, sender.last_error(), config, self._run.log_path)
        return verdict.and_incomplete(sender.problem())

    def _sender(self, target: Target, share: Share, control: Control) -> Sender:
        if self._crew is not None:
            return self._crew
        from lmtui.runner.sender import LocalSender

        return LocalSender(target, share, self._run.ticks_path(0), control)

    def _conclude(self, verdict: Verdict) -> Verdict:
        """Write the summary and the row; return what the run comes to."""
        from lmtui.runner.conclude import conclude

        self._is_over = True
        self._heart.in_time()
        self._heart.set(message="summarising")
        if not self._heart.status.environment:
            self._heart.set(environment=machine.environment())
        try:
            result = conclude(self._run, self._heart.status, verdict.phase)
            config = self._run.config()
        except Exception as error:
            return verdict.and_not_kept(of_error(error, self._run.log_path))
        return of_result(verdict, result, config)

    def _is_kept(self, verdict: Verdict) -> bool:
        """Return whether the engine stays loaded for another run: one that may be at fault for anything does not."""
        is_well = verdict.phase == "done" and verdict.exit_code == 0
        return self._keeps and is_well and self.loaded is not None and self.loaded.is_reusable

    def _give_back(self, verdict: Verdict) -> None:
        """Close what is open, and end what this process has started."""
        loaded, self.loaded = self.loaded, None
        if loaded is not None:
            self._heart.within(CLOSE_S, partial(self._exit_now, verdict))
            loaded.close()
            self._heart.in_time()
        reaper.end_own()

    def _finish(self, verdict: Verdict) -> None:
        self._heart.problem = str
        self._heart.set(phase=verdict.phase, message=verdict.message, exit_code=verdict.exit_code)
        self._heart.stop()

    def _exit_now(self, verdict: Verdict | None) -> None:
        """End the process from the heart's thread: the main thread hangs in something that cannot be told to stop."""
        if verdict is None:
            verdict = self._conclude(Verdict("stopped", "while loading", INTERRUPTED))
        self._finish(verdict)
        reaper.end_own(grace_s=0.0)
        os._exit(verdict.exit_code)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        """Stop at the first signal, abort at the second; whatever is busy hears of it as soon as it can."""
        if self._is_over:
            return
        self._stops += 1
        self._heart.nudge()
        loop, control = self._loop, self._control
        if loop is not None and control is not None:
            loop.call_soon_threadsafe(control.stop if self._stops == 1 else control.abort)
            return
        if loop is not None and self._opening is not None:
            loop.call_soon_threadsafe(self._opening.cancel)
        self._heart.within(BLOCKED_S if self._stops == 1 else 0.0, partial(self._exit_now, None))

    def _check_stop(self) -> None:
        if self._stops:
            raise Stopped

    def _progress(self, line: str, share: float | None) -> None:
        self._check_stop()
        self._heart.set(message=line if share is None else f"{line} {share:.0%}")

    def _note(self, notes: Sequence[str]) -> None:
        if notes:
            self._heart.set(notes=(*self._heart.status.notes, *notes))


def _refuse_too_long(config: Config, share: Share) -> None:
    """Refuse a plan whose longest request an engine of LMDeploy would shorten without a word.

    Raises:
        TargetError: It does not fit; the text says which length is too small.
    """
    if config.target.kind not in ("turbomind", "pytorch", "pipeline"):
        return
    from lmtui.errors import TargetError
    from lmtui.targets.lmdeploy_preflight import session_fits

    longest = max((len(r.token_ids) + r.output_len for r in share.requests if r.token_ids is not None), default=0)
    if refusal := session_fits(config, longest):
        raise TargetError(refusal)


def main() -> int:
    """Run the directory named on the command line, and with `--keep` those that the pipe names after it."""
    is_kept = sys.argv[1] == KEEP
    path, *notes = sys.argv[1 + is_kept :]
    run = RunDirectory(Path(path))
    return one_after_another(run, notes) if is_kept else RunProcess(run, notes).main()


def one_after_another(run: RunDirectory, notes: Sequence[str]) -> int:
    """Do a run, and others on its engine until there is none or the engine cannot be kept; return the last's code."""
    succession = Succession()
    loaded: Loaded | None = None
    keeps = True
    while True:
        process = RunProcess(run, notes, loaded, keeps=keeps)
        code = process.main()
        loaded = process.loaded
        if loaded is None:
            return code
        following = succession.next(loaded.loop) if code == 0 else None
        if following is None:
            _end(loaded, code)
            return code
        run, notes, keeps = following
        with contextlib.suppress(OSError):  # what takes no log takes no status either, and that is told
            write_to(run, loaded.run_id)


def _end(loaded: Loaded, code: int) -> None:
    """Close an engine that nobody needs any more; an engine that hangs does not keep the process."""

    def leave() -> None:
        reaper.end_own(grace_s=0.0)
        os._exit(code)

    patience = threading.Timer(CLOSE_S, leave)
    patience.daemon = True
    patience.start()
    loaded.close()
    reaper.end_own()
    patience.cancel()


if __name__ == "__main__":
    sys.exit(main())
