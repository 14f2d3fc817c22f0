"""The paper's order, a page at a time: LRU over prompt pages, touched from the root to the leaf.

No engine: a model so short that it can be read as the definition. A request is looked up before anything moves;
then its pages are touched in prefix order, and where there are too many, the one touched longest ago goes.
"""

from collections import OrderedDict

VERSION = "definition"


def drive(requests, settings, capacity):
    """Pages of the leading run that were in the cache, for each request in order."""
    held = OrderedDict()
    answers = []
    for request in requests:
        hits = 0
        while hits < len(request.pages) and request.pages[hits] in held:
            hits += 1
        answers.append(hits)
        for page in request.pages:
            held.pop(page, None)
            held[page] = None
            if len(held) > capacity:
                held.popitem(last=False)
    return answers
