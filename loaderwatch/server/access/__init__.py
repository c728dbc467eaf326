"""Access to the server: tokens, sign-in, the request gate, rate limits, quotas and security headers."""
