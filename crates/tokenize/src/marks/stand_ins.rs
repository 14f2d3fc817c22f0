//! What stands in a text for a name, a picture, a sound or a file.

use kvset_core::units::names::listed;

/// Whether a name or a picture in a text was replaced by what stands for any: `<PERSON>`, `[EMAIL_1]`,
/// `[Image omitted]`.
pub(super) fn has_stand_in(text: &str) -> bool {
    const LONGEST: usize = 48;
    let opens = text.match_indices(['<', '[', '{']);
    opens.into_iter().any(|(at, _)| {
        let inner = text[at + 1..].trim_start_matches('{');
        let inner = inner
            .find(['>', ']', '}', '\n', '<', '['])
            .filter(|end| *end <= LONGEST)
            .map(|end| &inner[..end]);
        inner.is_some_and(|inner| is_entity(inner) || is_mask_word(inner) || is_attachment(inner))
            && !text[at..].starts_with("</")
    }) || has_media_mark(text)
}

/// Whether a text has a mark that an engine puts a picture, a sound or a film in the place of: `<image>`, `[IMG]`,
/// `<|vision_start|>`, `<start_of_image>`. HTML's elements of these names have an end, or attributes.
pub(super) fn has_media_mark(text: &str) -> bool {
    const LONGEST: usize = 32;
    const MEDIA: [&str; 9] = listed("image img images video audio picture vision speech sound");
    const BESIDE: [&str; 14] =
        listed("start end begin of bos eos pad token soft patch placeholder data here embed");
    let opens = text.match_indices(['<', '[']);
    opens.into_iter().any(|(at, open)| {
        let close = if open == "<" { '>' } else { ']' };
        let Some(inner) =
            text[at + 1..].find(close).filter(|end| *end <= LONGEST).map(|end| &text[at + 1..=at + end])
        else {
            return false;
        };
        let is_element = || {
            let behind = &text[at + 1 + inner.len()..];
            open == "<"
                && behind.contains(&format!("</{inner}>"))
                && !behind.starts_with(&format!(">./</{inner}>"))
        };
        // Spaces part words of a sentence, and slashes end elements.
        let is_name = !inner.is_empty()
            && inner.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"|_-".contains(&byte));
        let words = inner.split(['|', '_', '-']).filter(|word| !word.is_empty());
        let (mut names, mut is_all) = (false, true);
        for word in words.map(str::to_ascii_lowercase) {
            let bare = word.trim_end_matches(|c: char| c.is_ascii_digit());
            names |= MEDIA.contains(&bare);
            is_all &= bare.is_empty() || MEDIA.contains(&bare) || BESIDE.contains(&bare);
        }
        // A word in brackets is a mark in capitals only.
        let is_mark = open == "<" || inner.bytes().all(|byte| !byte.is_ascii_lowercase());
        // `Vec<Image>` is a type.
        let is_type = text[..at].ends_with(char::is_alphanumeric) && inner.starts_with(char::is_uppercase);
        is_name && names && is_all && is_mark && !is_type && !is_element()
    })
}

/// Whether a few words name a file that stood there: `Attached file: invoice.pdf`.
fn is_attachment(words: &str) -> bool {
    const FILES: [&str; 8] = listed("attached attachment file image document pdf upload uploaded");
    let named = words.split_once(':').or_else(|| words.split_once(' '));
    named.is_some_and(|(what, name)| {
        let end = name.trim().rsplit_once('.').map_or("", |(_, end)| end);
        let is_file = (2..=4).contains(&end.len()) && end.bytes().all(|byte| byte.is_ascii_alphanumeric());
        is_file && what.to_lowercase().split_whitespace().any(|word| FILES.contains(&word))
    })
}

/// Whether a name in capitals is of what identifies somebody.
fn is_entity(name: &str) -> bool {
    const ENTITIES: [&str; 32] = listed(
        "PERSON NAME EMAIL PHONE ADDRESS LOCATION CITY COUNTRY STREET DATE DOB BIRTH SSN IBAN CARD CREDIT ACCOUNT URL IP \
            ID PASSPORT LICENSE ORGANIZATION ORG COMPANY USERNAME PASSWORD SECRET KEY NRP CRYPTO PII",
    );
    let is_name =
        name.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit() || b"_- ".contains(&byte));
    is_name && name.split(['_', '-', ' ']).any(|word| ENTITIES.contains(&word))
}

/// Whether a few words say that something was taken out.
fn is_mask_word(words: &str) -> bool {
    const WORDS: [&str; 7] = listed("redact mask omitted removed scrubbed anonymi hidden");
    let lower = words.to_lowercase();
    words.split_whitespace().count() <= 4
        && !words.contains(['=', '"', '/'])
        && WORDS.iter().any(|word| lower.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_of_pictures_and_sounds_are_recognised() {
        for text in [
            "USER: <image>\nWhat is it?",
            "<|vision_start|><|image_pad|><|vision_end|>What?",
            "[IMG]What?",
            "<start_of_image> What?",
            "<|image_1|> What?",
            "<image_placeholder>What?",
            "(<image>./</image>)What?",
            "<|audio_bos|><|AUDIO|><|audio_eos|>What?",
            "<image_soft_token>",
            "[Attached file: invoice.pdf] What?",
        ] {
            assert!(has_stand_in(text), "{text}");
        }
        for text in [
            "<video controls>a</video> <audio>b</audio> <img src=\"a.png\">",
            "The [image] shows <imagine> and [1] <div> of [image: a river].",
            "Vec<Image> and images[start] and <T>",
            "[file system: how does it work?]",
        ] {
            assert!(!has_media_mark(text) && !has_stand_in(text), "{text}");
        }
    }

    /// Masks made the prompts of different users one.
    #[test]
    fn stand_ins_of_names_and_pictures_are_recognised() {
        for text in [
            "I am <PERSON> and live here.",
            "Mail [EMAIL_1], please.",
            "[Image omitted] What is it?",
            "See data:image/png;base64,<omitted> there.",
            "Card {{CREDIT_CARD}} of [REDACTED_NAME_3].",
        ] {
            assert!(has_stand_in(text), "{text}");
        }
        for text in [
            "<div>[INFO] a[0] {x}</div>",
            "<INSTRUCTIONS>Be brief.</INSTRUCTIONS>",
            "[INST] [TODO] <EOS>",
            "if (a < b) [1] {\"hidden\": 1}",
            "<input type=\"hidden\">",
        ] {
            assert!(!has_stand_in(text), "{text}");
        }
    }
}
