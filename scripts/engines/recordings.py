"""What is recorded: one file for an engine, a workload and its settings."""

from workloads import BY_NAME

OUTPUTS = ("cached", "ignored")

# The workloads that every engine answers.
PLAIN = ("agents-16", "short-turns-16", "agents-64", "chats-16", "chats-64", "fixed-16")

# Layouts of models that people deploy, in vLLM's groups; capacities are blocks of the pool that all groups share,
# from a little more than the longest request needs while its prompt is computed.
HYBRIDS = [
    # gpt-oss: every second layer has a window of 128 tokens.
    ("agents-16", "window-128", ["full", "window:128"], {}, [450, 900, 2000, 7000]),
    ("agents-16", "window-128-dense", ["full", "window:128"], {"retention": None}, [450, 900, 2000, 7000]),
    ("agents-16", "window-128-every-64", ["full", "window:128"], {"retention": 64}, [450, 900, 2000, 7000]),
    ("short-turns-16", "window-128-chunk-512", ["full", "window:128"], {"prefill_chunk_tokens": 512}, [300, 700, 4000]),
    ("agents-64", "window-128", ["full", "window:128"], {}, [450, 900, 2000, 6000]),
    # Gemma 3: five windowed layers to a full one.
    ("agents-16", "windows-1024", ["full"] + ["window:1024"] * 5, {}, [1300, 2500, 5000, 20000]),
    ("agents-64", "windows-1024-chunk-2048", ["full"] + ["window:1024"] * 5, {"prefill_chunk_tokens": 2048}, [700, 1500, 5000]),
    # Qwen3-Next: three linear layers to a full one.
    ("agents-16", "mamba-3", ["full"] + ["mamba"] * 3, {}, [260, 600, 1500, 6000]),
    ("agents-64", "mamba-3", ["full"] + ["mamba"] * 3, {}, [260, 600, 1500, 6000]),
    ("short-turns-16", "mamba-3-chunk-512", ["full"] + ["mamba"] * 3, {"prefill_chunk_tokens": 512}, [300, 700, 4000]),
    # Answers that come back, forks within pages, prompts of whole pages again.
    ("chats-16", "window-128", ["full", "window:128"], {}, [165, 300, 700, 3500]),
    ("chats-16", "window-128-dense", ["full", "window:128"], {"retention": None}, [165, 300, 700, 3500]),
    ("chats-16", "window-128-every-64-chunk-512", ["full", "window:128"], {"retention": 64, "prefill_chunk_tokens": 512}, [165, 300, 700, 3500]),
    ("chats-64", "windows-1024-chunk-2048", ["full"] + ["window:1024"] * 5, {"prefill_chunk_tokens": 2048}, [420, 800, 1600, 6000]),
    ("chats-16", "mamba-3", ["full"] + ["mamba"] * 3, {}, [110, 250, 600, 3500]),
    ("chats-64", "mamba-3-chunk-900", ["full"] + ["mamba"] * 3, {"prefill_chunk_tokens": 900}, [120, 250, 600, 3000]),
    ("fixed-16", "window-32", ["full", "window:32"], {}, [50, 150, 300, 800]),
    ("fixed-16", "mamba-3", ["full"] + ["mamba"] * 3, {}, [50, 150, 300, 800]),
]

# A head that drafts in the same cache, and how many tokens at a time. All groups of attention hold layers of it, so all of
# them lose a page.
DRAFTS = [
    ("agents-16", "full-draft-1", ["full"], {}, [220, 350, 700, 1500, 3000, 6000]),
    ("agents-64", "full-draft-3", ["full"], {"draft_tokens": 3}, [230, 400, 800, 1600, 3000, 6000]),
    ("agents-16", "window-128-draft-1", ["full", "window:128"], {}, [450, 900, 1400, 2000, 4000, 7000]),
    ("agents-16", "window-128-dense-draft-3", ["full", "window:128"], {"retention": None, "draft_tokens": 3}, [450, 900, 1400, 2000, 4000, 7000]),
    ("short-turns-16", "window-128-every-64-draft-1", ["full", "window:128"], {"retention": 64, "prefill_chunk_tokens": 512}, [300, 500, 700, 1400, 2200, 4000]),
    ("agents-16", "mamba-3-draft-1", ["full"] + ["mamba"] * 3, {}, [300, 600, 900, 1500, 3000, 6000]),
    ("chats-16", "full-draft-1", ["full"], {}, [90, 150, 300, 700, 2500]),
    ("fixed-16", "full-draft-1", ["full"], {}, [40, 120, 250, 400, 800]),
    ("chats-64", "full-draft-3", ["full"], {"draft_tokens": 3}, [110, 200, 400, 2500]),
    ("chats-16", "window-128-draft-1", ["full", "window:128"], {}, [170, 300, 700, 3500]),
    ("chats-16", "window-128-dense-draft-3", ["full", "window:128"], {"retention": None, "draft_tokens": 3}, [170, 300, 700, 3500]),
    ("chats-16", "mamba-3-draft-1", ["full"] + ["mamba"] * 3, {}, [120, 250, 600, 3500]),
    ("chats-64", "mamba-2-chunk-900-draft-1", ["full"] + ["mamba"] * 2, {"prefill_chunk_tokens": 900}, [120, 250, 400, 600, 3000]),
    ("fixed-16", "mamba-2-draft-1", ["full"] + ["mamba"] * 2, {}, [50, 100, 150, 300, 800]),
]

