"""LMDeploy's real `api_server` over the stand-in for TurboMind: `python -m tests.contract.api_server MODEL PORT`.

FastAPI application, preprocessing, tokenizer, detokenizer, sessions and metrics are LMDeploy's; only the engine is not.
Requests for FAILS tokens fail after the first, and so do those for TOO_LARGE.
"""

from __future__ import annotations

import sys
from typing import Any

FAILS, TOO_LARGE = 13, 14


def main() -> None:
    from lmdeploy.messages import ResponseType, ScheduleMetrics, TurbomindEngineConfig
    from lmdeploy.serve.core import async_engine
    from lmdeploy.serve.openai.api_server import serve

    from tests.contract.turbomind_stand_in import Instance, StandIn

    statuses = {FAILS: ResponseType.INTERNAL_ENGINE_ERROR, TOO_LARGE: ResponseType.OUT_OF_MEMORY}

    class Engine(StandIn):
        made: list[StandIn] = []  # noqa: RUF012

        def status_of(self, number: int, asked: int) -> ResponseType | None:
            return statuses.get(asked)

        def create_instance(self, cuda_stream_id: int = 0) -> Instance:
            return super().create_instance()

        def get_schedule_metrics(self) -> ScheduleMetrics:
            busy = sum(instance.is_busy for instance in self.instances)
            return ScheduleMetrics(active_seqs=busy, waiting_seqs=0, scheduler_tick=self.requests)

        async def get_health_status(self) -> dict[str, Any]:
            return {"alive": True, "message": "", "schedule_metrics": self.get_schedule_metrics()}

    def build(self: Any, model_path: str, backend_config: TurbomindEngineConfig, **more: Any) -> Engine:
        if backend_config.max_batch_size is None:
            backend_config.max_batch_size = 16
        return Engine(backend_config)

    async_engine.AsyncEngine._build_turbomind = build
    serve(
        sys.argv[1],
        backend="turbomind",
        backend_config=TurbomindEngineConfig(max_batch_size=16, session_len=4096, enable_metrics=True),
        server_name="127.0.0.1",
        server_port=int(sys.argv[2]),
    )


if __name__ == "__main__":
    main()
