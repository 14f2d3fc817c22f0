//! Fields of a request by which its prompt is another than its text or its token ids show: one table for every form
//! that a prompt is logged in.

/// What such a field does to a prompt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unshown {
    /// Pictures, sounds or embeddings are a part of it, of which ids have a placeholder.
    Media,
    /// It is cut to so many tokens.
    Cut,
    /// What the engine holds from before stands in front of it.
    Earlier,
}

/// The fields, by the names that APIs and engines have for them.
const UNSHOWN: [(&str, Unshown); 14] = [
    ("images", Unshown::Media),
    ("image_data", Unshown::Media),
    ("audio_data", Unshown::Media),
    ("video_data", Unshown::Media),
    ("multi_modal_data", Unshown::Media),
    ("multi_modal_inputs", Unshown::Media),
    ("mm_processor_kwargs", Unshown::Media),
    ("mm_hashes", Unshown::Media),
    ("mm_placeholders", Unshown::Media),
    ("input_embeds", Unshown::Media),
    ("inputs_embeds", Unshown::Media),
    ("prompt_embeds", Unshown::Media),
    ("truncate_prompt_tokens", Unshown::Cut),
    ("session_params", Unshown::Earlier),
];

/// The field of this name.
pub fn unshown(name: &str) -> Option<(&'static str, Unshown)> {
    UNSHOWN.into_iter().find(|(known, _)| *known == name)
}

/// Whether a JSON value says anything: `null`, `false` and what is empty do not.
pub fn says_something(json: &str) -> bool {
    let inside = json.strip_prefix(['[', '{']).map(str::trim_start);
    !matches!(json, "null" | "false" | "\"\"") && !inside.is_some_and(|inside| inside.starts_with([']', '}']))
}