# The same where its layers lie in groups of one kind alone.
DRAFT_PLACES = [
    ("agents-16", "window-128-draft-full", ["full", "window:128"], {"draft_layers": "full"}, [450, 900, 1400, 2000, 4000, 7000]),
    ("agents-16", "window-128-dense-draft-3-full", ["full", "window:128"], {"retention": None, "draft_tokens": 3, "draft_layers": "full"}, [450, 900, 1400, 2000, 4000, 7000]),
    ("short-turns-16", "window-128-every-64-draft-full", ["full", "window:128"], {"retention": 64, "prefill_chunk_tokens": 512, "draft_layers": "full"}, [300, 500, 700, 1400, 2200, 4000]),
    ("agents-64", "windows-1024-draft-full", ["full"] + ["window:1024"] * 5, {"prefill_chunk_tokens": 2048, "draft_layers": "full"}, [720, 1000, 1500, 2200, 3500, 5000]),
    ("agents-16", "window-128-draft-windows", ["full", "window:128"], {"draft_layers": "windows"}, [450, 900, 1400, 2000, 4000, 7000]),
    ("short-turns-16", "window-128-every-64-draft-windows", ["full", "window:128"], {"retention": 64, "prefill_chunk_tokens": 512, "draft_layers": "windows"}, [300, 500, 700, 1400, 2200, 4000]),
    ("chats-16", "window-128-draft-full", ["full", "window:128"], {"draft_layers": "full"}, [170, 300, 700, 3500]),
    ("chats-16", "window-128-draft-windows", ["full", "window:128"], {"draft_layers": "windows"}, [170, 300, 700, 3500]),
]

# Requests that overlap, up to a hundred or more in flight, where a step takes a quarter of a second. In the smallest pools they
# wait for each other, and some are preempted. A step computes all prompts that begin with it.
VLLM_LOADS = [
    ("paced-16", "full-draft-1", ["full"], {"draft_tokens": 1}, [700, 1000, 1600, 2500, 5000]),
    ("paced-16", "window-128", ["full", "window:128"], {}, [900, 1300, 2000, 3500, 8000]),
    ("paced-16", "window-128-dense", ["full", "window:128"], {"retention": None}, [900, 1300, 2000, 3500, 8000]),
    ("paced-16", "windows-1024", ["full"] + ["window:1024"] * 5, {}, [4000, 6000, 9000, 20000]),
    ("paced-16", "mamba-3", ["full"] + ["mamba"] * 3, {}, [1600, 3000, 6000]),
    ("paced-64", "window-128-draft-1", ["full", "window:128"], {"draft_tokens": 1}, [900, 1300, 2000, 3500, 8000]),
    ("paced-16", "window-128-draft-full", ["full", "window:128"], {"draft_tokens": 1, "draft_layers": "full"}, [900, 1300, 2000, 3500, 8000]),
    ("paced-64", "window-128-draft-windows", ["full", "window:128"], {"draft_tokens": 1, "draft_layers": "windows"}, [900, 1300, 2000, 3500, 8000]),
    ("paced-64", "mamba-3-ignored", ["full"] + ["mamba"] * 3, {"outputs": "ignored", "step_ms": 10_000}, [1600, 3000, 6000]),
    # Bursts of equal prompts, and less room than what is in flight.
    ("crowd-16", "full", None, {}, [250, 400, 700, 1200, 3000]),
    ("crowd-64", "full", None, {}, [200, 400, 700, 1200, 3000]),
    ("rush-16", "full", None, {}, [60, 120, 250, 400, 800]),
    ("crowd-16", "full-draft-1", ["full"], {"draft_tokens": 1}, [250, 400, 700, 1200, 3000]),
    ("crowd-16", "window-128", ["full", "window:128"], {}, [400, 700, 1200, 4000]),
    ("crowd-64", "windows-1024", ["full"] + ["window:1024"] * 5, {}, [1000, 2000, 4000, 9000]),
    ("crowd-16", "mamba-3", ["full"] + ["mamba"] * 3, {}, [500, 900, 4000]),
    ("crowd-16", "window-128-draft-full", ["full", "window:128"], {"draft_tokens": 1, "draft_layers": "full"}, [400, 700, 1200, 4000]),
    ("crowd-64", "window-128-draft-windows", ["full", "window:128"], {"draft_tokens": 1, "draft_layers": "windows"}, [500, 900, 1500, 4000]),
]

# The same for SGLang, in pools that hold what is in flight.
SGLANG_LOADS = [
    ("paced-16", "cached", {"step_ms": 100}, [1500, 2000, 2500, 3500, 5000, 7000]),
    ("paced-16", "slow", {"step_ms": 250}, [2500, 3000, 3500, 4500, 7000]),
    ("paced-64", "cached", {"step_ms": 100}, [2000, 2500, 3500, 5000, 7000]),
    ("paced-16", "draft", {"step_ms": 100, "draft_tokens": 1}, [1500, 2000, 2500, 3500, 5000, 7000]),
    ("paced-1", "cached", {"step_ms": 100}, [4000, 6000, 9000, 15000, 30000]),
    ("crowd-16", "cached", {"step_ms": 50}, [300, 400, 600, 900]),
    ("crowd-16", "draft", {"step_ms": 50, "draft_tokens": 1}, [300, 400, 600, 900]),
    ("crowd-64", "draft", {"step_ms": 50, "draft_tokens": 1}, [200, 300, 500, 900]),
    ("rush-16", "cached", {"step_ms": 100}, [250, 400, 800]),
]

