"""What the restful script finds out before it samples: where the server is, its model's name, the tokenizer's."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from lmtui.config import server_url
from lmtui.config.script_flags import RESTFUL_BACKENDS
from lmtui.errors import ConfigError, TargetError

ASK_S = 30.0

NO_TEMPLATE = (
    "{model} has no chat template: a chat or instruct model is better measured, for the text of a base model may be "
    "gibberish, whose tokens are counted wrongly when they are counted again."
)


def base_url(options: argparse.Namespace) -> str:
    """Return the server's URL: `--base-url`, else host and port, else the backend's own port.

    Raises:
        ConfigError: The backend is one that the script names and does not implement, or the URL is none.
    """
    backend = RESTFUL_BACKENDS[options.backend]
    if backend is None:
        raise ConfigError(
            f"--backend {options.backend} is not implemented in LMDeploy's script either: use one of "
            f"{', '.join(name for name, known in RESTFUL_BACKENDS.items() if known)}"
        )
    if backend.api == "trt" and options.model is None:
        raise ConfigError(
            "--backend trt needs --model, for that server does not tell its model's name; give it, and its --tokenizer"
        )
    url = options.base_url or f"http://{options.host}:{options.port or backend.port}"
    try:
        return server_url.normalised(url)
    except ValueError as error:
        flags = "--base-url" if options.base_url else "--host and --port"
        raise ConfigError(f"{flags} {url}: must be {error}") from error


def name_tokenizer(options: argparse.Namespace, url: str) -> str | None:
    """Set `options.model` and `options.tokenizer` as the script does: the server's first model, and the model's own.

    Returns:
        A sentence when the tokenizer is that of a name which was not typed.

    Raises:
        TargetError: The model's name is needed, and the server does not tell it.
    """
    if options.tokenizer is None:
        options.tokenizer = options.model_path
    if options.tokenizer is not None:
        return None
    if options.model is not None:
        options.tokenizer = options.model
        return None
    options.model = options.tokenizer = _first_model(options, url)
    return f"no --tokenizer is given: that of the server's first model, {options.model}, is loaded."


def _first_model(options: argparse.Namespace, url: str) -> str:
    import os

    import httpx

    key = os.environ.get("OPENAI_API_KEY")
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    place = "--base-url" if options.base_url else f"--backend (now {options.backend}), --host or --port"
    remedy = f"correct {place}, or give --model and --tokenizer"
    try:
        with httpx.Client(trust_env=False, timeout=ASK_S, headers=headers) as client:
            answer = client.get(f"{url}/v1/models")
            answer.raise_for_status()
            models = answer.json()["data"]
            return str(models[0]["id"])
    except httpx.ConnectError as error:
        raise TargetError(f"no server at {url} ({error}): start it, or correct {place}") from error
    except httpx.HTTPError as error:
        raise TargetError(f"{url}/v1/models cannot be asked for the model's name ({error}): {remedy}") from error
    except (ValueError, LookupError, TypeError) as error:
        raise TargetError(f"{url}/v1/models lists no model: {remedy}") from error


def template_note(model: str | None) -> str | None:
    """Return the script's warning about a model without a chat template; None with one, or where it cannot be seen.

    Only what lies on this machine is looked at: a folder, or the hub's cache.
    """
    if model is None:
        return None
    file = _local(model, "tokenizer_config.json")
    if file is None or _local(model, "chat_template.jinja") is not None:
        return None
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None  # what is wrong with it is said when it is loaded
    return None if settings.get("chat_template") else NO_TEMPLATE.format(model=model)


def _local(model: str, name: str) -> Path | None:
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder / name if (folder / name).is_file() else None
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        cached = try_to_load_from_cache(model, name)
    except HFValidationError:
        return None
    return Path(cached) if isinstance(cached, str) else None
