"""Chat requests to token ids with Python's transformers, to compare benches/tokenize.rs with.

    pip install transformers==5.23.0 tokenizers==0.23.3 jinja2==3.1.6
    python benches/tokenize_baseline.py FOLDER
    cargo bench --features tokenize --bench tokenize -- FOLDER

Makes in FOLDER, where it is not there yet, a model (32,000 tokens, trained on the sources of Python's
own library, template of the fixtures) and requests.jsonl (sessions whose chats grow turn by turn), and
says how many tokens a second transformers makes of them.
"""

import json
import pathlib
import random
import shutil
import sys
import sysconfig
import time

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

FIXTURES = pathlib.Path(__file__).parent.parent / "tests/fixtures/tokenize"
SESSIONS, TURNS = 40, 12


def library_texts():
    folder = pathlib.Path(sysconfig.get_paths()["stdlib"])
    return [file.read_text(errors="ignore") for file in sorted(folder.glob("*.py"))]


def make_model(folder):
    sys.path.insert(0, str(FIXTURES))
    import make

    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(make.Regex(make.LLAMA3), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=32_000, show_progress=False, initial_alphabet=pre_tokenizers.ByteLevel.alphabet()
    )
    tokenizer.train_from_iterator(library_texts(), trainer)
    tokenizer.add_tokens([make.special(text) for text in ("<|im_start|>", "<|im_end|>")])
    tokenizer.save(str(folder / "tokenizer.json"))
    for name in ("chat_template.jinja", "tokenizer_config.json"):
        shutil.copy(FIXTURES / "chatml" / name, folder / name)


def make_requests(folder):
    rng = random.Random(1)
    text = "\n".join(library_texts())

    def excerpt(length):
        start = rng.randrange(len(text) - length)
        return text[start : start + length]

    system = {"role": "system", "content": excerpt(6000)}
    sessions = [[system] for _ in range(SESSIONS)]
    # Turn by turn, as a log has sessions that go on at the same time.
    with open(folder / "requests.jsonl", "w") as out:
        for _ in range(TURNS):
            for messages in sessions:
                messages.append({"role": "user", "content": excerpt(rng.randrange(100, 3000))})
                out.write(json.dumps({"model": "m", "messages": messages}) + "\n")
                messages.append({"role": "assistant", "content": excerpt(rng.randrange(100, 1500))})


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / "tokenizer.json").exists():
        make_model(folder)
        make_requests(folder)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder)
    lines = (folder / "requests.jsonl").read_text().splitlines()
    start, processor, tokens = time.perf_counter(), time.process_time(), 0
    for line in lines:
        messages = json.loads(line)["messages"]
        ids = tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False)
        tokens += len(ids)
    seconds, processor = time.perf_counter() - start, time.process_time() - processor
    print(
        f"transformers: {len(lines)} requests, {tokens} tokens, {tokens / seconds:,.0f} tokens/s, "
        f"{tokens / processor:,.0f} tokens/s of processor time"
    )


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]))
