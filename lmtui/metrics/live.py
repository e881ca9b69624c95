"""Folds a run's tick log as it grows into an immutable snapshot; each batch costs its own size, not the run's.

Unlike a summary, the latencies count every request that runs or ran, whatever becomes of it: the figures move while
the first requests are still in flight. E2E and the TPOT of finished requests are of `ok` ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lmtui.metrics.causes import Causes, own_words
from lmtui.metrics.histogram import Histogram
from lmtui.metrics.result import Distribution, ErrorGroup
from lmtui.metrics.series import BIN_NS, CountSeries, PercentileLines, PercentileSeries
from lmtui.metrics.sessions import UNKNOWN, Outcome

Ints = NDArray[np.int64]

_RUNS = 255
"""Outcome of a request that has not ended."""


@dataclass(frozen=True, slots=True)
class LiveCancel:
    """The cancel experiment so far. survivors_*: of the requests that the plan did not pick."""

    planned: int
    done: int
    missed: int
    wasted_tokens: int
    let_go_ms: Distribution
    survivors_ttft_ms: Distribution
    survivors_itl_ms: Distribution


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """A run at one moment. Nothing in it changes any more.

    Attributes:
        planned: Requests of the plan. sent, done, in_flight: of them so far.
        outcomes: Word for an outcome → how many ended so.
        tokens: Output tokens that came; one per tick where the target does not say.
        start_ns: The run's start on its clock; None before the first request. last_ns: the newest stamp.
        output_tokens: Tokens per second since the start, one value per second.
        requests_in_flight: Requests in flight at the end of each second.
        ttft, itl: P50 and P99 of each second.
        ttft_ms, tpot_ms, itl_ms, e2e_ms: Figures so far.
        errors: Causes of failures. cancel: None when no request was picked.
    """

    planned: int
    sent: int
    done: int
    in_flight: int
    outcomes: dict[str, int]
    tokens: int
    start_ns: int | None
    last_ns: int | None
    output_tokens: NDArray[np.float64]
    requests_in_flight: NDArray[np.float64]
    ttft: PercentileLines
    itl: PercentileLines
    ttft_ms: Distribution
    tpot_ms: Distribution
    itl_ms: Distribution
    e2e_ms: Distribution
    errors: tuple[ErrorGroup, ...]
    cancel: LiveCancel | None

    @property
    def elapsed_s(self) -> float | None:
        """Seconds from the start to the newest stamp; None before the first request."""
        return None if self.start_ns is None or self.last_ns is None else (self.last_ns - self.start_ns) / 1e9


class _Columns:
    """What is known of each request, by index; grows with the highest index seen."""

    def __init__(self, size: int) -> None:
        self.sent_ns = np.full(size, UNKNOWN)
        self.first_ns = np.full(size, UNKNOWN)
        self.last_ns = np.full(size, UNKNOWN)
        self.first_count = np.zeros(size, np.int64)
        self.count = np.zeros(size, np.int64)
        self.asked = np.zeros(size, np.int64)
        self.picked = np.zeros(size, np.bool_)
        self.outcome = np.full(size, _RUNS, np.uint8)

    def reach(self, size: int) -> None:
        """Have room for `size` requests."""
        have = len(self.sent_ns)
        if size <= have:
            return
        more = _Columns(max(size - have, have))
        for name, column in vars(self).items():
            setattr(self, name, np.concatenate((column, vars(more)[name])))


class LiveFold:
    """Takes the tick log's columns, frame by frame and in any order of workers, and gives snapshots."""

    def __init__(self, planned: int) -> None:
        """`planned`: requests in the plan."""
        self._planned = planned
        self._of = _Columns(max(planned, 1))
        self._start_ns: int | None = None
        self._last_ns: int | None = None
        self._sent = 0
        self._tokens = 0
        self._outcomes = np.zeros(len(Outcome), np.int64)
        self._ttft, self._itl, self._tpot, self._e2e, self._let_go = (Histogram() for _ in range(5))
        self._survivor_ttft, self._survivor_itl = Histogram(), Histogram()
        self._picked = self._missed = self._wasted = 0
        self._token_series, self._sent_series, self._end_series = CountSeries(), CountSeries(), CountSeries()
        self._ttft_series, self._itl_series = PercentileSeries(), PercentileSeries()
        self._causes = Causes()
        self._messages: dict[int, str] = {}
        self._unexplained: dict[int, Outcome] = {}

    def start(self, at_ns: int) -> None:
        """Take the release of the load; without it the first request that is seen starts the run."""
        if self._start_ns is None:
            self._start_ns = at_ns

    def sent(
        self, index: Ints, due_ns: Ints, sent_ns: Ints, input_len: Ints, asked_len: Ints, cancel_planned: Ints
    ) -> None:
        """Take requests that were sent: the columns of a SENT frame."""
        index = index.astype(np.int64)
        if len(index) == 0:
            return
        self._see(index, sent_ns)
        of = self._of
        # A replaced connection gives a request a second row, and a request that never went has one without a time.
        first, goes = np.zeros(len(index), np.bool_), sent_ns != UNKNOWN
        first[np.unique(index, return_index=True)[1]] = True
        picked = int(np.count_nonzero(first & (cancel_planned != 0) & ~of.picked[index]))
        if picked and not self._picked:  # all that came before are survivors
            self._survivor_ttft, self._survivor_itl = self._ttft.copy(), self._itl.copy()
        self._picked += picked
        is_new = first & goes & (of.sent_ns[index] == UNKNOWN)
        of.sent_ns[index] = sent_ns
        of.asked[index] = asked_len
        of.picked[index] = cancel_planned.astype(np.bool_)
        self._sent += int(np.count_nonzero(is_new))
        self._sent_series.add(self._bins(sent_ns[is_new]))
        new = index[is_new]
        ticked = new[of.first_ns[new] != UNKNOWN]  # their ticks came first, in another worker's frame
        self._add_ttft(ticked)

    def ticks(self, index: Ints, at_ns: Ints, tokens: Ints) -> None:
        """Take ticks, each request's in their order: the columns of a TICKS frame."""
        if len(index) == 0:
            return
        order = np.argsort(index, kind="stable")
        index, at_ns, tokens = index[order].astype(np.int64), at_ns[order], tokens[order].astype(np.int64)
        self._see(index, at_ns)
        of = self._of
        begins = np.flatnonzero(np.append(True, index[1:] != index[:-1]))
        ends = np.append(begins[1:], len(index)) - 1
        rows = index[begins]
        sizes = ends - begins + 1

        before_ns = np.append(UNKNOWN, at_ns[:-1])
        before_ns[begins] = of.last_ns[rows]
        has_gap = before_ns != UNKNOWN
        gaps = (at_ns - before_ns)[has_gap]

        place = np.arange(len(index)) - np.repeat(begins, sizes) + 1
        count = np.where(tokens == UNKNOWN, of.count[index] + place, tokens)
        before_count = np.append(0, count[:-1])
        before_count[begins] = of.count[rows]
        steps = count - before_count

        bins = self._bins(at_ns)
        self._token_series.add(bins, steps.astype(np.float64))
        self._tokens += int(steps.sum())
        self._itl.add(gaps)
        self._itl_series.add(bins[has_gap], gaps)
        if self._picked:
            self._survivor_itl.add(gaps[~of.picked[index[has_gap]]])

        is_first = of.first_ns[rows] == UNKNOWN
        new = rows[is_first]
        of.first_ns[new] = at_ns[begins[is_first]]
        of.first_count[new] = count[begins[is_first]]
        of.last_ns[rows] = at_ns[ends]
        of.count[rows] = count[ends]
        self._add_ttft(new[of.sent_ns[new] != UNKNOWN])

    def ends(
        self,
        index: Ints,
        end_ns: Ints,
        outcome: Ints,
        output_tokens: Ints,
        token_source: Ints,
        prompt_tokens: Ints,
        cached_tokens: Ints,
        connect_ns: Ints,
        let_go_ns: Ints,
        wasted_tokens: Ints,
    ) -> None:
        """Take requests that are over: the columns of an END frame (some of which only the summary uses)."""
        index = index.astype(np.int64)
        if len(index) == 0:
            return
        self._see(index, end_ns)
        of = self._of
        of.outcome[index] = outcome
        told = output_tokens != UNKNOWN
        self._tokens += int((output_tokens[told] - of.count[index[told]]).sum())
        of.count[index[told]] = output_tokens[told]
        self._outcomes += np.bincount(outcome, minlength=len(Outcome))
        was_sent = of.sent_ns[index] != UNKNOWN
        self._end_series.add(self._bins(end_ns[was_sent]))

        ok = index[(outcome == Outcome.OK) & (of.first_ns[index] != UNKNOWN)]
        self._tpot.add(self._tpots(ok))
        self._e2e.add(of.last_ns[ok] - of.sent_ns[ok])
        self._missed += int(np.count_nonzero(of.picked[index] & (outcome == Outcome.OK)))
        cut = outcome == Outcome.CANCELLED
        self._wasted += int(of.count[index[cut]].sum() + wasted_tokens[cut & (wasted_tokens != UNKNOWN)].sum())
        self._let_go.add(let_go_ns[cut & (let_go_ns != UNKNOWN)])
        for row, code in zip(index.tolist(), outcome.tolist(), strict=True):
            if code and Outcome(code).is_failure:
                self._explain(row, Outcome(code))

    def error(self, index: int, message: str) -> None:
        """Take what went wrong with a request, before or after its end."""
        outcome = self._unexplained.pop(index, None)
        if outcome is None:
            self._messages[index] = message
        else:
            self._causes.add(outcome, message)

    def snapshot(self) -> Snapshot:
        """Return the run as it stands."""
        of = self._of
        bins = 0
        if self._start_ns is not None and self._last_ns is not None:
            bins = int((self._last_ns - self._start_ns) // BIN_NS) + 1
        done = int(self._outcomes.sum())
        unsent = int(np.count_nonzero((of.outcome != _RUNS) & (of.sent_ns == UNKNOWN)))
        flying = np.flatnonzero((of.outcome == _RUNS) & (of.first_ns != UNKNOWN))
        in_flight = np.cumsum(self._sent_series.values(bins) - self._end_series.values(bins))
        return Snapshot(
            planned=self._planned,
            sent=self._sent,
            done=done,
            in_flight=self._sent - done + unsent,
            outcomes={outcome.label: int(self._outcomes[outcome]) for outcome in Outcome},
            tokens=self._tokens,
            start_ns=self._start_ns,
            last_ns=self._last_ns,
            output_tokens=self._token_series.values(bins),
            requests_in_flight=in_flight,
            ttft=self._ttft_series.lines(bins),
            itl=self._itl_series.lines(bins),
            ttft_ms=self._ttft.figures_ms(),
            tpot_ms=self._tpot.merged(self._tpots(flying)).figures_ms(),
            itl_ms=self._itl.figures_ms(),
            e2e_ms=self._e2e.figures_ms(),
            errors=self._groups(),
            cancel=self._cancel() if self._picked else None,
        )

    def _see(self, index: Ints, times_ns: Ints) -> None:
        self._of.reach(int(index.max()) + 1)
        known = times_ns[times_ns != UNKNOWN]
        if len(known) == 0:
            return
        if self._start_ns is None:
            self._start_ns = int(known.min())
        newest = int(known.max())
        self._last_ns = newest if self._last_ns is None else max(self._last_ns, newest)

    def _bins(self, times_ns: Ints) -> Ints:
        start = 0 if self._start_ns is None else self._start_ns
        return np.maximum((times_ns - start) // BIN_NS, 0)

    def _add_ttft(self, rows: Ints) -> None:
        of = self._of
        ttft = of.first_ns[rows] - of.sent_ns[rows]
        self._ttft.add(ttft)
        self._ttft_series.add(self._bins(of.first_ns[rows]), ttft)
        if self._picked:
            self._survivor_ttft.add(ttft[~of.picked[rows]])

    def _tpots(self, rows: Ints) -> NDArray[np.float64]:
        of = self._of
        tokens = of.count[rows] - of.first_count[rows]
        spans = of.last_ns[rows] - of.first_ns[rows]
        has = (tokens > 0) & (spans > 0)
        return np.asarray(spans[has] / tokens[has])

    def _explain(self, row: int, outcome: Outcome) -> None:
        message = self._messages.pop(row, "")
        message = message or own_words(outcome, int(self._of.count[row]), int(self._of.asked[row]))
        if message:
            self._causes.add(outcome, message)
        else:
            self._unexplained[row] = outcome

    def _groups(self) -> tuple[ErrorGroup, ...]:
        groups = self._causes.groups()
        if not self._unexplained:
            return groups
        waiting = Causes()
        for outcome in self._unexplained.values():
            waiting.add(outcome, "")
        return (*groups, *waiting.groups())

    def _cancel(self) -> LiveCancel:
        return LiveCancel(
            planned=self._picked,
            done=int(self._outcomes[Outcome.CANCELLED]),
            missed=self._missed,
            wasted_tokens=self._wasted,
            let_go_ms=self._let_go.figures_ms(),
            survivors_ttft_ms=self._survivor_ttft.figures_ms(),
            survivors_itl_ms=self._survivor_itl.figures_ms(),
        )
