"""The table of requests that are accepted, in every dialect, and the spec that each asks for."""

import json
from collections.abc import Mapping
from typing import Any

from structout.spec import (
    Choice,
    Ebnf,
    GrammarSpec,
    JsonObject,
    JsonSchema,
    Lark,
    Policy,
    Regex,
    Serialization,
    StructuralTag,
    Whitespace,
)

SCHEMA = {"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "null"}}}
TEXT = '{"type": "object", "properties": {"z": {"type": "string"}, "a": {"type": "null"}}}'
SPEC = JsonSchema(TEXT)
EBNF = 'root ::= "a" | "b"\n'
LARK = '// comment ::=\nstart: "a" | "b"\n'
TAG = {
    "type": "structural_tag",
    "format": {"type": "tag", "begin": "<a>", "content": {"type": "any_text"}, "end": "</a>"},
}
COMPACT = Serialization(whitespace=Whitespace.COMPACT)

# What requests to OpenAI, vLLM and SGLang are made of besides.
OTHER_FIELDS = """
access_programs add_generation_prompt add_special_tokens allowed_token_ids audio background bad_words cache_salt
chat_template chat_template_kwargs context_management continue_final_message conversation custom_logit_processor
custom_params documents echo frequency_penalty function_call functions ignore_eos image images_config include
include_reasoning include_stop_str_in_output input input_ids instructions kv_transfer_params length_penalty logit_bias
logprob_token_ids logprobs lora_path max_completion_tokens max_new_tokens max_output_tokens max_tokens max_tool_calls
media_io_kwargs messages metadata min_new_tokens min_p min_tokens mm_processor_kwargs modalities model moderation n
no_stop_trim parallel_tool_calls prediction presence_penalty previous_response_id priority prompt prompt_cache_key
prompt_cache_retention prompt_embeds prompt_logprobs reasoning reasoning_effort repetition_detection
repetition_penalty request_id return_hidden_states return_logprob return_token_ids return_tokens_as_token_ids rid
safety_identifier sampling_seed seed separate_reasoning service_tier session_id skip_special_tokens
spaces_between_special_tokens stop stop_regex stop_token_ids store stream stream_interval stream_options suffix
temperature text thinking_token_budget tools top_k top_logprobs top_p truncate_prompt_tokens truncation
use_beam_search user verbosity vllm_xargs web_search_options
"""

ACCEPTED: dict[str, tuple[Mapping[str, Any], GrammarSpec | None]] = {
    # Free text.
    "nothing": ({}, None),
    "a plain request": ({"model": "m", "messages": [], "temperature": 0, "top_p": 1, "stop": ["x"]}, None),
    "fields of others": (dict.fromkeys(OTHER_FIELDS.split(), "x"), None),
    "nulls": ({"response_format": None, "structured_outputs": None, "json_schema": None, "tool_choice": None}, None),
    "a misspelt null": ({"guided_jsonn": None}, None),
    "text": ({"response_format": {"type": "text"}}, None),
    "text and nulls": ({"response_format": {"type": "text", "json_schema": None}}, None),
    "text beside a constraint": ({"response_format": {"type": "text"}, "regex": "a"}, Regex("a")),
    "tools that are free": ({"tools": [{"type": "function"}], "tool_choice": "auto"}, None),
    "no tools": ({"tools": [], "tool_choice": "none"}, None),
    "white space without a constraint": ({"guided_whitespace_pattern": "[ ]?"}, None),
    # OpenAI.
    "json_object": ({"response_format": {"type": "json_object"}}, JsonObject()),
    "json_schema": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}}},
        SPEC,
    ),
    "not strict": (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA, "strict": False}}},
        SPEC,
    ),
    "strict null": (
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"schema": SCHEMA, "strict": None, "description": "d"},
            }
        },
        SPEC,
    ),
    "schema as text": ({"response_format": {"type": "json_schema", "json_schema": {"schema": TEXT}}}, SPEC),
    "boolean schema": (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": True}}},
        JsonSchema("true"),
    ),
    "empty schema": ({"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}, JsonSchema("{}")),
    "Responses API": (
        {"text": {"format": {"type": "json_schema", "name": "n", "schema": SCHEMA, "strict": True}}},
        SPEC,
    ),
    "Responses API, text": ({"text": {"format": {"type": "text"}, "verbosity": "low"}}, None),
    "Responses API, nothing": ({"text": {"verbosity": "low"}}, None),
    "structural_tag": ({"response_format": TAG}, StructuralTag(json.dumps(TAG))),
    # vLLM.
    "structured_outputs.json": ({"structured_outputs": {"json": SCHEMA}}, SPEC),
    "structured_outputs.json as text": ({"structured_outputs": {"json": TEXT, "regex": None}}, SPEC),
    "structured_outputs.regex": ({"structured_outputs": {"regex": "[ab]+"}}, Regex("[ab]+")),
    "structured_outputs.choice": ({"structured_outputs": {"choice": ["a", "b", "a"]}}, Choice(("a", "b", "a"))),
    "the empty text among others": ({"structured_outputs": {"choice": ["", "a"]}}, Choice(("", "a"))),
    "structured_outputs.grammar, EBNF": ({"structured_outputs": {"grammar": EBNF}}, Ebnf(EBNF)),
    "structured_outputs.grammar, Lark": ({"structured_outputs": {"grammar": LARK}}, Lark(LARK)),
    "structured_outputs.json_object": ({"structured_outputs": {"json_object": True}}, JsonObject()),
    "structured_outputs.structural_tag": (
        {"structured_outputs": {"structural_tag": json.dumps(TAG)}},
        StructuralTag(json.dumps(TAG)),
    ),
    "guided_json": ({"guided_json": SCHEMA}, SPEC),
    "guided_regex": ({"guided_regex": " "}, Regex(" ")),
    "guided_choice": ({"guided_choice": ["yes"], "guided_decoding_backend": "outlines"}, Choice(("yes",))),
    "guided_grammar": ({"guided_grammar": LARK}, Lark(LARK)),
    # SGLang.
    "json_schema as text": ({"json_schema": TEXT}, SPEC),
    "regex": ({"regex": "a|b"}, Regex("a|b")),
    "ebnf": ({"ebnf": EBNF}, Ebnf(EBNF)),
    "structural_tag as text": ({"structural_tag": json.dumps(TAG)}, StructuralTag(json.dumps(TAG))),
    "sampling_params": ({"text": "prompt", "sampling_params": {"regex": "a", "temperature": 0}}, Regex("a")),
    # Loose forms.
    "top-level json_schema": ({"json_schema": SCHEMA}, SPEC),
    "top-level json_schema, wrapped": ({"json_schema": {"name": "n", "schema": SCHEMA}}, SPEC),
    "json_object with a schema": ({"response_format": {"type": "json_object", "schema": SCHEMA}}, SPEC),
    "grammar": ({"grammar": EBNF}, Ebnf(EBNF)),
    "extra_body": ({"extra_body": {"guided_json": SCHEMA}}, SPEC),
    "structured_output": ({"structured_output": {"type": "json_schema", "schema": SCHEMA}}, SPEC),
    "structured_output null": ({"structured_output": None}, None),
    "structured_output, text": ({"structured_output": {"type": "text"}}, None),
    "structured_output, json": ({"structured_output": {"type": "json", "schema": SCHEMA}}, SPEC),
    "structured_output, wrapped": (
        {"structured_output": {"type": "json_schema", "json_schema": {"schema": SCHEMA}}},
        SPEC,
    ),
    "structured_output, json_object": ({"structured_output": {"type": "json_object"}}, JsonObject()),
    "structured_output, regex": ({"structured_output": {"type": "regex", "pattern": "a"}}, Regex("a")),
    "structured_output, choice": ({"structured_output": {"type": "choice", "choices": ["a"]}}, Choice(("a",))),
    "structured_output, ebnf": ({"structured_output": {"type": "ebnf", "grammar": EBNF}}, Ebnf(EBNF)),
    "structured_output, lark": ({"structured_output": {"type": "lark", "grammar": LARK}}, Lark(LARK)),
    "structured_output, grammar": ({"structured_output": {"type": "grammar", "grammar": LARK}}, Lark(LARK)),
    "structured_output, tag": ({"structured_output": TAG}, StructuralTag(json.dumps(TAG))),
    # Options.
    "exact": ({"structured_outputs": {"json": SCHEMA, "enforcement": "exact"}}, JsonSchema(TEXT, policy=Policy.EXACT)),
    "sound": ({"structured_outputs": {"regex": "a", "enforcement": "sound"}}, Regex("a")),
    "best effort for another field": (
        {
            "response_format": {"type": "json_schema", "json_schema": {"schema": SCHEMA, "strict": True}},
            "structured_outputs": {"enforcement": "best_effort", "backend": "xgrammar"},
        },
        JsonSchema(TEXT, policy=Policy.BEST_EFFORT),
    ),
    "backend alone": ({"structured_outputs": {"regex": "a", "backend": "outlines"}}, Regex("a")),
    "compact": (
        {"structured_outputs": {"json": SCHEMA, "disable_any_whitespace": True}},
        JsonSchema(TEXT, serialization=COMPACT),
    ),
    "compact objects": (
        {"structured_outputs": {"disable_any_whitespace": True}, "response_format": {"type": "json_object"}},
        JsonObject(serialization=COMPACT),
    ),
    "compact by an empty pattern": (
        {"guided_json": SCHEMA, "guided_whitespace_pattern": ""},
        JsonSchema(TEXT, serialization=COMPACT),
    ),
    "options that are off": (
        {
            "structured_outputs": {
                "json": SCHEMA,
                "disable_any_whitespace": False,
                "disable_additional_properties": False,
                "whitespace_pattern": None,
                "enforcement": None,
            }
        },
        SPEC,
    ),
    "options that are off, without JSON": (
        {"structured_outputs": {"regex": "a", "disable_any_whitespace": False}},
        Regex("a"),
    ),
}
