"""The columns of the scripts' files, letter by letter: who reads such files goes by these names and their order."""

from __future__ import annotations

from lmtui.metrics import script_columns

TAIL = (
    "completed,total_input_tokens,total_output_tokens,duration,request_throughput,input_throughput,output_throughput,"
    "mean_e2e_latency_ms,mean_ttft_ms,mean_tpot_ms,mean_itl_ms"
)
WORKLOAD = "dataset_name,sharegpt_output_len,random_input_len,random_output_len,random_range_ratio"


def test_engine_scripts() -> None:
    assert ",".join(script_columns.ENGINE) == f"backend,bs,{WORKLOAD},num_prompts,{TAIL}"


def test_restful_script() -> None:
    assert ",".join(script_columns.RESTFUL) == f"backend,{WORKLOAD},request_rate,{TAIL}"


def test_guided_script() -> None:
    assert ",".join(script_columns.GUIDED) == (
        "run,response_format,ignore_eos,backend,bs,num_prompts,dataset_name,elapsed,total_input,total_output,success,"
        "avg_output_len,median_output_len,output_throughput,input_throughput,rps,e2e_mean,e2e_p50,e2e_p99,tpot_mean,"
        "tpot_p99,ttft_mean,ttft_p99,itl_mean,itl_p99"
    )


def test_a_line_is_quoted_where_it_must_be_and_ends_as_the_scripts_do() -> None:
    assert script_columns.line(["a,b", None, 1.5, 'say "x"']) == b'"a,b",,1.5,"say ""x"""\r\n'
