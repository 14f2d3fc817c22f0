//! KV bytes a token from a model's config.json.
