//! The firstclaim server process: configuration, gRPC services, batching, forwarding, metrics.
