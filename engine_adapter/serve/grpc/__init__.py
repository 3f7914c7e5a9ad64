"""The engine over gRPC, in two dialects on one server: ``vllm.Inference`` and ``vllm.grpc.engine.VllmEngine``.

``*_request`` reads a message as the engine takes it, ``*_replies`` writes outcomes as messages; both are plain values
in and out. `calls` runs one call between them, `status` says how it fails, `server` puts all on a port. What is
generated from ``inference.proto`` are the modules ``inference_pb2`` and ``inference_pb2_grpc``.
"""