# LMCache's default chunk is 256 tokens; a chunk of one page tells the order apart from the grouping.
CHUNKS = [("agents-16", 16), ("agents-16", 256), ("short-turns-16", 256), ("agents-64", 64), ("agents-64", 256)]
CHUNKS += [("chats-16", 16), ("chats-16", 64), ("fixed-16", 16)]


# The same while requests overlap: those of a step are looked up before the first of them is stored.
CHUNK_LOADS = [("paced-16", 16, 1_000), ("paced-16", 256, 1_000), ("paced-64", 256, 2_000)]
CHUNK_LOADS += [("crowd-16", 16, 1_000), ("crowd-64", 128, 2_000), ("rush-16", 16, 1_000)]

# LMCache as a process of its own: its default watermark and batch, and others.
PROCESSES = [
    ("agents-16", 16, (0.8, 0.2)),
    ("agents-16", 256, (0.8, 0.2)),
    ("short-turns-16", 256, (0.8, 0.2)),
    ("agents-64", 256, (0.8, 0.2)),
    ("agents-16", 16, (0.5, 0.05)),
    ("chats-16", 16, (0.8, 0.2)),
    ("chats-16", 64, (0.5, 0.05)),
    ("fixed-16", 16, (0.8, 0.2)),
]

# The same while requests overlap: all of a request's chunks are touched as it ends.
PROCESS_LOADS = [("paced-16", 16, (0.8, 0.2)), ("paced-16", 64, (0.8, 0.05)), ("paced-64", 256, (0.8, 0.2))]
PROCESS_LOADS += [("crowd-16", 16, (0.8, 0.2)), ("rush-16", 16, (0.8, 0.05))]

# A Mooncake store: its default lease, watermark and batch, and others; and the requests of so many milliseconds at once.
STORES = [
    ("paced-16", (10_000, 0.9, 0.05), {}),
    ("paced-64", (10_000, 0.9, 0.05), {}),
    ("paced-16", (2_000, 0.7, 0.2), {}),
    ("paced-16", (2_000, 0.9, 0.05), {"burst_ms": 5_000}),
    # A segment has 256 objects at least.
    ("crowd-16", (2_000, 0.9, 0.05), {}, [400, 700, 1200, 3000]),
    ("rush-16", (2_000, 0.9, 0.05), {}, [256, 300, 400, 800]),
]

# The same while requests overlap: pages are put as the step ends that computes them. The last has prompts that take several.
STORE_LOADS = [
    ("paced-16", (10_000, 0.9, 0.05), {"step_ms": 250}),
    ("paced-16", (2_000, 0.7, 0.2), {"step_ms": 1_000}),
    ("paced-64", (10_000, 0.9, 0.05), {"step_ms": 1_000}),
    ("paced-64", (10_000, 0.9, 0.05), {"step_ms": 250, "prefill_chunk_tokens": 512}),
    ("crowd-16", (2_000, 0.9, 0.05), {"step_ms": 250}, [400, 700, 1200, 3000]),
]

# LMCache below vLLM: its chunk and its capacity, in pages.
CHAINS = [("agents-16", 256, 2_000), ("agents-16", 16, 1_200), ("short-turns-16", 256, 1_600), ("agents-64", 256, 1_600)]
CHAINS += [("chats-16", 64, 500), ("chats-16", 16, 300), ("fixed-16", 16, 200)]

# The same while requests overlap, in pools that hold what is in flight.
CHAIN_LOADS = [
    ("paced-16", 16, 4_000, {"step_ms": 250}, [2000, 3000, 5000]),
    ("paced-16", 256, 4_000, {"step_ms": 500}, [3000, 3500, 5000]),
    ("paced-64", 256, 3_000, {"step_ms": 250}, [2700, 3200, 5000]),
    ("crowd-16", 16, 1_000, {"step_ms": 250}, [700, 1200, 3000]),
    ("rush-16", 16, 200, {"step_ms": 250}, [120, 250, 400]),
]

