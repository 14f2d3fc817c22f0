//! Models that are known and not computed: their layers cache something else than the rules here say.

/// Names of classes and types, and what they cache.
#[rustfmt::skip]
pub(super) const REFUSED: &[(&[&str], &str)] = &[
    (&["MllamaForConditionalGeneration", "MllamaForCausalLM", "mllama", "mllama_text_model"],
        "its cross-attention layers cache the tokens of images, not those of the prompt"),
    (&["WhisperForConditionalGeneration", "WhisperForCausalLM", "whisper", "T5ForConditionalGeneration", "t5", "BartForConditionalGeneration",
       "bart", "mbart", "Florence2ForConditionalGeneration", "florence2", "NemotronParseForConditionalGeneration", "nemotron_parse",
       "CohereAsrForConditionalGeneration", "cohere_asr", "T5Gemma2ForConditionalGeneration", "t5gemma2", "t5gemma2_text", "DonutForConditionalGeneration"],
        "a decoder with cross-attention caches what the encoder gives, too"),
    (&["BertModel", "BertForMaskedLM", "BertForSequenceClassification", "BertForTokenClassification", "bert", "RobertaModel",
       "RobertaForMaskedLM", "RobertaForSequenceClassification", "roberta", "XLMRobertaModel", "XLMRobertaForSequenceClassification", "xlm-roberta",
       "ModernBertModel", "ModernBertForSequenceClassification", "modernbert", "NomicBertModel", "nomic_bert", "GteModel", "GteNewModel", "new",
       "CLIPModel", "clip", "SiglipModel", "siglip", "siglip2", "embedding_gemma2", "embedding_gemma2_text", "LlamaBidirectionalModel",
       "LlamaBidirectionalForSequenceClassification"],
        "an encoder keeps no cache between requests"),
    (&["MambaForCausalLM", "mamba", "Mamba2ForCausalLM", "mamba2", "FalconMambaForCausalLM", "falcon_mamba", "RwkvForCausalLM", "rwkv", "xlstm",
       "xLSTMForCausalLM"],
        "no layer of it keeps tokens, only states of constant size"),
    (&["RecurrentGemmaForCausalLM", "recurrent_gemma", "ZambaForCausalLM", "zamba", "Plamo2ForCausalLM", "plamo2", "ZayaForCausalLM", "zaya",
       "JetNemotronForCausalLM", "jet_nemotron", "LaraMiniForCausalLM", "lara_mini", "Lfm3ForCausalLM", "lfm3", "AliceAIForCausalLM", "alice_ai"],
        "the states of its recurrent layers are not among the rules"),
    (&["Phi4FlashForCausalLM", "phi4flash"], "half of its layers read a cache that other layers own"),
    (&["MiniCPM3ForCausalLM", "minicpm3"],
        "vLLM caches keys and values of heads, 2 * L * num_attention_heads * (qk_nope_head_dim + qk_rope_head_dim) * b, and SGLang \
         the latent, L * (kv_lora_rank + qk_rope_head_dim) * b"),
    (&["OuroForCausalLM", "ouro", "IQuestLoopCoderForCausalLM", "iquest_loopcoder", "HrmTextForCausalLM", "hrm_text", "Inkling2LoopForCausalLM",
       "Inkling2LoopForConditionalGeneration", "inkling2_loop", "inkling2_loop_text"],
        "its layers run several times for each token, and cache each time"),
    (&["InklingForCausalLM", "InklingForConditionalGeneration", "inkling_mm_model", "inkling_text", "Inkling2ForCausalLM",
       "Inkling2ForConditionalGeneration", "inkling2", "inkling2_text"],
        "convolutions of its keys and values are cached with a window of their own"),
    (&["Qwen4ExpForCausalLM", "Qwen4ExpForConditionalGeneration", "qwen4_exp", "qwen4_exp_text", "Glm5NextForCausalLM",
       "Glm5NextForConditionalGeneration", "glm5_next", "glm5_next_text", "Step5ForCausalLM", "Step5ForConditionalGeneration", "step5", "step5_text",
       "AXK2ForCausalLM", "axk2", "Dots3NoteForCausalLM", "Dots3NoteForConditionalGeneration", "dots3_note", "dots3_note_text"],
        "its indexer caches summaries of several tokens in layouts that are not among the rules"),
    (&["DeepseekV41ForCausalLM", "deepseek_v41", "DeepseekV4ForConditionalGeneration"],
        "its window is rebuilt after each hit and its compressed records have another form than DeepSeek-V4's"),
    (&["MuseSparkForConditionalGeneration", "muse_spark", "muse_spark_text"], "its layers are not among the rules"),
    (&["UnlimitedOCRForCausalLM", "UnlimitedOcrForConditionalGeneration", "unlimited_ocr", "unlimited_ocr_text"],
        "it keeps the whole prompt and a window of the answer"),
    (&["PanguProMoEV2ForCausalLM", "pangu_pro_moe_v2"], "its layers cache learned tokens before each prompt"),
    (&["DiffusionGemmaForBlockDiffusion", "diffusion_gemma", "diffusion_gemma_text"], "it writes blocks of tokens several times"),
];

/// Why a class or a type is not computed; a class that is computed stands above its type.
pub(crate) fn refusal(name: &str) -> Option<&'static str> {
    REFUSED.iter().find(|(names, _)| names.contains(&name)).map(|(_, reason)| *reason)
}
