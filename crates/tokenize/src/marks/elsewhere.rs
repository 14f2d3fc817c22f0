//! Texts that only say where another lies, and texts that were encrypted or written in a code.

/// The shortest text that may be one in a code, and the longest single word of a language.
const CODE_BYTES: usize = 64;

/// Whether a text only says where another lies, or is one that was encrypted: a URL of a store, an id of an object, a
/// digest in base64, an envelope.
pub(super) fn lies_elsewhere(text: &str) -> bool {
    const LONGEST: usize = 512;
    let text = text.trim();
    if text.starts_with("-----BEGIN PGP MESSAGE") || text.starts_with("age-encryption.org/") {
        return true;
    }
    if text.len() > LONGEST {
        return false;
    }
    // An object that stands for an attachment: `{"type": "braintrust_attachment", ...}`.
    let kind = text.strip_prefix("{\"type\"").and_then(|rest| rest.split('"').nth(1));
    if kind.is_some_and(|kind| kind.ends_with("attachment") || kind.ends_with("reference")) {
        return true;
    }
    let is_word = text.len() >= CODE_BYTES / 4 && !text.contains(char::is_whitespace);
    let scheme = text.split_once("://").map(|(scheme, _)| scheme.trim_start_matches(['<', '[']));
    let is_of_store = scheme.is_some_and(|scheme| {
        !["http", "https"].contains(&scheme) && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric())
    });
    is_word && (is_of_store || names_object(text) || is_base64_digest(text))
}

/// Whether a word names an object by 32 hexadecimal digits or more, as ids and digests have them.
fn names_object(word: &str) -> bool {
    word.split(|c: char| !(c.is_ascii_hexdigit() || c == '-'))
        .any(|piece| piece.len() <= 80 && piece.bytes().filter(u8::is_ascii_hexdigit).count() >= 32)
}

/// Whether a word is a digest of SHA-256, SHA-512, SHA-1 or MD5 in base64.
fn is_base64_digest(word: &str) -> bool {
    let is_length =
        matches!((word.len(), word.trim_end_matches('=').len()), (44, 43) | (88, 86) | (28, 27) | (24, 22));
    is_length
        && word.bytes().any(|byte| byte.is_ascii_digit())
        && word.bytes().any(|byte| byte.is_ascii_uppercase())
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-".contains(&byte))
}

/// Whether a text was written in a code in which it is longer: URLs', HTML's, or JSON's within JSON. What it would have
/// as it was said stands nowhere in it.
pub(super) fn is_escaped(text: &str) -> bool {
    const FEWEST: usize = 4;
    if text.len() < CODE_BYTES {
        return false;
    }
    let many = |escapes: &[&str]| {
        escapes.iter().map(|one| text.matches(one).take(FEWEST).count()).sum::<usize>() >= FEWEST
    };
    let has_none = |plain: &[char]| !text.contains(plain);
    (has_none(&[' ', '\n']) && many(&["%20", "%0A", "%22", "+%"]))
        || (has_none(&[' ', '<', '>', '"']) && many(&["&nbsp;", "&#32;", "&#x20;"]))
        || (has_none(&['<', '>', '"', '\'']) && many(&["&quot;", "&lt;", "&gt;", "&#39;", "&#34;", "&apos;"]))
        || (text.starts_with('"')
            && text.ends_with('"')
            && has_none(&['\n'])
            && many(&["\\n", "\\\"", "\\u"]))
}

/// Whether a text is another in a code, encrypted or encoded: one long word of letters of both cases and digits.
pub(super) fn is_coded(text: &str) -> bool {
    let text = text.trim();
    let word = text.split_once('[').filter(|(kind, _)| kind.len() <= 8).map_or(text, |(_, inner)| inner);
    let word = word.trim_end_matches(']');
    let has = |is: fn(&u8) -> bool| word.bytes().any(|byte| is(&byte));
    word.len() >= CODE_BYTES
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && has(u8::is_ascii_digit)
        && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+/=_-,:.".contains(&byte))
        && !word.contains("://")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_lie_elsewhere_are_told_by_their_form() {
        for text in [
            "s3://llm-payloads/prod/2025/11/20/4f2a.txt",
            "oss://bucket/4f2a/prompt.json",
            "attachment://0123456789abcdef0123456789abcdef",
            "blob:0a58229f-475e-5342-a279-f299340b1114",
            "https://acct.blob.core.windows.net/prompts/00000000000000000000000000000000.json",
            "<lmnr_payload_url>/v1/payloads/00000000000000000000000000000000.txt</lmnr_payload_url>",
            "@@@langfuseMedia:type=image/jpeg|id=cc48838a-3da8-4ca4-a007-2cf8df930e69|source=base64@@@",
            "{\"type\": \"braintrust_attachment\", \"filename\": \"doc.txt\"}",
            "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=",
            "-----BEGIN PGP MESSAGE-----\n\nhQEM\n-----END PGP MESSAGE-----",
        ] {
            assert!(lies_elsewhere(text), "{text}");
        }
        for text in [
            "https://example.org/articles/rivers-of-europe",
            "Read s3://bucket/a.txt, please.",
            "internationalization-and-localization",
            "{\"type\": \"object\", \"a\": 1}",
            "src/parser/mod.rs",
        ] {
            assert!(!lies_elsewhere(text), "{text}");
        }
    }

    #[test]
    fn one_long_word_of_letters_and_digits_is_coded() {
        let code = "Q2luIG5lIHpvciB6b3JmYSB0ZXIgYmFmYSBkcmFiYSBodW1uZXByYSB0ZXJ0aWtiYSBiYSBi";
        assert!(is_coded(code) && is_coded(&format!("ENC[v1,{code}]")) && is_coded(&format!("{code}==")));
        for text in ["https://example.org/A1/".repeat(9).as_str(), &"a word ".repeat(40), &"ab".repeat(99)] {
            assert!(!is_coded(text), "{text}");
        }
    }

    #[test]
    fn texts_in_a_code_are_told_by_what_they_lack() {
        let said = "You \"are\" a <careful> assistant of a desk,\nand that\nis\nall\n\"that\" you are.";
        let json = serde_json::to_string(said).expect("JSON");
        let url = said.replace(' ', "%20").replace('"', "%22").replace('\n', "%0A");
        let html = said.replace('"', "&quot;").replace('<', "&lt;").replace('>', "&gt;");
        for text in [&json, &url, &html, &said.replace(['"', '<', '>'], "").replace(' ', "&nbsp;")] {
            assert!(is_escaped(text), "{text}");
        }
        for text in [
            said,
            "Why does my page show &quot; and &lt; and &gt; and &#39; in <b>texts</b>, though it must not?",
            "Open https://example.org/a%20b%20c%20d%20e%20f and tell me what is written there, in a few words.",
            "printf(\"a\\n\"); printf(\"b\\n\"); printf(\"c\\n\"); printf(\"d\\n\"); what does this print?",
        ] {
            assert!(!is_escaped(text), "{text}");
        }
    }
}
