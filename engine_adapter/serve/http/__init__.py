"""The engine over HTTP, as OpenAI's API: chat completions, completions, models; health and metrics beside them.

A request's way: `endpoint` reads the body and watches for a client that leaves; `asking` makes the engine's request of
it; `answering` runs that and sends the reply, whole or as a stream of server-sent events, in the shape that `chat` or
`completions` gives it. Whatever goes wrong is a `GrammarError`, and `errors` writes it.
"""