# vLLM's own tier in host memory: what it is told, its pages, and the device's. The smallest tiers hold less than a prompt.
OFFLOADS = [
    ("agents-16", {}, 2_000, [220, 350, 700, 1500]),
    ("agents-16", {}, 150, [220, 350, 700, 1500]),
    ("agents-16", {"policy": "arc"}, 2_000, [220, 350, 700, 1500]),
    ("agents-16", {"policy": "arc"}, 150, [220, 350, 700, 1500]),
    ("agents-16", {"store_threshold": 2}, 2_000, [220, 350, 700, 1500]),
    ("agents-16", {"policy": "arc", "store_threshold": 2, "blocks_per_chunk": 4}, 1_200, [220, 350, 700, 1500]),
    ("agents-16", {"prefill_chunk_tokens": 512}, 1_200, [220, 350, 700, 1500]),
    ("short-turns-16", {"policy": "arc", "prefill_chunk_tokens": 512}, 1_600, [180, 280, 550, 1100]),
    ("agents-64", {"blocks_per_chunk": 4}, 1_600, [230, 400, 800, 1600]),
    # Answers that come back, forks within pages, prompts of whole pages again.
    ("chats-16", {}, 500, [90, 150, 300, 700]),
    ("chats-16", {}, 60, [90, 150, 300, 700]),
    ("chats-16", {"policy": "arc", "store_threshold": 2, "blocks_per_chunk": 4}, 500, [90, 150, 300, 700]),
    ("chats-16", {"policy": "arc", "prefill_chunk_tokens": 512}, 300, [90, 150, 300, 700]),
    ("fixed-16", {}, 200, [40, 120, 250, 400]),
]

# The same over several groups of layers: what the layout is called, its groups, what vLLM and its tier are told, the tier's
# rows, each of a page of one group, and the device's blocks.
WINDOW, WINDOWS, STATES = ["full", "window:128"], ["full"] + ["window:1024"] * 5, ["full"] + ["mamba"] * 3
HYBRID_OFFLOADS = [
    ("agents-16", "window-128", WINDOW, {}, 2_000, [450, 600, 900, 1400, 2000, 4000]),
    ("agents-16", "window-128", WINDOW, {"policy": "arc", "store_threshold": 2}, 1_200, [450, 600, 900, 1400, 2000, 4000]),
    ("agents-16", "window-128", WINDOW, {"prefill_chunk_tokens": 512}, 260, [450, 600, 900, 1400, 2000, 4000]),
    ("agents-16", "window-128", WINDOW, {"policy": "arc", "prefill_chunk_tokens": 512}, 260, [450, 600, 900, 1400, 2000, 4000]),
    ("agents-16", "window-128-dense", WINDOW, {"retention": None, "policy": "arc"}, 2_500, [450, 600, 900, 1400, 2000, 4000]),
    ("agents-16", "window-128-every-64", WINDOW, {"retention": 64, "blocks_per_chunk": 4}, 2_000, [450, 600, 900, 1400, 2000, 4000]),
    ("short-turns-16", "window-128", WINDOW, {"store_threshold": 2, "prefill_chunk_tokens": 512}, 1_600, [300, 500, 700, 1400, 2200, 4000]),
    ("agents-16", "windows-1024", WINDOWS, {}, 5_000, [1300, 1700, 2500, 3500, 5000, 9000]),
    ("agents-64", "windows-1024", WINDOWS, {"policy": "arc", "prefill_chunk_tokens": 2048}, 2_000, [700, 1000, 1500, 2200, 3500, 5000]),
    ("agents-16", "mamba-3", STATES, {}, 1_500, [260, 400, 600, 1000, 1500, 3000]),
    ("agents-16", "mamba-3", STATES, {"policy": "arc", "store_threshold": 2}, 1_500, [260, 400, 600, 1000, 1500, 3000]),
    ("short-turns-16", "mamba-3", STATES, {"policy": "arc", "prefill_chunk_tokens": 512}, 1_200, [300, 500, 700, 1400, 2200, 4000]),
    ("agents-64", "mamba-3", STATES, {"blocks_per_chunk": 4, "prefill_chunk_tokens": 2048}, 1_600, [260, 400, 600, 1000, 1500, 3000]),
    ("chats-16", "window-128", WINDOW, {}, 600, [165, 300, 700, 3500]),
    ("chats-16", "window-128", WINDOW, {"policy": "arc", "prefill_chunk_tokens": 512}, 200, [165, 300, 700, 3500]),
    ("chats-16", "mamba-3", STATES, {"policy": "arc", "store_threshold": 2}, 500, [110, 250, 600, 3500]),
    ("fixed-16", "mamba-3", STATES, {}, 200, [50, 150, 300, 800]),
]

# The same with a head that drafts.
DRAFT_OFFLOADS = [
    ("agents-16", "full-draft-1", ["full"], {"draft_tokens": 1}, 1_500, [220, 350, 700, 1500, 3000]),
    ("agents-64", "full-draft-3", ["full"], {"draft_tokens": 3, "policy": "arc", "store_threshold": 2}, 1_200, [230, 400, 800, 1600, 3000]),
    ("agents-16", "window-128-draft-1", WINDOW, {"draft_tokens": 1}, 2_000, [450, 600, 900, 1400, 2000, 4000]),
    ("agents-16", "window-128-dense-draft-3", WINDOW, {"draft_tokens": 3, "retention": None, "policy": "arc", "blocks_per_chunk": 4}, 2_000, [450, 600, 900, 1400, 2000, 4000]),
    ("short-turns-16", "window-128-every-64-draft-1", WINDOW, {"draft_tokens": 1, "retention": 64, "blocks_per_chunk": 4, "prefill_chunk_tokens": 512}, 1_600, [300, 500, 700, 1400, 2200, 4000]),
    ("agents-16", "mamba-3-draft-1", STATES, {"draft_tokens": 1}, 1_500, [300, 400, 600, 1000, 1500, 3000]),
    ("agents-16", "window-128-draft-full", WINDOW, {"draft_tokens": 1, "draft_layers": "full"}, 2_000, [450, 600, 900, 1400, 2000, 4000]),
    ("short-turns-16", "window-128-every-64-draft-full", WINDOW, {"retention": 64, "draft_tokens": 1, "draft_layers": "full", "blocks_per_chunk": 4, "prefill_chunk_tokens": 512}, 1_600, [300, 500, 700, 1400, 2200, 4000]),
    ("agents-16", "window-128-draft-windows", WINDOW, {"draft_tokens": 1, "draft_layers": "windows", "policy": "arc"}, 1_200, [450, 600, 900, 1400, 2000, 4000]),
    ("chats-16", "full-draft-1", ["full"], {"draft_tokens": 1}, 400, [90, 150, 300, 700]),
    ("chats-16", "window-128-draft-1", WINDOW, {"draft_tokens": 1}, 600, [170, 300, 700, 3500]),
    ("chats-16", "mamba-3-draft-1", STATES, {"draft_tokens": 1}, 500, [120, 250, 600, 3500]),
]

