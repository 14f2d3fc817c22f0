"""SGLang: what its scheduler does with one request, and with requests that overlap, each step by the engine's own function:
`lock` pins, `alloc_paged_token_slots_extend` and `_decode` evict and take pages (`alloc_token_slots` where a page is a token, as
in `alloc_for_extend` and `alloc_for_decode`), `checkpoint_kv_cache` inserts after the prefill, `release_kv_cache` at the end.
"""

from array import array

import torch
from sglang.srt.managers.schedule_batch import FINISH_LENGTH, Req
from sglang.srt.mem_cache.allocation import (
    alloc_paged_token_slots_decode,
    alloc_paged_token_slots_extend,
    alloc_req_slots,
    alloc_token_slots,
)
from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
from sglang.srt.mem_cache.common import checkpoint_kv_cache, release_kv_cache
from sglang.srt.sampling.sampling_params import SamplingParams

MAX_CONTEXT = 65_536


def allocator_of(size, page_size, kvcache=None):
    """The engine's allocator of slots for so many tokens, page 0 for padding on top."""
    told = {"dtype": torch.float16, "device": "cpu", "kvcache": kvcache, "need_sort": False}
    if page_size == 1:
        return TokenToKVPoolAllocator(size, **told)
    return PagedTokenToKVPoolAllocator(size, page_size=page_size, **told)


def take_slots(tree, hits, length, last_loc):
    """Slots for the tokens of a prompt from the first that was not found on."""
    if tree.token_to_kv_pool_allocator.page_size == 1:
        return alloc_token_slots(tree, length - hits)
    return alloc_paged_token_slots_extend(
        tree_cache=tree,
        prefix_lens=torch.tensor([hits]),
        prefix_lens_cpu=torch.tensor([hits]),
        seq_lens=torch.tensor([length]),
        seq_lens_cpu=torch.tensor([length]),
        last_loc=last_loc,
        extend_num_tokens=length - hits,
    )


def take_next_slots(tree, lengths, last_loc):
    """The slot of one more token of each request."""
    if tree.token_to_kv_pool_allocator.page_size == 1:
        return alloc_token_slots(tree, len(lengths))
    lengths = torch.tensor(lengths) + 1
    return alloc_paged_token_slots_decode(tree_cache=tree, seq_lens=lengths, seq_lens_cpu=lengths, last_loc=last_loc)


def prefill(tree, req):
    """Takes pages for what was not matched, or not computed in a chunk before, and writes them into the request's row."""
    rows = tree.req_to_token_pool
    prefix = torch.empty((0,), dtype=torch.int64)
    if req.kv.holds_kv:
        prefix = rows.req_to_token[req.kv.req_pool_idx, : req.prefix_len].to(torch.int64)
    elif req.prefix_len:
        prefix = tree.prefix_device_indices(req)
    hits, length = req.prefix_len, req.extend_end
    [row] = alloc_req_slots(rows, [req], tree)
    slots = take_slots(tree, hits, length, prefix[-1:] if hits else torch.tensor([-1]))
    rows.write((row, slice(0, hits)), prefix.to(torch.int32))
    rows.write((row, slice(hits, length)), slots.to(torch.int32))
    req.kv.kv_allocated_len = req.kv.kv_committed_len = length


def decode(tree, req):
    """Takes the slot of one more token."""
    rows, row, length = tree.req_to_token_pool, req.kv.req_pool_idx, req.kv.kv_committed_len
    slot = take_next_slots(tree, [length], rows.req_to_token[row, length - 1 : length].to(torch.int64))
    rows.write((row, slice(length, length + 1)), slot.to(torch.int32))
    req.kv.kv_allocated_len += 1
    req.kv.kv_committed_len += 1


def decode_together(tree, reqs):
    """Takes the slots of one more token of each request."""
    rows = tree.req_to_token_pool
    lengths = [req.kv.kv_committed_len for req in reqs]
    last = [rows.req_to_token[req.kv.req_pool_idx, length - 1] for req, length in zip(reqs, lengths)]
    slots = take_next_slots(tree, lengths, torch.stack(last).to(torch.int64))
    for req, length, slot in zip(reqs, lengths, slots):
        rows.write((req.kv.req_pool_idx, slice(length, length + 1)), slot.reshape(1).to(torch.int32))
        req.kv.kv_allocated_len += 1
        req.kv.kv_committed_len += 1


def match_and_prefill(tree, req):
    """Matches a request, and takes pages for the rest of its prompt; tokens found."""
    req.init_next_round_input(tree)
    found = req.prefix_len
    req.extend_end = len(req.full_untruncated_fill_ids)
    req.lock = tree.lock(req.last_node)
    prefill(tree, req)
    return found


def nothing(_):
    pass


def serve_together(tree, requests, outputs_cached, step_ms, admit=match_and_prefill, begins=nothing, ends=nothing):
    """Serves requests that overlap, each from the first step that begins at its time or later. A step ends those that have all
    their tokens, takes a token of each request in flight, and then prefills those that have come, one after another; what else
    it begins and ends with is given. What `admit` found of each."""
    waiting = [(-(-request.time_ms // step_ms), str(at), request) for at, request in enumerate(requests)]
    hits, running, at, most = [], [], 0, 0
    while waiting or running:
        at = max(at, waiting[0][0]) if not running else at
        begins(tree)
        for req, wanted, _ in [each for each in running if len(each[0].output_ids) >= each[1]]:
            req.finished_reason = FINISH_LENGTH(length=wanted)
            req.finished_len = wanted
            release_kv_cache(req, tree, checkpoint=True)
        running = [each for each in running if len(each[0].output_ids) < each[1]]
        if running:
            decode_together(tree, [req for req, _, _ in running])
            for req, _, token in running:
                req.output_ids.append(token(len(req.output_ids)))
        while waiting and waiting[0][0] <= at:
            _, name, request = waiting.pop(0)
            req, wanted = begin(request, outputs_cached, name)
            hits.append(admit(tree, req))
            req.output_ids.append(request.answer(0))
            checkpoint_kv_cache(req, tree)
            running.append((req, wanted, request.answer))
        ends(tree)
        most = max(most, len(running))
        at += 1
    print(f"at most {most} in flight", flush=True)
    return hits


def begin(request, outputs_cached, name):
    """A request of the engine's, and how many tokens it generates."""
    wanted = request.output_length if outputs_cached else 1
    params = SamplingParams(max_new_tokens=wanted, ignore_eos=True)
    params.normalize(None)
    return Req(name, "", array("q", request.prompt()), params), wanted


def answer(tree, req, wanted, token, step, begins=nothing, ends=nothing):
    """Generates so many tokens, each but the first in a `step` of the scheduler, and ends the request; which token comes at a
    place, and what else a step begins and ends with, is given."""
    req.output_ids.append(token(0))
    if wanted > 1:
        checkpoint_kv_cache(req, tree)
        while len(req.output_ids) < wanted:
            ends(tree)
            begins(tree)
            step(tree, req)
            req.output_ids.append(token(len(req.output_ids)))
    req.finished_reason = FINISH_LENGTH(length=wanted)
    req.finished_len = wanted
    release_kv_cache(req, tree, checkpoint=True)
    ends(tree)
