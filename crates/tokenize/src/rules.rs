//! What engines do with a request's body before the chat template sees it: a rule a row, an engine a column.
//!
//! The rules are read from the engines' own sources, of the versions in [`ChatRules::version`]: vLLM's
//! `vllm/entrypoints/anthropic/serving.py`, `vllm/entrypoints/openai/responses/utils.py`,
//! `vllm/entrypoints/openai/chat_completion/protocol.py`, `vllm/renderers/chat_utils/chat_message.py` and
//! `vllm/renderers/hf.py`; SGLang's `python/sglang/srt/entrypoints/anthropic/serving.py`,
//! `entrypoints/openai/serving_chat.py`, `entrypoints/openai/serving_responses.py`, `entrypoints/openai/protocol.py`
//! and `parser/jinja_template_utils.py`. `docs/prepare.md` shows the same table to users.

use kvset_core::engines::chat_engine::ChatEngine;

/// The rules of one engine.
#[derive(Debug)]
pub(super) struct ChatRules {
    pub engine: ChatEngine,
    /// The version whose sources were read.
    pub version: &'static str,

    // Anthropic's Messages API.
    /// What stands between the text blocks of `system`.
    pub system_joiner: &'static str,
    /// Whether a block of a system message that begins with [`BILLING_HEADER`] is dropped; in a chat of OpenAI's, its
    /// line.
    pub drops_billing_header: bool,
    /// Whether a system message behind the first one moves to the head of the chat also where the template leaves it
    /// out. Where the template refuses it, it always does.
    pub moves_unrendered_systems: bool,
    /// Roles that are read as a user's.
    pub user_roles: &'static [&'static str],
    /// Whether the `thinking` blocks of an assistant are its reasoning; dropped where not. (SGLang keeps them where it
    /// runs with a reasoning parser, in that parser's own tokens.)
    pub keeps_thoughts: bool,
    /// Whether results of tools go before whatever else a message says; in the order of its blocks where not.
    pub results_first: bool,
    /// Whether text blocks without text are parts of a content.
    pub keeps_empty_texts: bool,
    /// Whether the field `thinking` sets the variable by which the template asks whether the model thinks. Where not,
    /// `disabled` is the effort `none`, or `low` where the template does not tell `none` from an effort, and others are
    /// ignored.
    pub thinking_switches: bool,
    /// Names of efforts that the engine replaces.
    pub renamed_efforts: &'static [(&'static str, &'static str)],
    /// Whether an effort of Anthropic's sets [`Self::effort_switches`], too.
    pub effort_of_output_config_switches: bool,
    /// Whether tools of Anthropic's own servers are skipped; refused where not.
    pub skips_server_tools: bool,
    /// Whether tools are declared with `"strict": false` where a body does not say.
    pub declares_strict: bool,

    // Every chat.
    /// Roles that a chat may have; any where there is none.
    pub roles: &'static [&'static str],
    /// Whether `developer` becomes `system`, at the head, where the template does not name it.
    pub turns_developers_to_system: bool,
    /// What stands between the text parts of a content that the template takes as one text.
    pub part_joiner: &'static str,
    /// Whether a reference to a tool is its name in such a text; left out where not.
    pub writes_tool_references: bool,
    /// Variables that an effort sets: false for `none`, true for another.
    pub effort_switches: &'static [&'static str],
    /// Whether a chat's `reasoning` says how much is thought; refused where not.
    pub reads_reasoning: bool,
    /// Whether arguments of a tool call that are no JSON object are read as an empty one; refused where not.
    pub empties_bad_arguments: bool,
    /// Whether `tool_choice` hides tools: all for `none`, all others where it names one.
    pub tool_choice_hides_tools: bool,
    /// Whether the template sees a tool in the body's order, and whether its loading is deferred. Where not, it sees
    /// the tool's type and its function, whose fields stand in the order of the API; what a body leaves out is null.
    pub shows_tools_as_written: bool,
    /// Whether an assistant's message at the end of a chat becomes a user's; one that is to be continued is tokenised
    /// by itself then, behind all that was rendered. Where not, such a one is rendered, and cut where it ends.
    pub ends_with_user: bool,

    // OpenAI's Responses API.
    /// Where an item of reasoning is read first.
    pub reasoning_places: [&'static str; 2],
    /// What stands before a `developer` message that becomes a `system` message.
    pub developer_label: Option<&'static str>,
    /// What stands between the texts of an assistant whose items follow one another; another message where there is
    /// none.
    pub assistant_joiner: Option<&'static str>,
}

/// How Claude Code begins a block that differs in each of its requests.
pub(super) const BILLING_HEADER: &str = "x-anthropic-billing-header";

/// vLLM's rules.
static VLLM: ChatRules = ChatRules {
    engine: ChatEngine::Vllm,
    version: "0.33.0",
    system_joiner: "",
    drops_billing_header: true,
    moves_unrendered_systems: false,
    user_roles: &["user", "ctx", "msg"],
    keeps_thoughts: true,
    results_first: true,
    keeps_empty_texts: false,
    thinking_switches: false,
    renamed_efforts: &[],
    effort_of_output_config_switches: true,
    skips_server_tools: false,
    declares_strict: false,
    roles: &[],
    turns_developers_to_system: true,
    part_joiner: "\n",
    writes_tool_references: true,
    effort_switches: &["enable_thinking"],
    reads_reasoning: false,
    empties_bad_arguments: true,
    tool_choice_hides_tools: false,
    shows_tools_as_written: false,
    ends_with_user: false,
    reasoning_places: ["content", "summary"],
    developer_label: None,
    assistant_joiner: None,
};

/// SGLang's rules, where it runs without a reasoning parser.
static SGLANG: ChatRules = ChatRules {
    engine: ChatEngine::Sglang,
    version: "0.5.23",
    system_joiner: "\n",
    drops_billing_header: false,
    moves_unrendered_systems: true,
    user_roles: &["user"],
    keeps_thoughts: false,
    results_first: false,
    keeps_empty_texts: true,
    thinking_switches: true,
    renamed_efforts: &[("xhigh", "max")],
    effort_of_output_config_switches: false,
    skips_server_tools: true,
    declares_strict: true,
    roles: &["user", "system", "assistant", "tool", "function", "developer", "latest_reminder", "root"],
    turns_developers_to_system: false,
    part_joiner: " ",
    writes_tool_references: false,
    effort_switches: &["thinking", "enable_thinking"],
    reads_reasoning: true,
    empties_bad_arguments: false,
    tool_choice_hides_tools: true,
    shows_tools_as_written: true,
    ends_with_user: true,
    reasoning_places: ["summary", "content"],
    developer_label: Some("Developer instructions:\n"),
    assistant_joiner: Some("\n\n"),
};

impl ChatRules {
    /// The rules of an engine.
    pub fn of(engine: ChatEngine) -> &'static Self {
        match engine {
            ChatEngine::Vllm => &VLLM,
            ChatEngine::Sglang => &SGLANG,
        }
    }

    /// What an effort is called in the template.
    pub fn effort<'e>(&self, effort: &'e str) -> &'e str
    where
        'static: 'e,
    {
        self.renamed_efforts.iter().find(|(name, _)| *name == effort).map_or(effort, |(_, renamed)| renamed)
    }
}

/// An engine with the version whose sources its rules are read from, such as `vLLM 0.33.0`.
pub fn engine_version(engine: ChatEngine) -> String {
    format!("{engine} {}", ChatRules::of(engine).version)
}