# The same while requests overlap, up to a hundred in flight.
OFFLOAD_LOADS = [
    ("paced-16", "window-128", WINDOW, {"step_ms": 250, "prefill_chunk_tokens": 65_536}, 4_000, [900, 1300, 2000, 3500, 8000]),
    ("paced-64", "window-128-arc", WINDOW, {"step_ms": 250, "prefill_chunk_tokens": 65_536, "policy": "arc"}, 3_000, [900, 1300, 2000, 3500, 8000]),
    ("paced-16", "windows-1024", WINDOWS, {"step_ms": 250, "prefill_chunk_tokens": 65_536}, 12_000, [4000, 6000, 9000, 20000]),
    ("paced-16", "mamba-3", STATES, {"step_ms": 250, "prefill_chunk_tokens": 65_536}, 4_000, [1600, 3000, 6000]),
    ("crowd-16", "window-128", WINDOW, {"step_ms": 250, "prefill_chunk_tokens": 65_536}, 1_200, [400, 700, 1200, 4000]),
]


# SGLang asks its tree for room before each token, so the workload with the long answers takes it ten times as long; to
# record it as well, name it here.
SGLANG = ("agents-16", "short-turns-16", "agents-1", "chats-16", "chats-1", "fixed-16")

# With a head that drafts in the same cache.
SGLANG_DRAFTS = [("agents-16", "ignored"), ("short-turns-16", "cached"), ("agents-1", "cached")]
SGLANG_DRAFTS += [("chats-16", "cached"), ("chats-64", "cached"), ("chats-1", "cached"), ("fixed-16", "ignored")]

# SGLang's HiCache, which is a part of its tree: pages of the device and of the host. Pages of 4 tokens, since less than
# 10 tokens are not loaded back.
WRITES = ("write_through", "write_through_selective", "write_back")
HICACHES = [
    ("agents-16", "cached", [(300, 150), (300, 700), (300, 3000), (700, 300), (700, 1500)]),
    ("short-turns-16", "ignored", [(220, 100), (220, 500), (220, 2500), (550, 250), (550, 1100)]),
    ("short-turns-4", "cached", [(240, 100), (240, 600), (240, 2500), (480, 900)]),
    ("agents-1", "cached", [(1400, 700), (1400, 3500), (1400, 14000), (3000, 1500), (3000, 7000)]),
    ("chats-16", "cached", [(100, 50), (100, 200), (100, 1000), (300, 150), (300, 600)]),
    ("chats-1", "cached", [(520, 260), (520, 1200), (520, 5000), (1600, 800)]),
    ("fixed-16", "cached", [(50, 30), (50, 150), (120, 120), (250, 250)]),
]


# The same while requests overlap, on devices that hold what is in flight.
HICACHE_LOADS = [
    ("paced-16", "cached", 100, [(1500, 400), (1500, 2000), (2000, 1000), (3000, 2000)]),
    ("paced-1", "cached", 100, [(4000, 1000), (4000, 6000), (6000, 3000), (9000, 6000)]),
    ("crowd-16", "cached", 50, [(300, 75), (300, 300), (400, 400), (600, 600)]),
]

# SGLang with a pool of its own for windows: gpt-oss and Gemma 3, at its default ratio of tokens and at others, in chunks and in
# one. Capacities are blocks of one group's layers, split by the engine's rule. The smallest pools of windows hold less than
# a prompt, which is then computed in smaller steps.
SGLANG_WINDOWS = [
    ("agents-16", "window-128", ["full", "window:128"], {}, [420, 601, 901, 1401, 2000, 7000]),
    ("agents-16", "window-128-ignored", ["full", "window:128"], {"outputs": "ignored"}, [451, 601, 901, 1401, 2000, 7000]),
    ("short-turns-16", "window-128-ratio-0.2-chunk-512", ["full", "window:128"], {"swa_full_tokens_ratio": 0.2, "prefill_chunk_tokens": 512}, [313, 340, 421, 700, 1501, 4000]),
    ("agents-16", "windows-1024-ratio-0.5", ["full"] + ["window:1024"] * 5, {"outputs": "ignored", "swa_full_tokens_ratio": 0.5, "prefill_chunk_tokens": 2048}, [1301, 2500, 4000, 7001, 12000, 20000]),
    ("agents-64", "window-128-chunk-512", ["full", "window:128"], {"outputs": "ignored", "prefill_chunk_tokens": 512}, [400, 650, 1000, 1600, 3000, 6000]),
    ("agents-1", "window-128", ["full", "window:128"], {}, [2900, 3601, 5501, 9001, 15000, 50000]),
    ("chats-16", "window-128", ["full", "window:128"], {}, [200, 301, 700, 3500]),
    ("chats-1", "window-128", ["full", "window:128"], {"prefill_chunk_tokens": 512}, [1300, 2001, 5000, 20000]),
    ("fixed-16", "window-32-ratio-0.5", ["full", "window:32"], {"swa_full_tokens_ratio": 0.5}, [60, 151, 300, 800]),
]

