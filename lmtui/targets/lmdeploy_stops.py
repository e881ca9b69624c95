"""Where an answer of a raw engine may stop: it knows no end of text unless it is told the ids."""

from __future__ import annotations

from lmtui.errors import TargetError


def stop_ids(model: str, trust_remote_code: bool) -> list[int]:
    """Return the ids that end a text: the generation config's and the tokenizer's, as LMDeploy's server takes them.

    Raises:
        TargetError: The model names none, so that no answer would end by itself.
    """
    from lmdeploy.tokenizer import Tokenizer as LmdeployTokenizer
    from lmdeploy.utils import get_hf_gen_cfg

    found: set[int] = set()
    given = get_hf_gen_cfg(model, trust_remote_code=trust_remote_code).get("eos_token_id")
    found.update(given if isinstance(given, list) else [] if given is None else [given])
    own = LmdeployTokenizer(model, trust_remote_code=trust_remote_code).eos_token_id
    if own is not None:
        found.add(own)
    if not found:
        raise TargetError(
            f"'{model}' names no end-of-text token, so that no answer would stop by itself: set request.ignore_eos."
        )
    return sorted(found)
