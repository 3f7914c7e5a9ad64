"""The engine over HTTP, as OpenAI's API: chat completions, completions, responses, embeddings, models; health and
metrics beside them.

A request's way: `endpoint` reads the body and watches for a client that leaves; `asking` makes the engine's request of
it; `answering` runs that and sends the reply, whole or as a stream of server-sent events, in its form: `choices`, in
the shape that `chat` or `completions` gives them, or `responses`. Embeddings, which are no text, have their own way.
Whatever goes wrong is a `GrammarError`, and `errors` writes it.
"""