# SGLang with a pool of its own for states: Qwen3-Next in both types of its states, at its default ratio of memory and at
# another, in chunks and in one. Capacities are blocks of one group's layers, split by the engine's rule.
SGLANG_STATES = [
    ("agents-16", "mamba-3", ["full"] + ["mamba"] * 3, {"state_tokens": 544}, [2500, 4000, 6000, 9000, 14000, 30000]),
    ("agents-16", "mamba-3-ignored", ["full"] + ["mamba"] * 3, {"outputs": "ignored", "state_tokens": 544}, [2500, 4000, 6000, 9000, 14000, 30000]),
    ("short-turns-16", "mamba-3-ratio-0.4-chunk-512", ["full"] + ["mamba"] * 3, {"state_tokens": 544, "mamba_full_memory_ratio": 0.4, "prefill_chunk_tokens": 512}, [2200, 3000, 4500, 7000, 12000, 24000]),
    ("agents-16", "mamba-3-float32", ["full"] + ["mamba"] * 3, {"outputs": "ignored", "state_tokens": 1056, "prefill_chunk_tokens": 1008}, [4000, 6000, 9000, 14000, 24000, 50000]),
    ("agents-64", "mamba-3-chunk-512", ["full"] + ["mamba"] * 3, {"state_tokens": 544, "outputs": "ignored", "prefill_chunk_tokens": 512}, [1200, 2000, 3000, 4500, 7000, 14000]),
    ("agents-1", "mamba-3", ["full"] + ["mamba"] * 3, {"state_tokens": 544}, [21001, 30001, 45000, 70000, 110000, 200000]),
    ("chats-16", "mamba-3", ["full"] + ["mamba"] * 3, {"state_tokens": 544}, [2500, 4000, 7000, 15000]),
    ("chats-1", "mamba-3", ["full"] + ["mamba"] * 3, {"state_tokens": 544}, [21001, 30001, 60000, 150000]),
    ("fixed-16", "mamba-3", ["full"] + ["mamba"] * 3, {"state_tokens": 544, "outputs": "ignored"}, [1600, 2500, 4000, 9000]),
]

# HiCache under these pools: pairs of blocks of the device and of the host, each split by the engine's rule.
HICACHE_STATES = [
    ("agents-16", "mamba-3", ["full"] + ["mamba"] * 3, {"state_tokens": 544}, "write_through", [(2500, 2500), (2500, 10000), (4000, 2000), (4000, 8000), (6000, 24000), (9000, 9000)]),
    ("agents-16", "mamba-3", ["full"] + ["mamba"] * 3, {"state_tokens": 544}, "write_through_selective", [(2500, 2500), (2500, 10000), (4000, 2000), (4000, 8000), (6000, 24000), (9000, 9000)]),
    ("agents-16", "mamba-3", ["full"] + ["mamba"] * 3, {"state_tokens": 544}, "write_back", [(2500, 2500), (2500, 10000), (4000, 2000), (4000, 8000), (6000, 24000), (9000, 9000)]),
    ("short-turns-16", "mamba-3-ratio-0.4-chunk-512", ["full"] + ["mamba"] * 3, {"outputs": "ignored", "state_tokens": 544, "mamba_full_memory_ratio": 0.4, "prefill_chunk_tokens": 512}, "write_through", [(2200, 1100), (2200, 4400), (3000, 6000), (4500, 2000), (4500, 9000), (7000, 14000)]),
    ("short-turns-16", "mamba-3-ratio-0.4-chunk-512", ["full"] + ["mamba"] * 3, {"outputs": "ignored", "state_tokens": 544, "mamba_full_memory_ratio": 0.4, "prefill_chunk_tokens": 512}, "write_back", [(2200, 1100), (2200, 4400), (3000, 6000), (4500, 2000), (4500, 9000), (7000, 14000)]),
    ("agents-64", "mamba-3-chunk-512", ["full"] + ["mamba"] * 3, {"outputs": "ignored", "state_tokens": 544, "prefill_chunk_tokens": 512}, "write_through_selective", [(1200, 600), (1200, 2400), (1200, 6000), (2000, 2000), (3000, 3000), (3000, 12000)]),
    ("agents-1", "mamba-3", ["full"] + ["mamba"] * 3, {"state_tokens": 544}, "write_through", [(21001, 10000), (21001, 80000), (30001, 30000), (45000, 20000), (45000, 180000), (70000, 70000)]),
    ("chats-16", "mamba-3", ["full"] + ["mamba"] * 3, {"state_tokens": 544}, "write_through", [(2500, 1200), (2500, 5000), (4000, 4000), (7000, 14000)]),
    ("chats-16", "mamba-3", ["full"] + ["mamba"] * 3, {"state_tokens": 544}, "write_back", [(2500, 1200), (2500, 5000), (4000, 4000), (7000, 14000)]),
]

