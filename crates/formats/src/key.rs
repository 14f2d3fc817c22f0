//! A key of a JSON object.

use serde::Deserialize;
use std::borrow::Cow;

/// A key, borrowed from the line unless it is written with escapes.
#[derive(Deserialize)]
pub struct Key<'a>(#[serde(borrow)] pub Cow<'a, str>);
