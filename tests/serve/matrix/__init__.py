"""The fault matrix: `cells` says what is tried, `faulty` and `model` bring it about, `server` is what it happens to,
`over_http` and `over_grpc` tell what a client saw of it, and `expected` what it had to see."""