HICACHE_WINDOWS = [
    ("agents-16", "window-128", ["full", "window:128"], {"outputs": "ignored"}, "write_through", [(451, 225), (451, 2000), (601, 900), (901, 901), (901, 3600), (1401, 2800)]),
    ("agents-16", "window-128", ["full", "window:128"], {"outputs": "ignored"}, "write_through_selective", [(451, 225), (451, 2000), (601, 900), (901, 901), (901, 3600), (1401, 2800)]),
    ("agents-16", "window-128", ["full", "window:128"], {"outputs": "ignored"}, "write_back", [(451, 225), (451, 2000), (601, 900), (901, 901), (901, 3600), (1401, 2800)]),
    ("short-turns-16", "window-128-ratio-0.2-chunk-512", ["full", "window:128"], {"swa_full_tokens_ratio": 0.2, "prefill_chunk_tokens": 512}, "write_through", [(313, 150), (313, 620), (340, 1360), (421, 421), (421, 1700), (700, 1400)]),
    ("short-turns-16", "window-128-ratio-0.2-chunk-512", ["full", "window:128"], {"swa_full_tokens_ratio": 0.2, "prefill_chunk_tokens": 512}, "write_back", [(313, 150), (313, 620), (340, 1360), (421, 421), (421, 1700), (700, 1400)]),
    ("agents-16", "windows-1024-ratio-0.5", ["full"] + ["window:1024"] * 5, {"outputs": "ignored", "swa_full_tokens_ratio": 0.5, "prefill_chunk_tokens": 2048}, "write_through_selective", [(1301, 1300), (1301, 5200), (2500, 1250), (2500, 10000), (4000, 8000), (7001, 7001)]),
    ("agents-1", "window-128", ["full", "window:128"], {}, "write_back", [(2900, 1450), (2900, 12000), (3601, 5400), (5501, 5501), (5501, 22000), (9001, 18000)]),
    ("chats-16", "window-128", ["full", "window:128"], {}, "write_through", [(200, 100), (200, 600), (301, 301), (700, 1400)]),
    ("chats-16", "window-128", ["full", "window:128"], {}, "write_through_selective", [(200, 100), (200, 600), (301, 301), (700, 1400)]),
    ("chats-16", "window-128", ["full", "window:128"], {}, "write_back", [(200, 100), (200, 600), (301, 301), (700, 1400)]),
]


class Recording:
    def __init__(self, engine, workload, name, settings, capacities=None):
        self.engine = engine
        self.workload = workload
        self.name = name
        self.settings = settings
        self.capacities = capacities or BY_NAME[workload]["capacities"]


def hybrid(workload, name, groups, options, capacities):
    settings = {"outputs": "cached", "groups": groups, "retention": 0, "prefill_chunk_tokens": 8192} | options
    return Recording("vllm", workload, f"vllm_hybrid_{workload}_{name}", settings, capacities)


def vllm_load(workload, name, groups, options, capacities):
    told = {"groups": groups, "retention": 0} if groups else {}
    settings = {"outputs": "cached"} | told | {"prefill_chunk_tokens": 65_536, "step_ms": 250} | options
    return Recording("vllm", workload, f"vllm_load_{workload}_{name}", settings, capacities)


def sglang_load(workload, name, options, capacities):
    return Recording("sglang", workload, f"sglang_load_{workload}_{name}", {"outputs": "cached"} | options, capacities)


def chunked(workload, chunk, step_ms=None):
    settings = {"outputs": "ignored", "chunk_tokens": chunk} | ({"step_ms": step_ms} if step_ms else {})
    name = f"lmcache_{'load_' if step_ms else ''}{workload}_chunk-{chunk}"
    return Recording("lmcache", workload, name, settings)


def process(workload, chunk, shares, load=False):
    watermark, ratio = shares
    settings = {"outputs": "ignored", "chunk_tokens": chunk, "process": True, "watermark": watermark, "eviction_ratio": ratio}
    settings |= {"step_ms": 250} if load else {}
    name = f"lmcache-mp_{'load_' if load else ''}{workload}_chunk-{chunk}_{watermark}-{ratio}"
    return Recording("lmcache-mp", workload, name, settings)


def store(workload, rules, options, capacities=None):
    lease_ms, watermark, ratio = rules
    settings = {"outputs": "ignored", "lease_ms": lease_ms, "watermark": watermark, "eviction_ratio": ratio} | options
    load, told = "", "_bursts" if "burst_ms" in options else ""
    if step := options.get("step_ms"):
        chunk = options.get("prefill_chunk_tokens")
        load, told = "load_", f"_step-{step}" + (f"_chunk-{chunk}" if chunk else "")
    name = f"mooncake_{load}{workload}_{lease_ms // 1000}s-{watermark}-{ratio}{told}"
    return Recording("mooncake", workload, name, settings, capacities)


def chain(workload, chunk, pages, options=None, capacities=None):
    settings = {"outputs": "cached", "below": "lmcache", "below_pages": pages, "chunk_tokens": chunk} | (options or {})
    settings |= {"prefill_chunk_tokens": 65_536} if options else {}
    name = f"vllm-lmcache_{'load_' if options else ''}{workload}_chunk-{chunk}"
    return Recording("vllm", workload, name, settings, capacities or BY_NAME[workload]["capacities"][1:5])


def offload(workload, options, pages, capacities):
    settings = {"outputs": "cached", "below": "vllm-offload", "below_pages": pages, "policy": "lru", "store_threshold": 0}
    settings |= {"blocks_per_chunk": 1, "prefill_chunk_tokens": 8192} | options
    told = "".join(f"_{key.replace('_', '-')}-{value}" for key, value in options.items())
    name = f"vllm-offload_{workload}_{pages}{told}"
    return Recording("vllm", workload, name, settings, capacities)


def hybrid_offload(workload, layout, groups, options, pages, capacities):
    recording = offload(workload, options, pages, capacities)
    recording.settings = recording.settings | {"groups": groups, "retention": 0} | options
    recording.name = recording.name.replace(workload, f"hybrid_{workload}_{layout}")
    for said in ("_retention-None", "_retention-64", "_draft-tokens-1", "_draft-tokens-3", "_draft-layers-full", "_draft-layers-windows"):
        recording.name = recording.name.replace(said, "")
    return recording


def offload_load(workload, layout, *rest):
    recording = hybrid_offload(workload, layout, *rest)
    recording.name = f"vllm-offload_load_{workload}_{layout}"
    return recording


def hicache(workload, outputs, capacities, write, step_ms=None):
    settings = {"outputs": outputs, "write": write} | ({"step_ms": step_ms} if step_ms else {})
    name = f"sglang_hicache_{'load_' if step_ms else ''}{workload}_{write.replace('_', '-')}_{outputs}"
    return Recording("sglang", workload, name, settings, capacities)


def windows(workload, name, groups, options, capacities):
    settings = {"outputs": "cached", "groups": groups, "swa_full_tokens_ratio": 0.8, "prefill_chunk_tokens": 8192} | options
    return Recording("sglang", workload, f"sglang_pools_{workload}_{name}", settings, capacities)


def states(workload, name, groups, options, capacities):
    settings = {"outputs": "cached", "groups": groups, "mamba_full_memory_ratio": 0.9, "prefill_chunk_tokens": 8192} | options
    return Recording("sglang", workload, f"sglang_states_{workload}_{name}", settings, capacities)


def over_host(make, workload, name, groups, options, write, capacities):
    """The same over a host tier."""
    recording = make(workload, f"{name}_{write.replace('_', '-')}", groups, options | {"write": write}, capacities)
    recording.name = recording.name.replace("sglang_", "sglang_hicache_", 1)
    return recording


def recordings(engine):
    """All recordings of an engine."""
    if engine == "paper":
        return [Recording(engine, workload, f"paper_{workload}", {"outputs": "ignored"}) for workload in PLAIN]
    if engine == "mooncake":
        return [store(*each) for each in STORES + STORE_LOADS]
    if engine == "vllm_lmcache":
        return [chain(*each) for each in CHAINS + CHAIN_LOADS]
    if engine == "vllm_offload":
        return [offload(*each) for each in OFFLOADS] + [hybrid_offload(*each) for each in HYBRID_OFFLOADS + DRAFT_OFFLOADS] + [offload_load(*each) for each in OFFLOAD_LOADS]
    if engine == "lmcache":
        return [chunked(*each) for each in CHUNKS + CHUNK_LOADS] + [process(*each) for each in PROCESSES] + [process(*each, load=True) for each in PROCESS_LOADS]
    plain = [
        Recording(engine, workload, f"{engine}_{workload}_{outputs}", {"outputs": outputs})
        for workload in (SGLANG if engine == "sglang" else PLAIN)
        for outputs in OUTPUTS
    ]
    if engine == "sglang":
        drafts = [
            Recording(engine, workload, f"{engine}_draft_{workload}_{outputs}", {"outputs": outputs, "draft_tokens": 1})
            for workload, outputs in SGLANG_DRAFTS
        ]
        hicaches = [hicache(*each, write) for each in HICACHES for write in WRITES]
        loads = [sglang_load(*each) for each in SGLANG_LOADS]
        loads += [hicache(*each[:2], each[3], write, each[2]) for each in HICACHE_LOADS for write in WRITES]
        pools = [windows(*each) for each in SGLANG_WINDOWS] + [states(*each) for each in SGLANG_STATES]
        pools += [over_host(states, *each) for each in HICACHE_STATES] + [over_host(windows, *each) for each in HICACHE_WINDOWS]
        return plain + drafts + hicaches + pools + loads
    drafts = [(*each[:3], {"draft_tokens": 1} | each[3], each[4]) for each in DRAFTS + DRAFT_PLACES]
    return plain + [hybrid(*each) for each in HYBRIDS + drafts] + [vllm_load(*each) for each in VLLM_LOADS]
